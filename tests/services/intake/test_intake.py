"""How intake answers requests, on a log in memory."""

import asyncio
from collections.abc import Iterator
from itertools import count, islice
from typing import Any

import pytest
from intake_world import (
    SOURCE,
    TIME,
    Rows,
    appended,
    away_once,
    committed,
    dead_letters,
    events,
    forge_opening,
    looked,
    request,
    running,
    values,
)

from builders import requested, typical
from poweron_events import RequestRound, encode_request, topics, workflow_id
from poweron_events.codec import decode
from poweron_events.fold.history import render, reverse_chronological
from poweron_events.fold.partial import Stub
from poweron_events.log import Message
from poweron_events.log.memory import MemoryFollower, MemoryLog
from poweron_events.request import (
    Budgets,
    ForkedFrom,
    InlineDocument,
    Requester,
    RequestRefused,
    RoundRequested,
    WorkflowRequested,
)


@pytest.mark.req("E-15")
async def test_a_request_repeated_at_once_is_answered_once(log: MemoryLog, rows: Rows) -> None:
    for _ in range(5):
        await request(log, "good")
        await request(log, "bad", prompt=" ")
    async with running(log, rows):
        await committed(log, 10)
    answers = await events(log)
    assert sorted(type(answer).__name__ for answer in answers) == [RequestRefused.__name__, WorkflowRequested.__name__]


def neighbours(log: MemoryLog) -> Iterator[str]:
    """Requests whose workflows are all in one partition."""

    def partition(request_id: str) -> int:
        return log.partition_of(topics.EVENTS.name, workflow_id(SOURCE, request_id).encode())

    return (name for name in map(str, count()) if partition(name) == partition("0"))


async def leave_behind(log: MemoryLog, rows: Rows, other: str) -> None:
    """Let the rows get no further, and the log grow by the opening of another request."""
    rows.stands_at = await log.ends(topics.EVENTS.name)
    await forge_opening(log, other)


@pytest.mark.req("E-15")
async def test_a_new_request_is_opened_while_the_rows_follow(log: MemoryLog, rows: Rows) -> None:
    first, other, new = islice(neighbours(log), 3)
    async with running(log, rows):
        await request(log, first)
        await committed(log, 1)
        await leave_behind(log, rows, other)
        await request(log, new)
        await appended(log, 3)
        rows.stands_at = None
        await committed(log, 2)
    assert {event.request.id for event in await events(log)} == {first, "forged", new}


@pytest.mark.req("E-15")
async def test_a_new_request_waits_for_rows_that_were_further_before(log: MemoryLog, rows: Rows) -> None:
    first, new = islice(neighbours(log), 2)
    async with running(log, rows):
        await request(log, first)
        await committed(log, 1)
        rows.behind = True
        await request(log, new)
        await looked(rows, rows.looks + 5)
        assert len(await events(log)) == 1
        rows.behind = False
        await committed(log, 2)
    assert len(await events(log)) == 2


@pytest.mark.req("E-15")
async def test_a_request_that_was_there_before_the_process_waits_for_the_rows(log: MemoryLog, rows: Rows) -> None:
    first, other, waiting = islice(neighbours(log), 3)
    async with running(log, rows):
        await request(log, first)
        await committed(log, 1)
    await leave_behind(log, rows, other)
    await request(log, waiting)
    async with running(log, rows):
        await looked(rows, rows.looks + 5)
        assert len(await events(log)) == 2
        rows.stands_at = None
        await committed(log, 2)
    assert len(await events(log)) == 3


@pytest.mark.req("E-15")
async def test_a_fork_waits_for_the_rows_which_hold_what_it_is_forked_from(log: MemoryLog, rows: Rows) -> None:
    first, other, fork = islice(neighbours(log), 3)
    original = workflow_id(SOURCE, first)
    async with running(log, rows):
        await request(log, first)
        await committed(log, 1)
        await leave_behind(log, rows, other)
        await request(log, fork, forked_from=ForkedFrom(workflow=original, seq=0, head="f" * 64))
        await looked(rows, rows.looks + 5)
        assert len(await events(log)) == 2
        rows.hashes[original, 0], rows.stands_at = "f" * 64, None
        await committed(log, 2)
    assert [type(event) for event in await events(log)] == [WorkflowRequested] * 3


@pytest.mark.req("E-15")
async def test_a_request_is_committed_only_when_the_rows_hold_its_answer(log: MemoryLog, rows: Rows) -> None:
    async with running(log, rows):
        await request(log, "first")
        await committed(log, 1)
        rows.behind = True
        await request(log, "second")
        before = rows.looks
        await looked(rows, before + 5)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await committed(log, 2)
        rows.behind = False
        await committed(log, 2)
    assert len(await events(log)) == 2


@pytest.mark.req("E-15")
async def test_a_request_waits_while_postgres_is_unavailable(log: MemoryLog, rows: Rows) -> None:
    rows.away = True
    async with running(log, rows):
        await request(log, "1")
        await looked(rows, 3)
        assert await events(log) == []
        rows.away = False
        await committed(log, 1)
    (opened,) = await events(log)
    assert isinstance(opened, WorkflowRequested)


@pytest.mark.req("E-14")
async def test_a_request_that_only_raises_is_buried_and_stops_no_other(log: MemoryLog, rows: Rows) -> None:
    rows.failing = {"cursed"}
    async with running(log, rows):
        await request(log, "cursed")
        await request(log, "good")
        await committed(log, 2)
    (letter,) = await dead_letters(log)
    assert (letter.offset, "KeyError('cursed')" in letter.reason) == (0, True)
    assert len(await events(log)) == 1


@pytest.mark.req("E-14")
async def test_a_dead_letter_that_kafka_does_not_take_at_once_is_written_later(
    log: MemoryLog, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "append", away_once(log.append, topics.DEAD_LETTERS.name))
    rows.failing = {"cursed"}
    async with running(log, rows):
        await request(log, "cursed")
        await committed(log, 1)
    assert len(await dead_letters(log)) == 1


@pytest.mark.req("E-15")
async def test_requests_are_answered_although_their_offset_was_not_told_at_once(
    log: MemoryLog, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryFollower, "committed", away_once(MemoryFollower.committed))
    await request(log, "1")
    async with running(log, rows):
        await committed(log, 1)
    (opened,) = await events(log)
    assert isinstance(opened, WorkflowRequested)


@pytest.mark.req("E-15")
async def test_a_prompt_too_large_for_an_event_is_refused_and_intake_goes_on(log: MemoryLog, rows: Rows) -> None:
    async with running(log, rows) as lines:
        await request(log, "large", prompt="\N{GRINNING FACE}" * 20_000)
        await request(log, "good")
        await committed(log, 2)
    refused = next(event for event in await events(log) if isinstance(event, RequestRefused))
    assert (refused.request.id, refused.reason) == ("large", "invalid")
    assert "shorten the prompt" in refused.detail
    told = {line["answer"] for line in lines if line["event"] == "request_answered"}
    assert told == {RequestRefused.TYPE, WorkflowRequested.TYPE}


@pytest.mark.req("E-15")
async def test_a_request_whose_workflow_was_opened_by_somebody_else_is_refused_once(log: MemoryLog, rows: Rows) -> None:
    await forge_opening(log, "coming")
    async with running(log, rows):
        await request(log, "coming")
        await request(log, "other")
        await committed(log, 2)
    answers = [event for event in await events(log) if event.request.id == "coming"]
    assert [type(answer) for answer in answers] == [WorkflowRequested, WorkflowRequested, RequestRefused]
    assert (answers[-1].reason, answers[-1].code) == ("invalid", "answer_superseded")


@pytest.mark.req("E-14")
async def test_a_request_whose_refusal_the_rows_never_show_becomes_a_dead_letter(log: MemoryLog, rows: Rows) -> None:
    rows.blind = True
    await request(log, "lost")
    async with running(log, rows):
        await committed(log, 1)
    assert len(await events(log)) == 3
    (letter,) = await dead_letters(log)
    assert "was superseded" in letter.reason


@pytest.mark.req("E-15")
async def test_many_requests_at_once_share_their_looks_at_the_rows(log: MemoryLog, rows: Rows) -> None:
    for number in range(200):
        await request(log, f"{number}")
    async with running(log, rows):
        await committed(log, 200)
    opened = {decode(value).workflow_id for value in await values(log, topics.EVENTS.name)}
    assert opened == {workflow_id(SOURCE, f"{number}") for number in range(200)}
    assert rows.looks < 100  # each of them looks at least twice


BEFORE = {"workflow_tokens": 500, "task_tokens": 90, "round_tokens": 70, "round_cost_nano_usd": 60}


@pytest.mark.req("B-02")
@pytest.mark.parametrize(
    ("own", "agreed"),
    [
        ({}, {"workflow_tokens": 500, "task_tokens": 90}),
        ({"workflowTokens": 900}, {"workflow_tokens": 900, "task_tokens": 90}),
        ({"taskTokens": 9}, {"workflow_tokens": 500, "task_tokens": 9}),
        ({"roundTokens": 40}, {"workflow_tokens": 500, "task_tokens": 90, "round_tokens": 40}),
        ({"roundCostNanoUsd": 0}, {"workflow_tokens": 500, "task_tokens": 90, "round_cost_nano_usd": 0}),
    ],
)
async def test_a_round_has_its_own_budgets_and_those_of_the_workflow_that_it_does_not_set(
    log: MemoryLog, rows: Rows, own: dict[str, int], agreed: dict[str, int]
) -> None:
    rows.opened = requested(budgets=BEFORE)
    opened = await followed_up(log, rows, budgets=own)
    assert opened.earlier.spent == await rows.spent("any", 1)
    assert opened.budgets == Budgets(**agreed)


@pytest.mark.req("E-08")
async def test_an_opening_marks_what_the_request_and_the_setting_mark(log: MemoryLog, rows: Rows) -> None:
    await request(log, "marked", approve=("ai.process", "web"))
    async with running(log, rows, approve={"document.*"}):
        await committed(log, 1)
    (opened,) = await events(log)
    assert opened.approve == ("ai.process", "document.*", "web")


@pytest.mark.req("E-08")
async def test_no_round_takes_a_mark_away(log: MemoryLog, rows: Rows) -> None:
    rows.opened = requested(approve=("web.*",))
    assert (await followed_up(log, rows, approve=("ai.process",))).approve == ("ai.process", "web.*")


@pytest.mark.req("E-08")
@pytest.mark.parametrize("wrong", ["ai.proces", "mail.*"])
async def test_a_request_whose_mark_means_no_action_is_refused_with_a_sentence(
    log: MemoryLog, rows: Rows, wrong: str
) -> None:
    await request(log, "mistyped", approve=("web.*", wrong))
    async with running(log, rows):
        await committed(log, 1)
    (refused,) = await events(log)
    assert (type(refused), refused.reason) == (RequestRefused, "invalid")
    assert f"'{wrong}' means no action; there are ai.process, document.extract, " in refused.detail


@pytest.mark.req("D-01")
@pytest.mark.parametrize(
    ("fields", "setting", "told"),
    [
        ({"user_language": "fr", "requester": Requester(language="it")}, "nl", ("fr", False)),
        ({"requester": Requester(language="it")}, "nl", ("it", False)),
        ({}, "nl", ("nl", False)),
        ({}, None, ("de", True)),
    ],
)
async def test_the_language_is_the_requests_else_the_requesters_else_the_prompts_and_the_opening_tells_which(
    log: MemoryLog, rows: Rows, fields: dict[str, Any], setting: str | None, told: tuple[str, bool]
) -> None:
    await request(log, "asked", "Wer hat das Protokoll unterschrieben?", **fields)
    async with running(log, rows, default_language=setting):
        await committed(log, 1)
    (opening,) = await events(log)
    assert (opening.user_language, opening.user_language_detected) == told


@pytest.mark.req("D-01")
async def test_a_language_in_doubt_is_left_open(log: MemoryLog, rows: Rows) -> None:
    await request(log, "asked", "4711")
    async with running(log, rows):
        await committed(log, 1)
    (opening,) = await events(log)
    assert (opening.user_language, opening.user_language_detected) == (None, False)


async def followed_up(log: MemoryLog, rows: Rows, *, is_open: bool = False, after_round: int = 1, **fields: Any) -> Any:
    """What intake answers to a follow-up on a workflow with one round."""
    told = typical()
    rows.stubs = {told.id: Stub(told.id, (0,), is_open=is_open, seq=len(told.values), last=0)}
    rows.history = reverse_chronological(told.workflow.current.messages)
    asked = RequestRound(workflow_id=told.id, after_round=after_round, **{"prompt": "And who signed?", **fields})
    value = encode_request(asked, source=SOURCE, request_id="follow-up", time=TIME)
    await log.append(topics.REQUESTS.name, [Message(told.id.encode(), value)])
    async with running(log, rows):
        await committed(log, 1, told.id.encode())
    (answer,) = await events(log)
    return answer


@pytest.mark.req("M-07")
@pytest.mark.req("H-03")
async def test_a_follow_up_opens_a_round_that_knows_the_history_and_the_documents_before_it(
    log: MemoryLog, rows: Rows
) -> None:
    handed_over = [InlineDocument.of(name, b"Signed by Ada.") for name in ("letter.txt", "Letter.txt", "estimate.pdf")]
    opened = await followed_up(log, rows, documents=tuple(handed_over))
    assert isinstance(opened, RoundRequested)
    assert (opened.round, opened.earlier.last_round) == (2, 1)
    assert opened.earlier.history == "\n".join(map(render, rows.history))
    assert [each.label for each in opened.earlier.documents] == [
        "round1_task1_action2_extract",
        "round1_task1_action1_extract",
        "round1_request",
    ]
    assert [(each.document_id, each.document_name) for each in opened.documents] == [
        ("r2d1", "letter.txt"),
        ("r2d2", "Letter (2).txt"),
        ("r2d3", "estimate (2).pdf"),
    ]


@pytest.mark.req("E-07")
async def test_no_round_is_opened_by_rows_that_do_not_hold_all_rounds_before_it(log: MemoryLog, rows: Rows) -> None:
    rows.forgotten = 2
    opened = await followed_up(log, rows)
    assert rows.forgotten == 0
    assert opened.earlier.history == "\n".join(map(render, rows.history))


@pytest.mark.req("E-15")
@pytest.mark.parametrize(
    ("fields", "reason", "detail"),
    [
        ({"is_open": True}, "round_open", "Round 1 is still running; wait for its end or cancel it."),
        ({"after_round": 2}, "no_such_round", "The workflow has 1 round; there is no round 2."),
    ],
)
async def test_a_follow_up_that_comes_too_early_is_refused_in_a_sentence(
    log: MemoryLog, rows: Rows, fields: Any, reason: str, detail: str
) -> None:
    refused = await followed_up(log, rows, **fields)
    assert (refused.reason, refused.detail) == (reason, detail)


@pytest.mark.req("D-01")
@pytest.mark.parametrize(
    ("fields", "spoken", "language"),
    [
        ({"user_language": "fr", "requester": {"language": "en"}}, "de", "fr"),
        ({"requester": {"language": "en"}}, "de", "de"),
        ({"requester": {"language": "en"}}, None, "en"),
        ({}, "de", "de"),  # asked for once, it holds for the workflow, whatever the prompt is written in
        ({}, None, "en"),  # the prompt's own
    ],
)
async def test_a_round_speaks_the_language_of_its_request_else_of_the_workflow_else_of_the_requester(
    log: MemoryLog, rows: Rows, fields: Any, spoken: str | None, language: str | None
) -> None:
    rows.opened = requested(user_language=spoken)
    opened = await followed_up(log, rows, **fields)
    assert opened.user_language == language


@pytest.mark.req("D-01")
@pytest.mark.parametrize(
    ("before", "fields", "told"),
    [
        ("de", {"prompt": "And who signed it?"}, ("en", True)),
        ("en", {"prompt": "Und wer hat es unterschrieben?"}, ("de", True)),
        ("de", {"prompt": "ok"}, ("de", True)),
        ("de", {"prompt": "42"}, ("de", True)),
        ("de", {"prompt": "ok", "requester": {"language": "en"}}, ("en", False)),
        ("de", {"prompt": "And who signed it?", "user_language": "de"}, ("de", False)),
    ],
)
async def test_a_language_that_was_only_detected_gives_way_to_that_of_the_follow_up(
    log: MemoryLog, rows: Rows, before: str, fields: Any, told: tuple[str, bool]
) -> None:
    rows.opened = requested(user_language=before, user_language_detected=True)
    opened = await followed_up(log, rows, **fields)
    assert (opened.user_language, opened.user_language_detected) == told
