"""The pages of the log: every record of a workflow or of all, newest first, with verdict, cause and reason."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, get_args
from urllib.parse import quote

import orjson
from fastapi import APIRouter, Query, Request, Response
from pydantic import Field, ValidationError
from starlette.responses import HTMLResponse, StreamingResponse

from poweron_events.actor import Actor
from poweron_events.event import PREFIX, READING, Role
from poweron_events.fold.state import Verdict
from poweron_events.instance_events import instance_id, instance_of
from poweron_events.request import PolicyApplied
from poweron_events.stream import WORKFLOW_EVENTS
from poweron_events.topics import EVENTS
from poweron_projections import reader
from poweron_projections.connection import Pool
from poweron_projections.entries import EventEntry, WorkflowSummary
from poweron_projections.record_log import LogFilter, LogRecord, Offsets, role_of, whole_log, workflow_log
from poweron_services.client.connect import Connections
from poweron_services.client.event_words import shown_value, told_lines
from poweron_services.client.workflow_snapshot import folded_history, reasons
from poweron_services.door.access import Reader
from poweron_services.door.door_state import DoorOf, DoorState, Opened
from poweron_services.door.json_responses import dumped
from poweron_services.door.page_rendering import rendered
from poweron_services.door.query_parameters import MAX_SEQ, PageFilter, WorkflowId
from poweron_services.door.query_route import QueryRoute
from poweron_services.door.record_rows import PostgresRows, format_offsets, parse_offsets
from poweron_services.door.workflow_queries import find_workflow

router = APIRouter(route_class=QueryRoute, default_response_class=HTMLResponse)

PAGE: Final = 50  # records
DOWNLOADED: Final = 500  # records fetched at a time
NARRATED: Final = 3_000  # records of a workflow up to which each is put into words, since that folds all of them
TYPES: Final = tuple(sorted(WORKFLOW_EVENTS))
VERDICTS: Final = (*get_args(Verdict), "undecodable")
ROLES: Final = get_args(Role)
LATE: Final = "It came out of turn: the workflow was not waiting for it."
LINE: Final = {"seq", "type", "verdict", "partition", "offset", "time", "id", "source", "causationid", "data"}
Text = Annotated[str, Field(max_length=100)]


class LogQuery(PageFilter):
    """The filter of a log."""

    type: Text = ""
    verdict: Text = ""
    role: Text = ""

    @property
    def wanted(self) -> LogFilter:
        """The filter of the rows."""
        sets = (frozenset(filter(None, (value,))) for value in (self.type, self.verdict, self.role))
        return LogFilter(*sets)


Filter = Annotated[LogQuery, Query()]


@dataclass(frozen=True, slots=True)
class Narration:
    """The records of a workflow in words, by their number."""

    words: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    whys: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LogLine:
    """A record as a page shows it."""

    record: LogRecord
    word: str
    sentence: str
    why: str
    """Why it had no effect, or why a request was refused."""
    actor: Actor | None

    @property
    def type(self) -> str:
        """Its type without the prefix that all have."""
        entry = self.record.entry
        return "no event" if entry is None else entry.type.removeprefix(PREFIX)

    @property
    def link(self) -> tuple[str, str]:
        """What the record is about, in a word or two, and the address of its page."""
        record, entry = self.record, self.record.entry
        if entry is None or record.workflow_id is None:
            place = f"{record.partition}/{record.offset}"
            return place, f"/operations/deadletters/{EVENTS.name}/{place}"
        instance = instance_of(entry.source)
        if record.workflow_id == instance_id(instance):
            return "process", f"/operations/processes/{quote(instance, safe='')}"
        if entry.type == PolicyApplied.TYPE:
            number = entry.data.get("number") if isinstance(entry.data, dict) else None
            return f"policy {number}", f"/policy/{number}" if record.verdict == "accepted" else "/policy"
        return f"{record.workflow_id[:8]} · {entry.seq}", f"/w/{record.workflow_id}/at/{entry.seq}"


@router.get("/w/{workflow_id}/log")
async def workflow_log_page(
    *,
    request: Request,
    workflow_id: WorkflowId,
    connections: Opened,
    door: DoorOf,
    _: Reader,
    query: Filter,
    before: Annotated[int | None, Query(ge=0, le=MAX_SEQ)] = None,
) -> Response:
    """Show the records of a workflow, newest first."""
    workflow = await find_workflow(connections, workflow_id)
    page = await workflow_log(connections.pool, workflow_id, before=before, limit=PAGE, wanted=query.wanted)
    narration = await _narration(door, connections, workflow)
    next_ = None if page.next is None else query.address_at(request.url.path, before=str(page.next[0]))
    lines = [_line(record, narration) for record in page.records]
    return _page(request, query, lines, page, workflow=workflow, next_=next_, is_first=before is None)


@router.get("/log")
async def whole_log_page(
    *,
    request: Request,
    connections: Opened,
    _: Reader,
    query: Filter,
    before: Annotated[str | None, Query(max_length=400)] = None,
) -> Response:
    """Show the records of all workflows, newest first."""
    offsets = None if before is None else parse_offsets(before)
    page = await whole_log(connections.pool, before=offsets, limit=PAGE, wanted=query.wanted)
    next_ = None if page.next is None else query.address_at("/log", before=format_offsets(page.next))
    lines = [_line(record, Narration()) for record in page.records]
    return _page(request, query, lines, page, workflow=None, next_=next_, is_first=before is None)


def _page(
    request: Request,
    query: LogQuery,
    lines: list[LogLine],
    page: Any,
    *,
    workflow: WorkflowSummary | None,
    next_: str | None,
    is_first: bool,
) -> Response:
    path = request.url.path
    here = f"{path}?{request.url.query}" if request.url.query else path
    return rendered(
        request,
        "log.html",
        lines=lines,
        workflow=workflow,
        query=query,
        choices={"type": TYPES, "verdict": VERDICTS, "role": ROLES},
        short=lambda name: name.removeprefix(PREFIX),
        next=next_,
        first=None if is_first else query.address_at(path),
        scanned=page.scanned,
        is_cut=page.is_cut,
        here=here,
        path_of_log=path,
        is_live=is_first,
        download=query.address_at(f"{path}.jsonl"),
    )


async def _narration(door: DoorState, connections: Connections, workflow: WorkflowSummary) -> Narration:
    """Tell the records of a workflow in words, unless there are too many of them."""
    if workflow.seq > NARRATED:
        return Narration()
    records = await reader.stored_records(connections.pool, workflow.workflow_id)

    def tell() -> Narration:
        history = list(folded_history(workflow.workflow_id, records))
        lines = {seq: next(iter(told_lines(heard)), None) for seq, heard in enumerate(history)}
        words = {seq: (word, sentence) for seq, line in lines.items() if line for _, word, sentence in [line]}
        return Narration(words, reasons(history))

    async with door.busy:
        return await asyncio.to_thread(tell)


def _line(record: LogRecord, narration: Narration) -> LogLine:
    entry = record.entry
    if entry is None:
        return LogLine(record, "", "It cannot be read as an event; it has no effect.", "", None)
    word, sentence = narration.words.get(entry.seq, ("", gist(entry.data)))
    if record.verdict == "superseded":
        word, sentence = "", gist(entry.data)
    return LogLine(record, word, sentence, _why(record, narration.whys.get(entry.seq, "")), _actor(entry))


def _why(record: LogRecord, why: str) -> str:
    if why or record.verdict != "superseded":
        return why
    if record.rival is None:
        return LATE
    if record.rival.is_same:
        return f"It is a copy of event {record.rival.seq}."
    return f"Event {record.rival.seq} came first."


def gist(data: Any) -> str:
    """Return what says most about a payload, for a line; empty if nothing does."""
    if not isinstance(data, dict):
        return ""
    if isinstance(tasks := data.get("tasks"), list):
        return "; ".join(str(task.get("objective", "")) for task in tasks if isinstance(task, dict))
    if isinstance(parameters := data.get("parameters"), dict):
        return "; ".join(f"{name}: {shown_value(value)}" for name, value in parameters.items())
    names = ("actionObjective", "prompt", "error", "detail", "reason", "summary", "message", "action", "outcome")
    said = next((text for name in names if isinstance(text := data.get(name), str) and text), "")
    return said or (f"release {release}" if isinstance(release := data.get("release"), str) else "")


def _actor(entry: EventEntry) -> Actor | None:
    given = entry.data.get("actor") if isinstance(entry.data, dict) else None
    try:
        return None if given is None else Actor.model_validate(given, extra="ignore", context=READING)
    except ValidationError:
        return None


# --- downloads ------------------------------------------------------------------------------------


@router.get("/w/{workflow_id}/log.jsonl")
async def download_workflow_log(
    *, workflow_id: WorkflowId, connections: Opened, door: DoorOf, _: Reader, query: Filter
) -> Response:
    """Download the records of a workflow, oldest first, one JSON object on each line."""
    workflow = await find_workflow(connections, workflow_id)
    narration = await _narration(door, connections, workflow)

    async def pages() -> AsyncGenerator[list[EventEntry], None]:
        seq = -1
        while page := await reader.events(connections.pool, workflow_id, after_seq=seq, limit=DOWNLOADED):
            yield page
            seq = page[-1].seq

    def line(entry: EventEntry) -> dict[str, Any]:
        why = narration.whys.get(entry.seq)
        return _json(entry) | ({"why": why} if why else {})

    return _download(f"poweron-{workflow_id}.jsonl", pages(), line, query.wanted)


@router.get("/log.jsonl")
async def download_whole_log(*, connections: Opened, _: Reader, query: Filter) -> Response:
    """Download the records of all workflows that the rows hold, in the order of their partitions."""
    lines = _all_events(connections.pool, await PostgresRows(connections.pool).positions())
    return _download("poweron-log.jsonl", lines, _json, query.wanted)


async def _all_events(pool: Pool, ends: Offsets) -> AsyncGenerator[list[EventEntry], None]:
    offsets = [0] * len(ends)
    while page := await reader.records_after(pool, offsets, limit=DOWNLOADED):
        inside = [record for record in page if record.offset < ends[record.partition]]
        if not inside:
            return
        yield [record.event for record in inside if record.event is not None]
        for record in page:
            offsets[record.partition] = record.offset + 1


def _json(entry: EventEntry) -> dict[str, Any]:
    line: dict[str, Any] = dumped(entry)
    return {name: value for name, value in line.items() if name in LINE | {"workflowId"}}


def _download(
    name: str,
    pages: AsyncGenerator[list[EventEntry], None],
    line: Callable[[EventEntry], dict[str, Any]],
    wanted: LogFilter,
) -> Response:
    async def lines() -> AsyncGenerator[bytes, None]:
        async for page in pages:
            yield b"".join(orjson.dumps(line(entry)) + b"\n" for entry in page if _takes(wanted, entry))

    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return StreamingResponse(lines(), headers=headers, media_type="application/x-ndjson")


def _takes(wanted: LogFilter, entry: EventEntry) -> bool:
    return wanted.takes(entry.type, entry.verdict, lambda: role_of(entry.source))
