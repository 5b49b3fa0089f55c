"""What operators watch: the rows say what is open, whose turn it is, and what waits for a person."""

from collections import Counter

from wandering_workflows import BEGIN, wandering, write

from builders import At, Told, paused, planned, requested
from poweron_events import topics
from poweron_events.fold.stage_specs import TURNS
from poweron_events.log.memory import MemoryLog
from poweron_projections import open_questions
from poweron_projections.connection import Pool
from poweron_projections.operations import open_workflows
from poweron_projections.verify import catch_up
from poweron_projections.workload import Turns, Workload, read_workload

EVENTS = topics.EVENTS.name
HOUR_MS = 3_600_000


async def test_before_the_first_projector_nothing_waits(pool: Pool) -> None:
    assert await read_workload(pool, BEGIN) == Workload()


async def test_the_workload_of_many_workflows_is_that_of_their_folds(log: MemoryLog, pool: Pool) -> None:
    stories = [wandering(number) for number in range(60)]
    write(log, stories)
    log.write(EVENTS, b"x", b"no event")
    await catch_up(log, pool)
    workload = await read_workload(pool, BEGIN)
    workflows = [told.workflow for told, _ in stories]
    expected = Counter(workflow.phase for workflow in workflows if workflow.is_open)
    found = Counter[str]()
    for turns in workload.turns:
        found[turns.phase] += turns.workflows
    assert found == expected
    assert len(expected) > 4
    assert workload.stuck == sum(workflow.stuck and workflow.is_open for workflow in workflows) > 0
    assert workload.approvals == len(await open_questions.approvals(pool, limit=1_000)) > 0
    having_turns = Counter[str]()
    for turns in workload.turns:
        if turns.has_turn:
            having_turns[TURNS[turns.phase]] += turns.workflows
    shown = await open_workflows(pool)
    assert having_turns == Counter({turn.role: turn.waiting + turn.at_work for turn in shown.turns})
    assert workload.dead_letters == {EVENTS: 1}
    assert sum(workload.positions.values()) == sum(len(told.values) for told, _ in stories) + 1


async def test_a_workflow_that_is_paused_or_waits_for_a_person_waits_for_no_role_unless_an_action_runs(
    log: MemoryLog, pool: Pool
) -> None:
    at = At()
    thinks = Told("1").tell(requested("1"))
    is_paused = Told("2").tell(requested("2"), paused())
    asks = Told("3").tell(requested("3", on_budget="ask"), At(0, 0, 0).budget_requested("plan"))
    waits = Told("4").tell(
        requested("4"), planned(), at.selected(), at.parameters(), at.approval_requested(expires_ms=2 * HOUR_MS)
    )
    acts = Told("5").tell(requested("5"), planned(), at.selected(), at.parameters(), at.started(), paused())
    stories = [thinks, is_paused, asks, waits, acts]
    write(log, [(told, [BEGIN + number for number in range(len(told.values))]) for told in stories])
    await catch_up(log, pool)
    workload = await read_workload(pool, BEGIN)
    assert set(workload.turns) == {
        Turns("plan", has_turn=True, workflows=1, since_ms=BEGIN),
        Turns("plan", has_turn=False, workflows=2, since_ms=BEGIN + 1),
        Turns("approve", has_turn=False, workflows=1, since_ms=BEGIN + 4),
        Turns("started", has_turn=True, workflows=1, since_ms=BEGIN + 5),
    }
    assert (workload.approvals, workload.overdue, workload.questions) == (1, 0, 1)
    assert (await read_workload(pool, BEGIN + HOUR_MS)).overdue == 0
    assert (await read_workload(pool, BEGIN + HOUR_MS + 5)).overdue == 1
