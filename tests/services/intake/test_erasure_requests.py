"""How intake answers requests to erase and to keep content, and what it removes, on a log in memory."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from intake_world import SOURCE, TIME, Rows, running, told
from stored_files import everything_in

from builders import Told, completed, document, planned, requested, reviewed, step
from poweron_events import RequestRound, encode_request, topics, workflow_id
from poweron_events.archive_events import ContentErased, RequestErasure, RequestRetention, WorkflowRetained
from poweron_events.content import ContentStore
from poweron_events.envelope import parse_time_ms
from poweron_events.errors import Unavailable
from poweron_events.event import CitedSource, WebPage
from poweron_events.fold.partial import Stub
from poweron_events.log import Message
from poweron_events.log.memory import MemoryLog
from poweron_events.request import RequestRefused, RequestWorkflow

WORKFLOW = workflow_id(SOURCE, "erased")
NOW_MS = parse_time_ms("2026-11-22T00:00:00Z")
PAGE = {"url": "https://example.com/", "fetched_at": TIME[:19] + "Z", "sha256": "0" * 64}


@pytest.fixture
def store(tmp_path: Path) -> ContentStore:
    return ContentStore.at(str(tmp_path / "content"))


@pytest.fixture
async def names(log: MemoryLog, rows: Rows, store: ContentStore) -> dict[str, str]:
    """A workflow that has ended, with four documents, two of them of the same bytes, and their contents."""
    kept = ("letter", "other", "page", "shown")
    names = dict(zip(kept, await store.put_all(WORKFLOW, [f"canary {each}".encode() for each in kept]), strict=True))
    page = WebPage(content=names["page"], **PAGE)
    answer = document("answer.md", document_id="a1", content=names["other"], sources=())
    cited = document(
        "web.md",
        document_id="w1",
        content=names["shown"],
        page=page,
        sources=(CitedSource(n=1, page=page, text=names["shown"]),),
    )
    given = [document(each, document_id=each, content=names["letter"]) for each in ("r1d1", "r1d2")]
    story = Told("erased").tell(
        requested("erased", documents=(*given, answer, cited)), planned(), *step(decision="stop")
    )
    story.tell(reviewed(), completed())
    await log.append(topics.EVENTS.name, story.messages)
    rows.stubs = {WORKFLOW: Stub(WORKFLOW, (0,), is_open=False, seq=len(story.values), last=len(story.values) - 1)}
    return names


async def send(log: MemoryLog, request_id: str, **fields: Any) -> None:
    kind: Any = RequestErasure
    if {"until", "hold", "released"} & fields.keys():
        kind = RequestRetention
    elif "prompt" in fields:
        kind = RequestRound if "after_round" in fields else RequestWorkflow
    about = {} if kind is RequestWorkflow else {"workflow_id": WORKFLOW}
    value = encode_request(kind(**about, **fields), source=SOURCE, request_id=request_id, time=TIME)
    await log.append(topics.REQUESTS.name, [Message(WORKFLOW.encode(), value)])


async def refused(log: MemoryLog, number: int) -> RequestRefused:
    await told(log, number, RequestRefused)
    answers = [each for each in await answered(log) if isinstance(each, RequestRefused)]
    return answers[-1]


async def answered(log: MemoryLog) -> list[Any]:
    return [each.event for each in await Rows(log).accepted_events(WORKFLOW)]


async def settled(log: MemoryLog, number: int) -> None:
    """Wait until so many requests are committed."""
    partition = log.partition_of(topics.REQUESTS.name, WORKFLOW.encode())
    async with asyncio.timeout(10):
        while log._committed.get((topics.REQUESTS.name, topics.URGENT_INTAKE_GROUP, partition), 0) < number:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


async def test_all_content_of_a_workflow_is_erased_after_the_event(
    log: MemoryLog, rows: Rows, store: ContentStore, names: dict[str, str], tmp_path: Path
) -> None:
    await store.put(WORKFLOW, b"unreferenced canary")
    async with running(log, rows, content=store):
        await send(log, "erase", reason="They asked for it.", legal_basis="GDPR Art. 17")
        await settled(log, 1)
        assert everything_in(tmp_path) == b""
        erased = (await answered(log))[-1]
        assert isinstance(erased, ContentErased)
        assert (erased.documents, erased.contents, erased.legal_basis) == ((), (), "GDPR Art. 17")
        await send(log, "again", reason="Once more.")
        assert (await refused(log, 1)).code == "nothing_to_erase"
        await ContentStore.at(str(tmp_path / "content")).put(WORKFLOW, b"canary from a backup")
        await send(log, "restored", reason="It came back.")
        await settled(log, 3)
        assert everything_in(tmp_path) == b""
        await send(log, "follow-up", prompt="And then?", after_round=1)
        refusal = await refused(log, 2)
        assert (refusal.reason, refusal.code) == ("invalid", "content_erased")


async def test_erased_documents_name_their_contents_and_their_twins(
    log: MemoryLog, rows: Rows, store: ContentStore, names: dict[str, str], tmp_path: Path
) -> None:
    async with running(log, rows, content=store):
        await send(log, "erase", reason="A mistake.", documents=("r1d1", "w1"))
        await settled(log, 1)
        erased = (await answered(log))[-1]
        assert erased.documents == ("r1d1", "w1", "r1d2")
        assert {*erased.contents} == {names["letter"], names["page"], names["shown"]}
        left = everything_in(tmp_path)
        assert b"canary other" in left
        assert not any(f"canary {each}".encode() in left for each in ("letter", "page", "shown"))
        for number, (documents, code) in enumerate(
            [(("r1d2",), "nothing_to_erase"), (("r1d9",), "unknown_document"), (("a1", "r1d9"), "unknown_document")]
        ):
            await send(log, f"next {number}", reason="Another.", documents=documents)
            assert (await refused(log, number + 1)).code == code
        assert await store.get(WORKFLOW, names["other"]) == b"canary other"


async def test_what_a_killed_process_left_is_erased_by_the_next(
    log: MemoryLog, rows: Rows, store: ContentStore, names: dict[str, str], tmp_path: Path
) -> None:
    unavailable = ContentStore.at(str(tmp_path / "content"))
    unavailable.erase = _killed  # type: ignore[method-assign]
    async with running(log, rows, content=unavailable):
        await send(log, "erase", reason="They asked for it.")
        await told(log, 1, ContentErased)
    assert await store.get(WORKFLOW, names["letter"]) == b"canary letter"
    async with running(log, rows, content=store):
        await settled(log, 1)
    assert everything_in(tmp_path) == b""
    assert sum(isinstance(each, ContentErased) for each in await answered(log)) == 1


async def _killed(*_: object) -> None:
    raise Unavailable("killed")


async def test_what_is_on_hold_or_open_or_kept_is_not_erased(
    log: MemoryLog, rows: Rows, store: ContentStore, names: dict[str, str]
) -> None:
    async with running(log, rows, content=store, now_ms=lambda: NOW_MS):
        for change in ({"hold": "case-1"}, {"hold": "case-2"}, {"released": "case-1", "reason": "It is closed."}):
            await send(log, f"{change}", **change)
        await told(log, 3, WorkflowRetained)
        await send(log, "held", reason="They asked for it.", documents=("r1d1",))
        refusal = await refused(log, 1)
        assert (refusal.code, "case-2" in refusal.detail, "case-1" in refusal.detail) == ("on_hold", True, False)
        await send(log, "unknown", released="case-1")
        assert (await refused(log, 2)).code == "no_such_hold"
        await send(log, "released without a reason", released="case-2", reason=" ")
        assert (await refused(log, 3)).code == "invalid_request"
        await send(log, "released", released="case-2", reason="It is closed.")
        await send(log, "until", until="2026-11-22T00:00:01Z")
        await told(log, 5, WorkflowRetained)
        await send(log, "too early", reason="They asked for it.")
        assert (await refused(log, 4)).code == "retention_not_over"
        await send(log, "shorter without a reason", until="2026-11-22T00:00:00Z")
        assert (await refused(log, 5)).code == "invalid_request"
        await send(log, "shorter", until="2026-11-22T00:00:00Z", reason="The law has changed.")
        await told(log, 6, WorkflowRetained)
        rows.stubs = {WORKFLOW: Stub(WORKFLOW, (0,), is_open=True, seq=1, last=0)}
        await send(log, "open", reason="They asked for it.")
        assert (await refused(log, 6)).code == "round_open"
        rows.stubs = {WORKFLOW: Stub(WORKFLOW, (0,), is_open=False, seq=1, last=0)}
        await send(log, "erase", reason="They asked for it.")
        await told(log, 1, ContentErased)
        await send(log, "kept", hold="case-3")
        assert (await refused(log, 7)).code == "content_erased"
