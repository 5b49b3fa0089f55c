"""What operators see: the lag of each group, whose turn it is, what no role works on, and what calls used."""

from datetime import datetime

from process_records import Process, instance_started

from builders import CALL, FAILED_CALLS, At, Told, planned, requested, typical
from poweron_events import topics
from poweron_events.log import Message
from poweron_events.log.memory import MemoryLog
from poweron_projections import reader
from poweron_projections.connection import Pool
from poweron_projections.operations import halted_workflows, lag_level, lags, open_workflows
from poweron_projections.usage_totals import added, usage_totals
from poweron_projections.verify import catch_up

EVENTS = topics.EVENTS.name


async def given(log: MemoryLog, pool: Pool, *stories: Told) -> None:
    for told in stories:
        await log.append(EVENTS, told.messages)
    await catch_up(log, pool)


async def test_the_lag_of_the_projector_is_what_the_rows_lack(log: MemoryLog, pool: Pool) -> None:
    await given(log, pool, typical())
    late = typical("2")
    await log.append(EVENTS, late.messages)
    projector = next(lag for lag in await lags(log, pool, []) if lag.group == "poweron.projector")
    assert (projector.lag, projector.level, projector.has_members) == (len(late.messages), "critical", False)
    assert projector.by_partition == {log.partition_of(EVENTS, late.id.encode()): len(late.messages)}


async def test_a_request_that_no_process_takes_is_critical_lag_of_intake(log: MemoryLog, pool: Pool) -> None:
    await given(log, pool)
    await log.append(topics.REQUESTS.name, [Message(b"1", b"{}")])
    found = {lag.group: (lag.lag, lag.level) for lag in await lags(log, pool, [])}
    assert found[topics.INTAKE_GROUP] == (1, "critical")
    assert found["poweron.projector"] == (0, "ok")


async def test_each_set_of_roles_that_a_process_plays_has_its_group(log: MemoryLog, pool: Pool) -> None:
    await given(log, pool, Process().tell(instance_started(roles=("executor", "intake"))))
    found = [lag.group for lag in await lags(log, pool, await reader.instances_at(pool, 2**53))]
    assert found[-1] == "poweron.executor"


def test_lag_is_serious_from_a_thousand_records_on() -> None:
    levels = [lag_level(lag, has_members=True) for lag in (0, 999, 1_000, 9_999, 10_000)]
    assert levels == ["ok", "ok", "warning", "warning", "critical"]


async def test_open_workflows_are_counted_for_the_role_whose_turn_it_is(log: MemoryLog, pool: Pool) -> None:
    at = At()
    planning = Told("1").tell(requested("1"))
    running = Told("2").tell(requested("2"), planned(), at.selected(), at.parameters(), at.started())
    asking = Told("3").tell(requested("3"), planned(), at.selected(), at.parameters(), at.approval_requested())
    await given(log, pool, planning, running, asking, typical("4"))
    found = await open_workflows(pool)
    turns = {turn.role: (turn.waiting, turn.at_work, turn.oldest) for turn in found.turns}
    assert turns["planner"] == (1, 0, planning.id)
    assert turns["executor"] == (0, 1, None)
    assert (found.approvals, found.total) == (1, 3)


async def test_a_workflow_that_is_answered_in_vain_is_halted(log: MemoryLog, pool: Pool) -> None:
    told = Told().tell(requested(), planned())
    for reason in ("1", "2", "3"):
        told.tell(At().refined(reason=reason))
    await given(log, pool, told)
    (halted,) = await halted_workflows(pool, limit=10)
    assert (halted.workflow_id, halted.stuck, halted.frozen) == (told.id, True, False)
    assert (await open_workflows(pool)).stuck == 1


async def test_halted_workflows_are_listed_page_by_page(log: MemoryLog, pool: Pool) -> None:
    stories = [Told(number).tell(requested(number), planned()) for number in ("1", "2", "3")]
    for told in stories:
        for reason in ("1", "2", "3"):
            told.tell(At().refined(reason=reason))
    await given(log, pool, *stories)
    whole = await halted_workflows(pool, limit=10)
    first = await halted_workflows(pool, limit=2)
    since_ms = round(datetime.fromisoformat(first[-1].since).timestamp() * 1_000)
    second = await halted_workflows(pool, limit=2, after=(since_ms, first[-1].workflow_id))
    assert {each.workflow_id for each in whole} == {told.id for told in stories}
    assert (first, second) == (whole[:2], whole[2:])


async def test_usage_adds_up_whatever_happened_to_the_calls(log: MemoryLog, pool: Pool) -> None:
    told = Told().tell(
        requested(),
        planned(),
        planned(),
        At().selection_rejected().model_copy(update={"failed_calls": (FAILED_CALLS,)}),
    )
    await given(log, pool, told)
    (stages, models, days) = [await usage_totals(pool, key) for key in ("stage", "model", "day")]
    by_stage = {total.key: {fate: part.calls for fate, part in total.fates.items()} for total in stages}
    assert by_stage == {
        "plan": {"used": 1, "superseded": 1},
        "select": {"refused": 1, "failed": FAILED_CALLS.count},
    }
    assert added(stages) == added(models) == added(days)
    assert added(stages).input_tokens == 3 * CALL.input_tokens + FAILED_CALLS.input_tokens
    assert {total.key for total in models} == {f"{CALL.provider}/{CALL.model}", ""}


async def test_usage_before_or_after_the_time_does_not_count(log: MemoryLog, pool: Pool) -> None:
    await given(log, pool, Told().tell(requested(), planned()))
    assert await usage_totals(pool, "actor", since_ms=2**61) == []
    assert await usage_totals(pool, "actor", before_ms=1) == []
    (total,) = await usage_totals(pool, "actor")
    assert total.calls == 1
