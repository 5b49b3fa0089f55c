"""The commands that show what is in the log and in the rows, and which sources answers cite."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, suppress
from itertools import zip_longest
from typing import Annotated, TypeVar

import typer
from pydantic import ValidationError
from rich.text import Text

from poweron_events import topics
from poweron_events.actor import Actor
from poweron_events.client import Heard
from poweron_events.codec import Undecodable, read_record
from poweron_events.errors import LogLost
from poweron_events.event import PREFIX, READING
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Workflow
from poweron_events.log import Record
from poweron_projections import open_questions, reader
from poweron_projections.entries import ApprovalEntry, EventEntry, HistoryEntry, WorkflowSummary
from poweron_projections.verify import catch_up
from poweron_services.cli.advice import LOG_LOST, advice
from poweron_services.cli.arguments import AsJson, Limit, WorkflowId
from poweron_services.cli.error_messages import check_id, load_settings, run_work, sentence, sentences
from poweron_services.cli.event_lines import STYLES, Narrator, tell_how_to_answer
from poweron_services.cli.output import one_line, print_beside, print_json, print_row, printable, stdout, tell, utc
from poweron_services.cli.progress_bar import ProgressWatch, watching_progress
from poweron_services.cli.standard_streams import abandoned
from poweron_services.client.cancel import why_unknown
from poweron_services.client.client_errors import UnknownWorkflow
from poweron_services.client.connect import Connections
from poweron_services.client.erasures import lifetime
from poweron_services.client.event_words import size, waiting
from poweron_services.client.follow import HINT_AFTER
from poweron_services.client.source_check import CheckedQuote, CitedDocument, Source, Sources, check_sources
from poweron_services.client.workflow_snapshot import reasons, recorded_history, verified_records
from poweron_services.connectors.document_reader import text_reader
from poweron_services.standalone import open_connections

PAGE = 500  # records fetched at a time
WIDE = 110  # columns of a terminal with room for the year of a workflow as well as its prompt
EVENT = {"seq", "type", "verdict", "partition", "offset", "time", "id", "source", "causationid", "data"}

Before = Annotated[
    int | None,
    typer.Option("--before", metavar="SEQ", min=0, max=2**31 - 1, help="Only entries before this seq."),
]
Result = TypeVar("Result")


def with_rows(work: Callable[[Connections], Awaitable[Result]]) -> Result:
    """Run `work` on the rows, once they hold everything that the log holds now."""

    async def caught_up() -> Result:
        async with open_connections(load_settings(), tell) as connections:
            await bring_rows_on(connections)
            return await work(connections)

    return run_work(caught_up())


async def bring_rows_on(connections: Connections) -> None:
    """Catch the rows up with the log; if events are missing, report it and leave the rows as they are."""
    try:
        await catch_up(connections.log, connections.pool)
    except LogLost as error:
        tell(f"{sentence(error)} These are the rows as they were. {LOG_LOST}", style="yellow")


async def _expect_known(connections: Connections, workflow: str, entries: Sequence[object]) -> None:
    """Raise UnknownWorkflow if nothing was found and the workflow does not exist."""
    if not entries and await reader.workflow(connections.pool, workflow) is None:
        raise UnknownWorkflow(workflow)


QUIET = HINT_AFTER["request"]  # seconds without an event until a hint says that possibly no process is serving
NOTHING_HAPPENS = (
    f"Nothing has happened for {QUIET:g} s. If no `poweron serve` and no `poweron ask` runs on these servers, "
    "no process does the work: start one."
)


@sentences()
def workflows(limit: Limit = 20, as_json: AsJson = False) -> None:
    """List workflows, newest first."""
    summaries = with_rows(lambda connections: reader.workflows(connections.pool, limit=limit))
    if as_json:
        for summary in summaries:
            print_json(summary.model_dump(mode="json", by_alias=True))
        return
    for summary in summaries:
        print_workflow(summary)
    if not summaries:
        stdout.print("There are no workflows yet. Ask for something with `poweron ask`.")


def print_workflow(workflow: WorkflowSummary) -> None:
    """Print one line of the list, even on a narrow terminal; a workflow that waits for approval is highlighted."""
    narrow = stdout.is_terminal and stdout.width < WIDE
    opening_time, columns = (workflow.opened[5:16], 9) if narrow else (workflow.opened[:16], 11)
    margin = Text(f"{workflow.workflow_id}  {opening_time.replace('T', ' ')}  ", style="dim")
    waits = workflow.phase == "approve" and workflow.status == "running"
    asks = workflow.budget_question is not None and workflow.status == "running"
    status = "stuck" if workflow.stuck else "approval" if waits else "budget" if asks else workflow.status
    margin.append(f"{status.replace('_', ' '):<{columns}}  ", style=STYLES.get(status, "bold"))
    print_row(stdout, margin, workflow.prompt or "")


@sentences()
def history(
    *,
    workflow: WorkflowId,
    limit: Limit = 50,
    before: Before = None,
    verify: Annotated[bool, typer.Option("--verify", help="Compare its rows with the log first.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a workflow's history, newest first.

    Reads the rows in Postgres as they are; with --verify, compares them with the log first.
    """
    check_id(workflow)

    async def read(connections: Connections) -> tuple[list[HistoryEntry], list[ApprovalEntry]]:
        if verify:
            await verified_records(connections, workflow)
        entries = await reader.history(connections.pool, workflow, limit=limit, before_seq=before)
        await _expect_known(connections, workflow, entries)
        return entries, [] if before is not None else await open_questions.approvals(connections.pool, workflow)

    entries, approvals = with_rows(read)
    if not entries and before is None:
        tell(
            f"It was never opened, so it has no history; `poweron events {workflow}` shows what became of its request."
        )
    for approval in approvals:
        tell(waiting(one_line(approval.action)))
        tell_how_to_answer(workflow)
    for entry in entries:
        if as_json:
            print_json(entry.model_dump(mode="json", by_alias=True))
        else:
            _print_entry(entry)
    if entries and entries[-1].seq > 0 and len(entries) == limit and not as_json:
        tell(f"Older entries: poweron history {workflow} --before {entries[-1].seq}")


def _print_entry(entry: HistoryEntry) -> None:
    place = f"round {entry.round}" + (f" task {entry.task}" if entry.task else "")
    place += f" step {entry.step}" if entry.step else ""
    margin = Text(f"{entry.seq:>4}  {entry.time[11:19]}  {place:<23}", style="dim")
    label = one_line(entry.action or entry.kind.replace("_", " "), 24)
    text = entry.summary or entry.message
    if stdout.is_terminal:
        stdout.print(margin + Text(label, style="bold"))
        margin = Text("      ")
        print_beside(stdout, margin, text)
    else:
        margin.append(f"{label:<24}  ", style="bold")
        print_beside(stdout, margin, text)
        margin = Text("      ")
    details = [
        *([f"by: {entry.actor.described}"] if entry.actor else []),
        *([f"error: {entry.error}"] if entry.error else []),
        *(f"finding: {finding}" for finding in entry.findings),
        *(f"link: {link}" for link in entry.links),
        *(f"learning: {learning}" for learning in entry.learnings),
        *_shown_references(entry),
    ]
    for detail in details:
        print_beside(stdout, margin, detail)


def _shown_references(entry: HistoryEntry) -> Iterator[str]:
    """Yield the documents of an entry, with the references that steps of a later round can use."""
    lists = len(entry.references) - len(entry.documents)
    yield from (f"documents: {reference}" for reference in entry.references[:lists])
    for reference, document in zip(entry.references[lists:], entry.documents, strict=True):
        yield f"document: {reference} ({size(document.size)})"


@sentences()
def events(workflow: WorkflowId, as_json: AsJson = False) -> None:
    """Show every event of a workflow, oldest first.

    Each has its verdict: accepted, or superseded if another event came first. Refusals and answers of people without
    effect say why.
    """
    check_id(workflow)

    async def show(connections: Connections) -> None:
        whys = reasons(await recorded_history(connections, workflow))
        last = -1
        while page := await reader.events(connections.pool, workflow, after_seq=last, limit=PAGE):
            for event in page:
                _print_event(event, whys.get(event.seq), as_json=as_json)
            last = page[-1].seq

    with_rows(show)


def _print_event(event: EventEntry, why: str | None, *, as_json: bool) -> None:
    if as_json:
        print_json(event.model_dump(mode="json", by_alias=True, include=EVENT) | ({"why": why} if why else {}))
        return
    line = Text(f"{event.seq:>4}  {event.time[11:23]}  {event.partition:>2}/{event.offset:<6}", style="dim")
    line.append(f"{one_line(event.type).removeprefix(PREFIX):<28}", style="bold")
    line.append(event.verdict, style="green" if event.verdict == "accepted" else "yellow")
    if (actor := _actor(event)) is not None:
        line.append(f"  by {one_line(actor.described)}")
    if why is not None:
        line.append(f"  {one_line(why)}", style="italic")
    stdout.print(line)


def _actor(event: EventEntry) -> Actor | None:
    """Return who acted; None if the record names no actor that this release can read."""
    given = event.data.get("actor") if isinstance(event.data, dict) else None
    try:
        return None if given is None else Actor.model_validate(given, extra="ignore", context=READING)
    except ValidationError:
        return None


@sentences()
def deadletters(limit: Limit = 50, as_json: AsJson = False) -> None:
    """Show records that cannot be read, and why.

    Newest first. With --json, each includes its bytes as base64.
    """
    letters = with_rows(lambda connections: reader.dead_letters(connections.pool, limit=limit))
    for letter in letters:
        if as_json:
            print_json(letter.model_dump(mode="json", by_alias=True))
        else:
            place = f"{one_line(letter.topic)} {letter.partition}/{letter.offset}"
            margin = Text(f"{utc(letter.time)}  {place:<24}  {size(letter.size):>9}  ", style="dim")
            print_beside(stdout, margin, letter.reason)
    if not letters and not as_json:
        stdout.print("There are no dead letters.")


@sentences()
def watch(workflow: WorkflowId, as_json: AsJson = False) -> None:
    """Follow a workflow until its round has ended.

    Shows every event so far, then each new one as it happens.
    """
    check_id(workflow)
    run_work(_watch(workflow, as_json=as_json), lambda: f"Stopped watching; workflow {workflow} continues without you.")


async def _watch(workflow_id: str, *, as_json: bool) -> None:
    async with open_connections(load_settings(), tell) as connections:
        log, name = connections.log, topics.EVENTS.name
        partition = log.partition_of(name, workflow_id.encode())
        end = (await log.ends(name))[partition]
        if not end:
            await _tell_pending(connections, workflow_id)
        async with watching_progress(connections.progress) as watch, aclosing(log.tail(name, {partition: 0})) as tail:
            watching = _Watching(workflow_id, _print_now if as_json else _print_with_bar(watch))
            watch.begin(workflow_id, watching.goes_on)
            async for records in tail:
                watching.goes_on()
                for record in records:
                    watching.take(record)
                if abandoned():
                    return
                if end and records[-1].offset + 1 >= end and not watching.workflow.seq:
                    await _tell_pending(connections, workflow_id)
                    end = 0  # reported once; all later records are new
                if records[-1].offset + 1 >= end and watching.has_ended:
                    break
                if not _waits_for_person(watching.workflow):
                    watching.hint = asyncio.get_running_loop().call_later(QUIET, tell, NOTHING_HAPPENS)


def _waits_for_person(workflow: Workflow) -> bool:
    return workflow.phase == "approve" or workflow.asks_for_budget or workflow.is_paused


async def _tell_pending(connections: Connections, workflow_id: str) -> None:
    """Report why a requested workflow is not open yet; raise UnknownWorkflow if it was never requested."""
    error = await why_unknown(connections, workflow_id)
    if isinstance(error, UnknownWorkflow):
        raise error
    if error.request is not None:
        tell(f"{sentence(error)} {advice(error)}")


class _Watching:
    """A workflow, folded from its events as they arrive."""

    def __init__(self, workflow_id: str, on_record: Callable[[Heard], None]) -> None:
        self.hint = asyncio.get_running_loop().call_later(QUIET, tell, NOTHING_HAPPENS)
        self.workflow = Workflow(workflow_id)
        self._heard = on_record

    @property
    def has_ended(self) -> bool:
        """Whether the workflow exists, and no round of it is open."""
        return self.workflow.seq > 0 and not self.workflow.is_open

    def goes_on(self) -> None:
        """Cancel the hint that nothing happens."""
        self.hint.cancel()

    def take(self, record: Record) -> None:
        with suppress(Undecodable):
            recorded = read_record(record)
            if recorded.envelope.workflow_id == self.workflow.id:
                self.workflow, verdict = evolve(self.workflow, recorded)
                self._heard(Heard(recorded, verdict, self.workflow))


def _print_with_bar(watch: ProgressWatch) -> Callable[[Heard], None]:
    """Print each event, after hiding the bar of a step that it ends."""
    narrator = Narrator()

    def report(record: Heard) -> None:
        watch.bar.heard(record)
        narrator(record)

    return report


def _print_now(record: Heard) -> None:
    """Print an event as `events --json` does."""
    recorded, envelope = record.recorded, record.recorded.envelope
    print_json(
        {
            "seq": record.workflow.seq - 1,
            "type": envelope.type,
            "verdict": record.verdict,
            "partition": recorded.partition,
            "offset": recorded.offset,
            "time": reader.time(recorded.time_ms),
            "id": envelope.id,
            "source": envelope.source,
            "causationid": envelope.cause.id if envelope.cause else None,
            "data": envelope.event.model_dump(mode="json", by_alias=True) if envelope.event else None,
        }
    )


SOURCE_STYLES = {
    "found": "green",
    "calculated": "green",
    "not found": "bold red",
    "missing": "yellow",
    "not quoted": "dim",
}
SOURCE_WIDTH = max(map(len, SOURCE_STYLES)) + 2
NO_MARKS = str.maketrans("", "", '“”"')


@sentences()
def sources(workflow: WorkflowId, as_json: AsJson = False) -> None:
    """Show what a workflow's answers cite, and check the quotes.

    Shows each web page with its address, its title, when it was fetched and the SHA-256 of its bytes, each document
    with its place, the statements that cite it, and whether their quotes appear there: found, calculated with the cells
    that give the value, not found, not quoted, or missing if the source is no longer stored.
    """
    check_id(workflow)

    async def check(connections: Connections) -> Sources:
        sources = await check_sources(connections, workflow, text_reader(load_settings().ocr_command))
        if sources.missing and (words := await lifetime(connections.pool, workflow)):
            tell(printable(words))
        return sources

    result = with_rows(check)
    for name in result.missing:
        tell(f"{one_line(name)!r} is no longer in the content store, so citations in it, or of it, cannot be checked.")
    if as_json:
        print_json(result.model_dump(mode="json", by_alias=True))
        return
    for source in result.sources:
        _print_page(source)
    for document in result.documents:
        _print_document(document)
    if not result.sources and not result.documents and not result.missing:
        stdout.print("No answer of this workflow cites a web page or a document.")


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
    if len(quotes) == 1 and quotes[0].quote in (None, statement.translate(NO_MARKS)):
        print_beside(stdout, _margin(quotes[0].result), line)
        _print_cells(quotes[0])
        return
    print_beside(stdout, _margin(""), line)
    for quote in quotes:
        print_beside(stdout, _margin(quote.result), f"“{quote.quote}”")
        _print_cells(quote)


def _print_cells(quote: CheckedQuote) -> None:
    """Print the cells from which a value was calculated."""
    if quote.cells:
        more = quote.cell_count - len(quote.cells)
        print_beside(stdout, _margin(""), f"from {'; '.join(quote.cells)}{f'; and {more} more' if more else ''}")


def _margin(result: str) -> Text:
    return Text("     ") + Text(f"{result:<{SOURCE_WIDTH}}", style=SOURCE_STYLES.get(result, ""))


def _name(reference: str, n: int, number: int) -> str:
    """Name a document, with the number of the source in it if that is a different one."""
    return reference.removeprefix("docItem:") + ("" if number == n else f", there [{number}]")
