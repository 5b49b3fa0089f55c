"""What is read of a workflow: the names on the wire, and pages that hold while rows come in."""

import threading
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import orjson
import pytest

from builders import (
    CALL,
    FAILED_CALLS,
    SOURCE,
    At,
    Told,
    cancellation,
    completed,
    document,
    follow_up,
    planned,
    requested,
    reviewed,
    step,
    typical,
    under_policy,
)
from poweron_events import topics
from poweron_events.actor import Actor
from poweron_events.envelope import Envelope
from poweron_events.errors import Unavailable
from poweron_events.event import CitedSource, Model, WebPage
from poweron_events.fold.history import render, reverse_chronological
from poweron_events.fold.state import ChatMessage
from poweron_events.log import Message
from poweron_events.log.memory import MemoryLog
from poweron_events.request import Spent
from poweron_events.round_events import RoundCancelled, Totals
from poweron_events.stream import WorkflowEvent
from poweron_projections import bootstrap, open_questions, reader, request_answers, workflow_excerpts
from poweron_projections.connection import Pool, acquire, connect
from poweron_projections.rebuild import rebuild
from poweron_projections.rows import RowWriter
from poweron_projections.verify import catch_up

EVENTS = topics.EVENTS.name
NEWEST = 2**31 - 1  # a seq that no record has
RECORDED = {
    path.stem: [orjson.loads(line)["value"].encode() for line in path.read_bytes().splitlines()[:-1]]
    for path in sorted((Path(__file__).parents[1] / "histories" / "v0.2.0").glob("*.jsonl"))
}


async def given(log: MemoryLog, pool: Pool, told: Told) -> str:
    await log.append(EVENTS, told.messages)
    await catch_up(log, pool)
    return told.id


def wire(entry: Model) -> dict[str, object]:
    return entry.model_dump(mode="json", by_alias=True)


@pytest.mark.req("M-06")
@pytest.mark.req("H-01")
async def test_a_step_is_one_message_with_its_summary_documents_findings_and_learnings(
    log: MemoryLog, pool: Pool
) -> None:
    parts = step(1)
    parts[0] = parts[0].model_copy(update={"learnings": ("It is a PDF.",)})
    name = await given(log, pool, Told().tell(requested(), planned(), *parts))
    newest, *_ = await reader.history(pool, name)
    found = wire(newest)
    assert found.pop("time").endswith("Z")
    (document,) = found.pop("documents")
    assert document["documentName"] == "text.md"
    assert found == {
        "seq": 6,
        "round": 1,
        "task": 1,
        "attempt": 1,
        "step": 1,
        "kind": "step",
        "action": "document.extract",
        "status": "step",
        "success": True,
        "message": "Read one document.",
        "summary": "Read one document.",
        "prompt": "What is the grand total?",
        "reviewReason": None,
        "documentsLabel": "round1_task1_action1_extract",
        "references": ["docList:round1_task1_action1_extract", "docItem:doc-text.md:text.md"],
        "error": "",
        "findings": ["The total is 42."],
        "links": [],
        "unread": [],
        "unreadLeftOut": 0,
        "learnings": ["It is a PDF.", "The total is known."],
        "actor": None,
    }


@pytest.mark.req("H-01")
@pytest.mark.req("H-03")
async def test_the_history_is_the_one_that_prompts_show_newest_round_first(log: MemoryLog, pool: Pool) -> None:
    told = typical()
    first = told.workflow.current.messages
    told.tell(follow_up(2), planned(1, 2), *step(1, round_number=2), reviewed(round_number=2), completed(2))
    name = await given(log, pool, told)
    expected = reverse_chronological((*told.workflow.current.messages, *first))
    found = await reader.history(pool, name)
    assert [(entry.round, entry.seq, entry.message) for entry in found] == [
        (message.round, message.seq, message.message) for message in expected
    ]


@pytest.mark.req("H-01")
async def test_every_message_names_the_prompt_of_its_round_the_reason_of_its_review_and_its_documents(
    log: MemoryLog, pool: Pool
) -> None:
    told = Told().tell(requested(), planned(), *step(1), reviewed(status="retry", reason="Page 2 is missing."))
    told.tell(*step(1, attempt=2), reviewed(attempt=2, reason="It is all there."))
    twice = document("text (2).md", document_id="doc-text.md")
    told.tell(completed().model_copy(update={"documents": (twice, document("other.md"))}))
    told.tell(follow_up(documents=()), planned(round_number=2))
    name = await given(log, pool, told)
    found = [wire(entry) for entry in await reader.history(pool, name)]
    label, item = "docList:round1_task1_action1_extract", "docItem:doc-text.md:text.md"
    assert [(one["kind"], one["prompt"], one["reviewReason"], one["references"]) for one in found] == [
        ("workflow_start", "And what was repaired?", None, []),
        ("round_end", "What is the grand total?", None, [item, "docItem:doc-other.md:other.md"]),
        ("task_end", "What is the grand total?", "It is all there.", []),
        ("step", "What is the grand total?", None, [label, item]),
        ("task_end", "What is the grand total?", "Page 2 is missing.", []),
        ("step", "What is the grand total?", None, [label, item]),
        ("task_start", "What is the grand total?", None, []),
        ("workflow_start", "What is the grand total?", None, ["docList:round1_request", "docItem:doc-estimate.pdf:estimate.pdf"]),
    ]  # fmt: skip
    assert found[1]["documents"][0]["documentName"] == "text (2).md"
    async with acquire(pool) as connection:
        rows = await connection.fetch(reader._ENTRIES, name, NEWEST, len(found))
    assert [row["names"] for row in rows if row["names"]] == [{"doc-text.md": "text.md"}]  # none that it does not name


@pytest.mark.req("H-02")
@pytest.mark.req("H-03")
@pytest.mark.parametrize("recorded", RECORDED)
async def test_rows_and_fold_tell_the_same_history_after_every_event(recorded: str, pool: Pool) -> None:
    told, log, before = Told(), MemoryLog(), dict[int, ChatMessage]()
    values = RECORDED[recorded]
    await log.append(EVENTS, [Message(told.id.encode(), value) for value in values])
    rows = RowWriter(log, pool, EVENTS, renew=partial(rebuild, log, pool))
    await rows.load(range(topics.EVENTS.partitions))
    (records,) = [some async for some in log.read(EVENTS, {}, await log.ends(EVENTS))]
    for value, record in zip(values, records, strict=True):
        told.write(value)
        await rows.project([record])
        before |= {message.seq: message for message in told.workflow.current.messages}
        found = await reader.messages(pool, told.id)
        assert "\n".join(map(render, found)) == "\n".join(map(render, reverse_chronological(before.values())))
    assert {message.seq: message.model_copy(update={"time_ms": 0}) for message in found} == {
        seq: message.model_copy(update={"time_ms": 0}) for seq, message in before.items()
    }
    assert all(len(message.summary) <= 200 and message.summary for message in found if message.kind == "step")


async def test_the_opening_of_the_last_round_is_at_hand(log: MemoryLog, pool: Pool) -> None:
    told = typical()
    name = await given(log, pool, told.tell(follow_up(2, user_language="de")))
    assert await reader.opening(pool, name) == told.workflow.current.opening
    assert await reader.opening(pool, Told("nobody").id) is None


@pytest.mark.req("B-02")
async def test_what_all_rounds_spent_is_what_the_fold_counts(log: MemoryLog, pool: Pool) -> None:
    told = Told().tell(requested(), planned(), *step(), reviewed(status="retry"), *step(attempt=2))
    told.tell(reviewed(attempt=2), completed(), follow_up(), planned(round_number=2), *step(round_number=2))
    ended, spent = await reader.spent(pool, await given(log, pool, told))
    assert ended == 1
    assert spent == Spent(steps=3, retries=1, input_tokens=13 * 100, output_tokens=13 * 20, cost_nano_usd=13 * 3_000)


async def test_pages_of_the_history_follow_each_other_while_messages_come_in(log: MemoryLog, pool: Pool) -> None:
    told = typical()
    name = await given(log, pool, told)
    first = await reader.history(pool, name, limit=2)
    await log.append(EVENTS, told.tell(follow_up(2)).messages[-1:])
    await catch_up(log, pool)
    second = await reader.history(pool, name, limit=2, before_seq=first[-1].seq)
    assert [entry.seq for entry in (*first, *second)] == [15, 14, 12, 6]


async def test_events_come_oldest_first_with_verdict_cause_and_payload(log: MemoryLog, pool: Pool) -> None:
    told = typical(steps=1)
    told.write(told.values[1])
    name = await given(log, pool, told)
    found = await reader.events(pool, name, limit=2)
    more = await reader.events(pool, name, after_seq=found[-1].seq)
    assert [entry.seq for entry in (*found, *more)] == list(range(11))
    assert [entry.verdict for entry in more][-2:] == ["accepted", "superseded"]
    entry = wire(found[1])
    assert set(entry) == {
        "seq",
        "type",
        "verdict",
        "partition",
        "offset",
        "time",
        "id",
        "source",
        "causationid",
        "sha256",
        "data",
    }
    assert entry["causationid"] == found[0].id
    assert entry["data"]["tasks"][0]["objective"] == "Find the total"


async def test_documents_come_in_the_order_of_their_making(log: MemoryLog, pool: Pool) -> None:
    name = await given(log, pool, typical(steps=1))
    found = [wire(document) for document in await workflow_excerpts.documents(pool, name)]
    assert [document["label"] for document in found] == ["round1_request", "round1_task1_action1_extract"]
    assert {"documentId", "documentName", "mimeType", "size", "content"} <= set(found[0])


async def test_a_document_has_the_page_that_it_is_and_the_sources_that_it_cites(log: MemoryLog, pool: Pool) -> None:
    page = WebPage(
        url="https://clocks.example/visit",
        title="Clocks \0 & more",
        fetched_at="2026-11-23T10:00:00Z",
        sha256="a" * 64,
        content="b" * 64,
    )
    source = CitedSource(n=1, page=page, text="c" * 64)
    read, answer = document("clocks.md", page=page), document("answer.md", sources=(source,), by_model=True)
    told = Told().tell(requested(), planned(), *step()[:3], At().done(documents=(read, answer)))
    found = await workflow_excerpts.documents(pool, await given(log, pool, told))
    shown = page.model_copy(update={"title": "Clocks \ufffd & more"})
    assert [(each.page, each.sources, each.by_model) for each in found[-2:]] == [
        (shown, (), False),
        (None, (source.model_copy(update={"page": shown}),), True),
    ]
    assert (found[0].page, found[0].sources) == (None, ())


@pytest.mark.req("X-03")
async def test_a_forged_document_is_shown_as_it_stands_in_the_log(log: MemoryLog, pool: Pool) -> None:
    path = "../../etc/cron.d/x"
    forged = document().model_copy(update={"document_id": path})
    name = await given(log, pool, Told().tell(requested(documents=(forged,)), planned()))
    assert [entry.document_id for entry in await workflow_excerpts.documents(pool, name)] == [path]
    assert [ref.document_id for entry in await reader.history(pool, name) for ref in entry.documents] == [path]
    assert {event.verdict for event in await reader.events(pool, name)} == {"accepted"}


async def test_workflows_are_counted_by_their_status_up_to_a_limit(log: MemoryLog, pool: Pool) -> None:
    for told in (typical("1"), typical("2"), typical("3"), Told("4").tell(requested("4"))):
        await given(log, pool, told)
    exact = await reader.workflow_counts(pool)
    assert {name: str(count) for name, count in exact.items()} == {
        "completed": "3",
        "running": "1",
        "stuck": "0",
        "all": "4",
    }
    limited = await reader.workflow_counts(pool, most=2)
    assert {name: str(count) for name, count in limited.items()} == {
        "completed": "2+",
        "running": "1",
        "stuck": "0",
        "all": "3+",
    }


async def test_workflows_are_listed_newest_first_in_pages(log: MemoryLog, pool: Pool) -> None:
    names = [await given(log, pool, typical(str(number), steps=1)) for number in range(5)]
    first = await reader.workflows(pool, limit=3)
    second = await reader.workflows(pool, limit=3, before=first[-1].cursor)
    assert {entry.workflow_id for entry in (*first, *second)} == set(names)
    assert [len(first), len(second)] == [3, 2]
    opened = [entry.opened for entry in (*first, *second)]
    assert opened == sorted(opened, reverse=True)
    assert (first[0].prompt, first[0].steps, first[0].tokens) == ("What is the grand total?", 1, 600)


async def test_the_ids_of_all_workflows_come_in_pages_those_never_opened_too(log: MemoryLog, pool: Pool) -> None:
    stories = [typical(str(number), steps=1) for number in range(4)]
    for told in stories:
        await log.append(EVENTS, told.messages)
    never_opened = typical("never", steps=1)
    await log.append(EVENTS, never_opened.messages[1:3])
    await catch_up(log, pool)
    pages = [await reader.workflow_ids(pool, limit=2)]
    while pages[-1]:
        pages.append(await reader.workflow_ids(pool, after=pages[-1][-1], limit=2))
    assert [len(page) for page in pages] == [2, 2, 1, 0]
    assert [id_ for page in pages for id_ in page] == sorted(told.id for told in (*stories, never_opened))
    assert await reader.count_workflow_ids(pool) == 5


@pytest.mark.req("M-07")
@pytest.mark.req("M-05")
async def test_the_state_of_a_workflow_names_its_place_its_mode_and_its_limit(log: MemoryLog, pool: Pool) -> None:
    again = {"decision": "continue", "classification": "retry"}
    told = Told().tell(
        requested(), planned(2), *step(1), reviewed(), *step(1, task=2, **again), At(2, task=2).selected()
    )
    found = await reader.workflow(pool, await given(log, pool, told))
    assert (found.status, found.phase) == ("running", "parameterize")
    state = wire(found)
    assert {name: state[name] for name in ("currentRound", "currentTask", "attempt", "currentStep")} == {
        "currentRound": 1,
        "currentTask": 2,
        "attempt": 1,
        "currentStep": 2,
    }
    assert (state["currentAction"], state["maxSteps"], state["workflowMode"]) == (2, 5, "React")
    assert await reader.workflow(pool, Told("unknown").id) is None


async def test_tasks_tell_how_they_ended(log: MemoryLog, pool: Pool) -> None:
    told = Told().tell(requested(), planned(3), *step(1), reviewed(), At(task=2).selected(), cancellation())
    told.tell(RoundCancelled(round=1, message="Cancelled.", totals=Totals()))
    name = await given(log, pool, told)
    found = [(task.task, task.status, task.attempts, task.reason) for task in await workflow_excerpts.tasks(pool, name)]
    assert found == [(1, "success", 1, ""), (2, "stopped", 1, "No longer needed."), (3, "planned", 0, "")]
    assert [step_.status for step_ in await workflow_excerpts.steps(pool, name)] == ["done", "stopped"]
    (round_,) = await workflow_excerpts.rounds(pool, name)
    assert (round_.status, round_.reason, round_.message) == ("cancelled", "No longer needed.", "Cancelled.")


async def test_rows_say_by_a_code_why_steps_tasks_rounds_and_workflows_stopped(log: MemoryLog, pool: Pool) -> None:
    told = Told().tell(requested(), planned(3), *step(1, code="criteria_met"), reviewed(code="criteria_met"))
    told.tell(At(task=2).selected(), cancellation())
    told.tell(RoundCancelled(round=1, message="Cancelled.", totals=Totals()))
    name = await given(log, pool, told)
    assert [found.stopped_by for found in await workflow_excerpts.steps(pool, name)] == ["criteria_met", "cancelled"]
    assert [found.stopped_by for found in await workflow_excerpts.tasks(pool, name)] == [
        "criteria_met",
        "cancelled",
        None,
    ]
    assert [found.stopped_by for found in await workflow_excerpts.rounds(pool, name)] == ["cancelled"]
    found = await reader.workflow(pool, name)
    assert found is not None
    assert found.stopped_by == "cancelled"


@pytest.mark.parametrize(
    ("told", "code"),
    [
        ((At().selected(), At().failed("parameterize", code="model_busy")), "model_busy"),
        ((At().selection_rejected(1), At().selection_rejected(2, code="unknown_reference")), "unknown_reference"),
    ],
)
async def test_a_step_that_met_its_end_before_a_decision_says_why(
    log: MemoryLog, pool: Pool, told: tuple[WorkflowEvent, ...], code: str
) -> None:
    (found,) = await workflow_excerpts.steps(pool, await given(log, pool, Told().tell(requested(), planned(), *told)))
    assert found.stopped_by == code


async def test_a_step_refused_twice_tells_both_reasons(log: MemoryLog, pool: Pool) -> None:
    told = Told().tell(requested(), planned(), At().selection_rejected(1), At().selection_rejected(2))
    (found,) = await workflow_excerpts.steps(pool, await given(log, pool, told))
    assert (found.status, found.refusals) == ("refused", ("No such action.", "No such action."))


@pytest.mark.req("B-01")
async def test_answers_and_failures_before_a_stage_failed_are_what_its_step_used(log: MemoryLog, pool: Pool) -> None:
    failed = (
        At().failed("parameterize").model_copy(update={"model_calls": (CALL, CALL), "failed_calls": (FAILED_CALLS,)})
    )
    told = Told().tell(requested(), planned(), At().selected(), failed)
    (found,) = await workflow_excerpts.steps(pool, await given(log, pool, told))
    assert (found.status, found.input_tokens, found.output_tokens) == ("stopped", 370, 68)


async def test_a_task_tried_again_keeps_both_attempts_apart(log: MemoryLog, pool: Pool) -> None:
    told = Told().tell(requested(), planned(), *step(1), reviewed(status="retry"), *step(1, attempt=2))
    name = await given(log, pool, told)
    assert [(found.attempt, found.step) for found in await workflow_excerpts.steps(pool, name)] == [(1, 1), (2, 1)]
    (task,) = await workflow_excerpts.tasks(pool, name)
    assert (task.status, task.attempts, task.retries, task.actions) == ("running", 2, 1, 2)


@pytest.mark.req("B-01")
async def test_calls_of_superseded_events_are_used_up_too(log: MemoryLog, pool: Pool) -> None:
    call = CALL.model_copy(update={"cached_input_tokens": 60, "reasoning_tokens": 15})
    told = Told().tell(requested(), planned().model_copy(update={"model_call": call}))
    told.write(told.values[-1])
    name = await given(log, pool, told)
    found = await workflow_excerpts.usage(pool, name)
    assert [(call.seq, call.verdict, call.input_tokens) for call in found] == [
        (1, "accepted", 100),
        (2, "superseded", 100),
    ]
    assert [(call.cached_input_tokens, call.reasoning_tokens) for call in found] == [(60, 15)] * 2
    assert (await reader.workflow(pool, name)).tokens == 120


@pytest.mark.req("B-01")
async def test_calls_that_failed_are_used_up_and_counted_by_their_code(log: MemoryLog, pool: Pool) -> None:
    told = Told().tell(requested(), planned().model_copy(update={"failed_calls": (FAILED_CALLS,)}))
    name = await given(log, pool, told)
    found = await workflow_excerpts.usage(pool, name)
    assert [(call.code, call.tries, call.input_tokens) for call in found] == [
        (None, 1, 100),
        ("model_busy", 3, 70),
    ]
    (day,) = await pool.fetch("SELECT SUM(calls) AS calls, SUM(failed_calls) AS failed_calls FROM usage_by_day")
    assert (day["calls"], day["failed_calls"]) == (1, 3)
    assert (await reader.workflow(pool, name)).tokens == 198


async def test_a_database_that_is_unavailable_is_unavailable() -> None:
    async with connect("postgresql://nobody@127.0.0.1:1/none") as pool:
        with pytest.raises(Unavailable):
            await reader.workflows(pool)


@pytest.mark.req("E-13")
@pytest.mark.parametrize(
    ("table", "column"), [("messages", "unread"), ("tasks", "stopped_by"), ("workflows", "stopped_by")]
)
async def test_rows_of_another_release_are_unavailable_until_they_are_made_anew(
    log: MemoryLog, pool: Pool, table: str, column: str
) -> None:
    told = Told().tell(requested(), planned(), *step(1))
    name = await given(log, pool, told)
    async with acquire(pool) as connection:
        await connection.execute(f"ALTER TABLE {table} DROP COLUMN {column} CASCADE")
    ask: dict[str, Callable[[], Awaitable[object]]] = {
        "messages": lambda: reader.messages(pool, name),
        "tasks": lambda: workflow_excerpts.tasks(pool, name),
        "workflows": lambda: bootstrap.load(pool, range(12)),
    }
    with pytest.raises(Unavailable, match=column):
        await ask[table]()


async def test_a_database_without_tables_is_unavailable(pool: Pool) -> None:
    with pytest.raises(Unavailable):
        await request_answers.answer(pool, SOURCE, "1")


async def test_the_history_names_who_asked_and_who_cancelled(log: MemoryLog, pool: Pool) -> None:
    ada, ben = Actor(id="ada", via="cli"), Actor(id="ben", via="mcp")
    cancelled = cancellation().model_copy(update={"actor": ben})
    told = Told().tell(requested(actor=ada), planned(), cancelled)
    told.tell(RoundCancelled(round=1, message="Cancelled as asked.", totals=Totals()))
    name = await given(log, pool, told)
    assert [(entry.kind, entry.actor) for entry in await reader.history(pool, name)] == [
        ("round_end", ben),
        ("workflow_start", ada),
    ]


async def test_the_limit_of_questions_counts_only_those_whose_terms_are_wanted(log: MemoryLog, pool: Pool) -> None:
    for name in ("ada", "bob"):
        for number in range(2):
            opening = requested(f"{name} {number}", on_budget="ask", **under_policy(requester=name))
            asks = Told(f"{name} asks {number}").tell(opening, At(0, 0, 0).budget_requested("plan"))
            parts = (At().selected(), At().parameters(), At().approval_requested())
            waits = Told(f"{name} waits {number}").tell(opening, planned(), *parts)
            for told in (asks, waits):
                await log.append(EVENTS, told.messages)
    await catch_up(log, pool)
    for read in (open_questions.approvals, open_questions.budget_questions):
        own = [entry for entry in await read(pool) if entry.actor is not None and entry.actor.id == "bob"]
        assert len(own) == 2
        assert await read(pool, limit=2) != own
        assert await read(pool, limit=2, wanted=lambda terms: terms.requester.id == "bob") == own
        assert await read(pool, limit=1, wanted=lambda terms: terms.requester.id == "bob") == own[:1]
        assert await read(pool, wanted=lambda terms: terms.escalated) == []


async def test_many_records_are_decoded_beside_the_event_loop(
    log: MemoryLog, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = await given(log, pool, typical())
    threads, decode = set[int](), reader.decode

    def decoded(value: bytes) -> Envelope:
        threads.add(threading.get_ident())
        return decode(value)

    monkeypatch.setattr(reader, "decode", decoded)
    few = await reader.judged_records(pool, name)
    assert threads == {threading.get_ident()}
    threads.clear()
    monkeypatch.setattr(reader, "MAX_DECODED_ON_LOOP", len(few) - 1)
    assert await reader.judged_records(pool, name) == few
    assert threading.get_ident() not in threads
    assert threads
