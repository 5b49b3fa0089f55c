"""`poweron sources`: every page of the web that an answer cites, and whether what is quoted from it stands there."""

from collections.abc import Sequence

from rich.text import Text

from poweron_services.cli.error_messages import check_id, sentences
from poweron_services.cli.output import one_line, print_beside, print_json, printable, stdout, tell, utc
from poweron_services.cli.query_commands import with_rows
from poweron_services.client.source_check import CheckedQuote, Source, check_sources

STYLES = {"found": "green", "not found": "bold red", "missing": "yellow", "not quoted": "dim"}
WIDTH = max(map(len, STYLES)) + 2


@sentences()
def sources(workflow: str, *, as_json: bool) -> None:
    """Show what the answers of a workflow cite."""
    check_id(workflow)
    found = with_rows(lambda connections: check_sources(connections, workflow))
    for name in found.missing:
        tell(f"{one_line(name)!r} is not in the content store any more, so nothing can be looked up in it.")
    if as_json:
        print_json(found.model_dump(mode="json", by_alias=True))
        return
    for source in found.sources:
        _print(source)
    if not found.sources:
        stdout.print("No answer of this workflow cites a page of the web.")


def _print(source: Source) -> None:
    stdout.print(Text(f"[{source.n}]  {one_line(source.title or source.url)}", style="bold"))
    stdout.print(Text(f"     {printable(source.url)}"))
    stdout.print(Text(f"     fetched {utc(source.fetched_at)} UTC, SHA-256 {source.sha256}", style="dim"))
    for statement in source.statements:
        _print_statement(statement, source.n, [quote for quote in source.quotes if quote.statement == statement])


def _print_statement(statement: str, n: int, quotes: Sequence[CheckedQuote]) -> None:
    """A statement with the documents that hold it, and what became of each of its quotes."""
    held = zip(quotes[0].documents, quotes[0].cited_as, strict=True)
    said = f"{statement} ({', '.join(_name(reference, n, number) for reference, number in held)})"
    if len(quotes) == 1 and quotes[0].quote in (None, statement.strip('“”"')):
        print_beside(stdout, _margin(quotes[0].result), said)
        return
    print_beside(stdout, _margin(""), said)
    for quote in quotes:
        print_beside(stdout, _margin(quote.result), f"“{quote.quote}”")


def _margin(result: str) -> Text:
    return Text("     ") + Text(f"{result:<{WIDTH}}", style=STYLES.get(result, ""))


def _name(reference: str, n: int, number: int) -> str:
    """A document, and the number that the source has in it where that is another one."""
    return reference.removeprefix("docItem:") + ("" if number == n else f", there [{number}]")
