"""`poweron sources`: every page of the web that an answer cites, and whether what is quoted from it stands there."""

from rich.text import Text

from poweron_services.cli.error_messages import check_id, sentences
from poweron_services.cli.output import one_line, print_beside, print_json, printable, stdout, tell, utc
from poweron_services.cli.query_commands import with_rows
from poweron_services.client.source_check import CheckedQuote, Source, check_sources

STYLES = {"found": "green", "not found": "bold red", "not quoted": "dim"}
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
    for quote in source.quotes:
        _print_quote(quote)


def _print_quote(quote: CheckedQuote) -> None:
    margin = Text("     ") + Text(f"{quote.result:<{WIDTH}}", style=STYLES[quote.result])
    print_beside(stdout, margin, f"“{quote.quote}”" if quote.quote else _said(quote))
    if quote.quote:
        print_beside(stdout, Text(" " * margin.cell_len), _said(quote))


def _said(quote: CheckedQuote) -> str:
    return f"{quote.statement} ({', '.join(quote.documents)})"
