"""Filters choose workflows from the rows; one that cannot be understood is refused in a sentence and chooses nothing."""

import pytest

from builders import Told, cancellation, planned, requested, typical
from poweron_events import topics
from poweron_events.errors import Refused
from poweron_events.log.memory import MemoryLog
from poweron_projections import reader
from poweron_projections.connection import Pool
from poweron_projections.verify import catch_up
from poweron_projections.workflow_filter import MAX_LENGTH, Condition, matching, parse_all

NOW_MS = 1_800_000_000_000
COMPARED = ("status", "code", "phase", "model", "action", "actor", "source")
WRONG = [
    "",
    " ",
    "status",
    "=failed",
    "status failed",
    "status:failed",
    "status==failed",
    "status=>failed",
    "statu=failed",
    "Status=failed",
    "stat us=failed",
    "status=",
    "status= ",
    "status!=",
    "status=runing",
    "status=failed,",
    "status=,failed",
    "status=failed,,cancelled",
    "status=failed;DROP TABLE workflows",
    "status='failed'",
    "status=failed or status=running",
    "status=failed and",
    "and status=failed",
    "status=failed and and age>1h",
    "not status=failed",
    "(status=failed)",
    "age",
    "age=2h",
    "age!=2h",
    "age>=2h",
    "age<=2h",
    "age>",
    "age>2",
    "age>h",
    "age>-2h",
    "age>2.5h",
    "age>2 h",
    "age>2H",
    "age>2w",
    "age>1h30m",
    "age>9999999d",
    "age>2026-11-01",
    "age>\u0662h",
    "prompt=hello",
    "workflow_id=1",
    "reason=x",
    "phase!=aprove",
    "phase!=approve or status=running",
    "code!=token_budgett",
    "model!==gpt",
    "model=(gpt)",
    "action!='ai.process'",
    "restarted=maybe",
    "status=failed\x00",
    "x" * (MAX_LENGTH + 1),
    "status=" + "failed," * 100 + "failed",
    *(f"{key}>x" for key in COMPARED),
    *(f"{key}<x" for key in COMPARED),
]


@pytest.mark.parametrize("condition", WRONG)
def test_a_condition_that_cannot_be_understood_is_refused_in_a_sentence(condition: str) -> None:
    with pytest.raises(Refused) as refused:
        parse_all([condition], lambda: NOW_MS)
    sentence = str(refused.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert len(sentence) < MAX_LENGTH + 150


async def test_all_conditions_must_hold(log: MemoryLog, pool: Pool) -> None:
    """Times in this log begin in 1970, so that every workflow is old."""
    done, open_ = typical("done"), Told("open").tell(requested("open"), planned())
    cancelled = Told("cancelled").tell(requested("cancelled"), cancellation())
    for told in (done, open_, cancelled):
        await log.append(topics.EVENTS.name, told.messages)
    await catch_up(log, pool)

    async def found(*conditions: str) -> set[str]:
        parsed = parse_all(conditions, lambda: NOW_MS)
        return set((await matching(pool, parsed, limit=10)).workflow_ids)

    everything = {done.id, open_.id, cancelled.id}
    assert await found("status=completed") == {done.id}
    assert await found("status=completed,running") == everything
    assert await found("status!=completed") == {open_.id, cancelled.id}
    assert await found("action=document.extract") == {done.id}
    assert await found("action!=document.extract") == {open_.id, cancelled.id}
    assert await found("code=cancelled and phase=closing") == {cancelled.id}
    assert await found("code=cancelled", "phase!=closing") == set()
    assert await found("model=extractive,nobody") >= {done.id}
    assert await found("source=/nowhere") == set()
    assert await found("restarted=no AND status=completed") == {done.id}
    assert await found("restarted=yes") == set()
    assert await found("actor=nobody") == set()
    assert await found("age>0s", "status=completed") == {done.id}
    open_only = await matching(pool, parse_all(["age>0s"], lambda: NOW_MS), limit=10, among="open")
    assert set(open_only.workflow_ids) == {open_.id, cancelled.id}
    limited = await matching(pool, [Condition.parse("status!=failed", NOW_MS)], limit=2)
    assert (len(limited.workflow_ids), limited.count) == (2, 3)


async def test_workflows_are_listed_by_words_time_and_any_value_even_one_that_looks_like_a_condition(
    log: MemoryLog, pool: Pool
) -> None:
    for told in (typical("1"), typical("2"), Told("3").tell(requested("3", prompt="Where is the Lighthouse?"))):
        await log.append(topics.EVENTS.name, told.messages)
    await catch_up(log, pool)

    async def listed(*conditions: Condition) -> int:
        return len(await reader.workflows(pool, conditions=conditions))

    assert await listed() == 3
    assert await listed(Condition.words("lighthouse")) == 1
    assert await listed(Condition.words("light")) == 0
    assert await listed(Condition.words("-lighthouse")) == 2
    assert await listed(Condition.words("'); DROP TABLE rounds --\0")) == 0
    assert await listed(Condition.one_of("status", ["completed", "running"])) == 3
    assert await listed(Condition.one_of("status", ["completed"]), Condition.words("lighthouse")) == 0
    assert await listed(Condition.one_of("actor", ["' or not (x)\0"])) == 0
    assert await listed(Condition.opened("<", NOW_MS * 2)) == 3
    assert await listed(Condition.opened(">", NOW_MS * 2)) == 0
