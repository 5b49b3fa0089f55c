"""`poweron sources`: show the pages and documents that answers cite, and whether the quotes appear in them."""

from collections.abc import Sequence
from itertools import zip_longest

from rich.text import Text

from poweron_services.cli.arguments import AsJson, WorkflowId
from poweron_services.cli.error_messages import check_id, load_settings, sentences
from poweron_services.cli.output import one_line, print_beside, print_json, printable, stdout, tell, utc
from poweron_services.cli.query_commands import with_rows
from poweron_services.client.source_check import CheckedQuote, CitedDocument, Source, check_sources
from poweron_services.connectors.document_reader import UnreadableDocument, extract
from poweron_services.connectors.text_recognition import TextRecognition

STYLES = {"found": "green", "not found": "bold red", "missing": "yellow", "not quoted": "dim"}
WIDTH = max(map(len, STYLES)) + 2


@sentences()
def sources(workflow: WorkflowId, as_json: AsJson = False) -> None:
    """Show what a workflow's answers cite, and check the quotes.

    Shows each web page with its address, its title, when it was fetched and the SHA-256 of its bytes, each document
    with its place, the statements that cite it, and whether their quotes appear there: found, not found, not quoted,
    or missing if the source is no longer stored.
    """
    check_id(workflow)
    result = with_rows(lambda connections: check_sources(connections, workflow, _read))
    for name in result.missing:
        tell(f"{one_line(name)!r} is no longer in the content store, so its quotes cannot be checked.")
    if as_json:
        print_json(result.model_dump(mode="json", by_alias=True))
        return
    for source in result.sources:
        _print_page(source)
    for document in result.documents:
        _print_document(document)
    if not result.sources and not result.documents:
        stdout.print("No answer of this workflow cites a web page or a document.")


async def _read(data: bytes, name: str) -> str:
    command = load_settings().ocr_command
    try:
        document = await extract(data, name, recognition=TextRecognition(command) if command else None)
    except UnreadableDocument:
        return ""
    return document.markdown()


def _print_page(source: Source) -> None:
    stdout.print(Text(f"[{source.n}]  {one_line(source.title or source.url)}", style="bold"))
    stdout.print(Text(f"     {printable(source.url)}"))
    stdout.print(Text(f"     fetched {utc(source.fetched_at)} UTC, SHA-256 {source.sha256}", style="dim"))
    _print_statements(source)


def _print_document(document: CitedDocument) -> None:
    stdout.print(Text(f"[{document.n}]  {one_line(', '.join((document.document, *document.places)))}", style="bold"))
    texts = ", ".join(reference.removeprefix("docItem:") for reference in document.texts)
    stdout.print(Text(f"     compared with {one_line(texts)}", style="dim"))
    _print_statements(document)


def _print_statements(source: Source | CitedDocument) -> None:
    for statement in source.statements:
        _print_statement(statement, source.n, [quote for quote in source.quotes if quote.statement == statement])


def _print_statement(statement: str, n: int, quotes: Sequence[CheckedQuote]) -> None:
    """Print a statement with the documents that contain it, and the result for each of its quotes."""
    references = zip_longest(quotes[0].documents, quotes[0].cited_as, fillvalue=n)
    line = f"{statement} ({', '.join(_name(str(reference), n, number) for reference, number in references)})"
    if len(quotes) == 1 and quotes[0].quote in (None, statement.strip('“”"')):
        print_beside(stdout, _margin(quotes[0].result), line)
        return
    print_beside(stdout, _margin(""), line)
    for quote in quotes:
        print_beside(stdout, _margin(quote.result), f"“{quote.quote}”")


def _margin(result: str) -> Text:
    return Text("     ") + Text(f"{result:<{WIDTH}}", style=STYLES.get(result, ""))


def _name(reference: str, n: int, number: int) -> str:
    """Name a document, with the number of the source in it if that is a different one."""
    return reference.removeprefix("docItem:") + ("" if number == n else f", there [{number}]")
