"""Chaos without servers: the plans are those of their seed, and whatever is wrong is named."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import get_args

import orjson
import pytest

from builders import At, Told, completed, planned, requested, reviewed
from poweron_events import topics
from poweron_events.event import CriterionProgress
from poweron_events.log import Record
from poweron_events.log.memory import MemoryLog
from poweron_services.actions.action import Order
from poweron_services.experiments.chaos.evidence import (
    AnswerCounts,
    Evidence,
    ListedWorkflow,
    LoggedAction,
    LoggedClaim,
    LoggedRound,
    LogReader,
    LogSummary,
    RecordPosition,
    SentRequest,
)
from poweron_services.experiments.chaos.experiment import error_lines_without_action
from poweron_services.experiments.chaos.faults import (
    DURATIONS,
    FAULT_NAMES,
    KINDS,
    FaultKind,
    InjectedFault,
    RecoveryMonitor,
    plan_faults,
)
from poweron_services.experiments.chaos.load import FLOOD, MAX_SCENARIO_STEPS, LoadGenerator, forged_id, plan_requests
from poweron_services.experiments.chaos.scenarios import Journal, ScenarioModel, ScenarioParameters, scenario_actions
from poweron_services.experiments.chaos.status import fault_statistics
from poweron_services.experiments.chaos.verdict import judge
from poweron_services.models.prompts import ParametersPrompt, RefinementPrompt, SelectionPrompt, Template

WORKFLOW = "0f3c5a10-0000-5000-8000-000000000001"
KEY = "key-1"
MINUTE = 60.0  # seconds


# --- plans ------------------------------------------------------------------------------------------------


def test_the_same_seed_plans_the_same_faults() -> None:
    assert plan_faults(7, MINUTE) == plan_faults(7, MINUTE)
    assert plan_faults(7, MINUTE) != plan_faults(8, MINUTE)


def test_a_longer_run_begins_as_a_shorter_one() -> None:
    shorter = plan_faults(7, MINUTE)
    assert plan_faults(7, 10 * MINUTE)[: len(shorter)] == shorter


def test_every_kind_of_fault_comes_as_often_as_any_other() -> None:
    planned_ = plan_faults(7, 10 * MINUTE)
    counts = Counter(fault.kind for fault in planned_)
    assert set(counts) == set(KINDS) == set(FAULT_NAMES) == set(get_args(FaultKind))
    assert max(counts.values()) - min(counts.values()) <= 1
    assert all(DURATIONS[fault.kind][0] <= fault.lasts <= DURATIONS[fault.kind][1] for fault in planned_)
    assert all(0 < fault.at < 10 * MINUTE for fault in planned_)


def test_the_same_seed_plans_the_same_requests() -> None:
    assert [plan_requests(7, number) for number in range(50)] == [plan_requests(7, number) for number in range(50)]
    assert plan_requests(7, 1) != plan_requests(8, 1)


def test_scenarios_are_repeated_followed_up_and_cancelled_now_and_then() -> None:
    planned_ = [request for number in range(200) for request in plan_requests(7, number)]
    kinds = Counter(request.request_id.rpartition("-")[0] for request in planned_)
    assert kinds["scenario"] == 200
    assert min(kinds["follow-up"], kinds["cancel"]) > 5
    assert {len(request.times) for request in planned_} == {1, 2, 3}


async def test_each_half_gets_a_scenario_in_each_partition() -> None:
    log = MemoryLog()
    load = LoadGenerator(log, 7, asyncio.Event())
    for half in (1, 2):
        await load.send_to_each_partition()
        assert await log.ends(topics.REQUESTS.name) == dict.fromkeys(range(12), half)
        assert len(load.sent) == load.records == 12 * half


# --- scenarios --------------------------------------------------------------------------------------------


def _selecting(steps_left: int) -> SelectionPrompt:
    return SelectionPrompt(
        template=Template("selection", ""),
        user_prompt="Run scenario 1.",
        language=None,
        objective="Run scenario 1.",
        progress=(),
        task_type="transform",
        expected_formats=(),
        catalog=(),
        documents=(),
        connections=(),
        history=(),
        earlier="",
        hint=None,
        improvements=(),
        refusal=None,
        steps_left=steps_left,
    )


async def test_a_repeated_try_of_a_scenario_is_the_same_try() -> None:
    first = await ScenarioModel().complete(_selecting(2))
    again = await ScenarioModel().complete(_selecting(2))
    assert first.text == again.text


async def test_a_scenario_goes_on_until_no_step_is_left(tmp_path: Path) -> None:
    decisions = []
    for steps_left in (1, 0):
        prompt = RefinementPrompt(
            template=Template("refinement", ""),
            objective="Run scenario 1.",
            progress=(CriterionProgress(criterion="Every step was taken.", met=False),),
            selected_action="scenario.look",
            observation=None,  # type: ignore[arg-type] # the model does not look at it
            findings=(),
            steps_left=steps_left,
        )
        decisions.append(orjson.loads((await ScenarioModel().complete(prompt)).text)["decision"])
    assert decisions == ["continue", "stop"]


async def test_the_journal_tells_who_had_an_effect_and_how_often(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "effects")
    action = scenario_actions(journal)["scenario.send"]
    parameters = ScenarioParameters(before_ms=0, after_ms=0)
    order = Order(parameters=parameters, documents=(), language=None, idempotency_key=KEY, ask=None)  # type: ignore[arg-type] # it asks nothing
    await action(order)
    await action(order)
    ((key, pid),) = journal.read()
    assert (key, journal.read()[key, pid]) == (KEY, 2)


async def test_parameters_are_those_that_the_selection_named() -> None:
    selected = orjson.loads((await ScenarioModel().complete(_selecting(2))).text)
    prompt = ParametersPrompt(
        template=Template("parameters", ""),
        action_objective="",
        selected_action=selected["action"],
        parameters_context=selected["parametersContext"],
        fields=(),
        refusal=None,
    )
    answered = orjson.loads((await ScenarioModel().complete(prompt)).text)
    assert answered["parameters"] == orjson.loads(selected["parametersContext"])


# --- recovery ---------------------------------------------------------------------------------------------


def _records(told: Told) -> list[Record]:
    home = topics.partition_of(told.id.encode(), topics.PARTITIONS)
    return [
        Record(topics.EVENTS.name, home, offset, 1_000 + offset, message.key, message.value, {})
        for offset, message in enumerate(told.messages)
    ]


def _scenario() -> list[Record]:
    at, told = At(), Told()
    claimed = at.started(worker="a-host-with-dashes-4711-0f3c5a10")
    took = [at.selected(), at.parameters(), claimed, at.done(), at.observed(), at.refined()]
    told.tell(requested(), planned(), *took, reviewed(), completed())
    return _records(told)


def test_a_fault_is_recovered_when_every_open_workflow_has_gone_on() -> None:
    monitor = RecoveryMonitor()
    opening, *rest = _scenario()
    monitor.take(opening)
    monitor.fault_injected("kafka_killed", now_ms=1_000)
    (fault,) = monitor.faults
    assert fault.waiting == monitor.open != set()
    monitor.take(rest[0])
    assert (fault.first_ms, fault.all_ms) == (1_001, 1_001)


def test_what_was_written_before_the_fault_is_no_recovery() -> None:
    monitor = RecoveryMonitor()
    opening, *rest = _scenario()
    monitor.take(opening)
    monitor.fault_injected("kafka_killed", now_ms=1_001)
    monitor.take(rest[0])
    assert monitor.faults[0].all_ms is None


def test_a_record_that_comes_twice_is_counted_once() -> None:
    monitor = RecoveryMonitor()
    for record in [*_scenario(), *_scenario()]:
        monitor.take(record)
    assert monitor.events == len(_scenario())
    assert (monitor.endings["completed"], monitor.open) == (1, set())


def test_the_table_tells_median_and_longest_of_each_kind() -> None:
    faults = [InjectedFault("rows_lost", 1_000, set(), 1_000 + took, 2_000 + took) for took in (100, 200, 900)]
    faults.append(InjectedFault("rows_lost", 1_000, {WORKFLOW}))
    (statistics,) = fault_statistics(faults)
    assert (statistics.injected, statistics.recovered) == (4, 3)
    assert (statistics.first, statistics.median, statistics.longest) == (200, 1_200, 1_900)


# --- the verdict ------------------------------------------------------------------------------------------


def evidence(**changed: object) -> Evidence:
    """One scenario of two steps as it should be: requested, answered, done, shown."""
    log = LogSummary(
        rounds={(WORKFLOW, 1): LoggedRound(max_steps=2, steps=2, endings=["completed"])},
        actions={KEY: LoggedAction(WORKFLOW, 1, [LoggedClaim(1, "at_most_once")], done_by=1)},
        phases={WORKFLOW: "ended"},
    )
    log.answers["scenario-1"] = AnswerCounts(accepted=1)
    given = {
        "requests": [SentRequest("scenario-1", WORKFLOW, "workflow")],
        "log": log,
        "effects": Counter({(KEY, 1): 1}),
        "listed": {WORKFLOW: ListedWorkflow("completed", 1)},
    }
    return Evidence(**{**given, **changed})  # type: ignore[arg-type] # a test changes what it likes


def found(given: Evidence, *, finished: bool = True) -> list[tuple[str, str | None]]:
    return [(each.promise, each.workflow_id) for each in judge(given, finished=finished)]


def test_what_is_as_it_should_be_is_clean() -> None:
    assert found(evidence()) == []


def test_a_ledger_that_does_not_hold_is_named() -> None:
    assert found(evidence(ledger=["V3: record 0/5 is not in the log."])) == [("the ledger proves the log", None)]


def test_a_request_without_an_answer_is_lost() -> None:
    lost = evidence()
    lost.log.answers.clear()
    assert found(lost) == [("nothing lost", WORKFLOW)]
    assert found(lost, finished=False) == []


def test_a_request_that_is_accepted_twice_is_named() -> None:
    twice = evidence()
    twice.log.answers["scenario-1"].accepted = 2
    assert found(twice) == [("one answer", WORKFLOW)]


def test_a_request_that_nobody_sent_is_named() -> None:
    invented = evidence()
    invented.log.answers["scenario-2"] = AnswerCounts(accepted=1)
    assert found(invented) == [("one answer", None)]


def test_a_request_whose_workflow_was_forged_must_be_refused() -> None:
    forged = evidence(forged={"scenario-1"})
    forged.log.answers[forged_id("scenario-1")] = AnswerCounts(accepted=1)
    assert found(forged) == [("one answer", WORKFLOW)]
    forged.log.answers["scenario-1"] = AnswerCounts(refused=1)
    assert found(forged) == []


def test_records_that_are_appended_again_and_again_are_named() -> None:
    repeated = evidence()
    reader, told = LogReader(), Told().tell(requested(documents=()))
    home = topics.partition_of(told.id.encode(), topics.PARTITIONS)
    reader.read(Record("", home, offset, 0, told.id.encode(), told.values[0], {}) for offset in range(102))
    assert reader.summary.most_in_a_row == 101
    repeated.log.most_in_a_row = 101
    assert found(repeated) == [("nothing is appended for ever", None)]


async def test_a_flood_is_the_newest_request_many_times() -> None:
    log = MemoryLog()
    load = LoadGenerator(log, 7, asyncio.Event())
    await load.flood()
    assert load.records == 0
    for _ in range(2):
        await load.send(load.next_opening())
    await load.flood()
    assert load.records == 2 + FLOOD
    assert len(load.sent) == 2


def test_a_round_that_does_not_end_is_named_with_what_it_waits_for() -> None:
    stuck = evidence(listed={WORKFLOW: ListedWorkflow("running", 1)})
    stuck.log.rounds[WORKFLOW, 1].endings.clear()
    stuck.log.phases[WORKFLOW] = "started"
    (violation,) = judge(stuck)
    assert violation.workflow_id == WORKFLOW
    assert "'started'" in violation.sentence
    assert found(stuck, finished=False) == []


@pytest.mark.parametrize(
    "round_",
    [
        LoggedRound(max_steps=2, steps=2, endings=["completed", "completed"]),
        LoggedRound(max_steps=2, steps=2, endings=["failed"]),
        LoggedRound(max_steps=2, steps=1, endings=["completed"]),
        LoggedRound(max_steps=2, steps=2, endings=["completed"], cancelled=True),
        LoggedRound(max_steps=2, steps=2, endings=["cancelled"]),
    ],
)
def test_a_round_that_does_not_end_once_and_as_expected_is_named(round_: LoggedRound) -> None:
    wrong = evidence(listed={WORKFLOW: ListedWorkflow(round_.endings[-1], 1)})
    wrong.log.rounds[WORKFLOW, 1] = round_
    assert found(wrong) == [("ends once, as expected", WORKFLOW)]


def test_a_cancelled_round_may_end_after_any_step() -> None:
    stopped = evidence(listed={WORKFLOW: ListedWorkflow("cancelled", 1)})
    stopped.log.rounds[WORKFLOW, 1] = LoggedRound(max_steps=2, steps=1, endings=["cancelled"], cancelled=True)
    assert found(stopped) == []


def test_an_effect_that_may_be_had_once_and_was_had_twice_is_named() -> None:
    both = [LoggedClaim(1, "at_most_once"), LoggedClaim(2, "at_most_once")]
    twice = evidence(effects=Counter({(KEY, 1): 1, (KEY, 2): 1}))
    twice.log.actions[KEY] = LoggedAction(WORKFLOW, 1, both, done_by=1)
    assert found(twice) == [("at most once", WORKFLOW)]


def test_a_repeated_effect_is_fine_where_each_had_its_own_claim() -> None:
    both = [LoggedClaim(1, "idempotent"), LoggedClaim(2, "idempotent")]
    repeated = evidence(effects=Counter({(KEY, 1): 1, (KEY, 2): 1}))
    repeated.log.actions[KEY] = LoggedAction(WORKFLOW, 1, both, done_by=2)
    assert found(repeated) == []


def test_an_effect_twice_under_one_claim_is_named() -> None:
    twice = evidence(effects=Counter({(KEY, 1): 2}))
    twice.log.actions[KEY] = LoggedAction(WORKFLOW, 1, [LoggedClaim(1, "pure")], done_by=1)
    assert found(twice) == [("one effect a claim", WORKFLOW)]


def test_an_effect_without_a_claim_is_named() -> None:
    assert found(evidence(effects=Counter({(KEY, 1): 1, ("key-2", 1): 1}))) == [("claim before effect", None)]


def test_an_effect_after_an_acknowledged_cancellation_is_named() -> None:
    late = {"effect_times": {KEY: [1_001]}, "cancelled": {(WORKFLOW, 1): 1_000}}
    assert found(evidence(**late)) == [("no effect after an acknowledged cancellation", WORKFLOW)]
    assert found(evidence(**late | {"effect_times": {KEY: [999]}})) == []
    assert found(evidence(**late | {"cancelled": {(WORKFLOW, 2): 1_000}})) == []


def test_a_result_without_its_effect_is_named() -> None:
    assert found(evidence(effects=Counter())) == [("done is done", WORKFLOW)]


def test_rows_that_differ_and_readers_that_disagree_are_named() -> None:
    assert found(evidence(differences=["workflows: the row is missing."])) == [("rows are the log", None)]
    assert found(evidence(listed={})) == [("readers agree", WORKFLOW)]
    assert found(evidence(listed={WORKFLOW: ListedWorkflow("running", 1)})) == [("readers agree", WORKFLOW)]


def test_a_record_that_nobody_can_read_and_is_no_dead_letter_is_named() -> None:
    place = RecordPosition(topics.EVENTS.name, 1, 7)
    assert found(evidence(poison=[b"?"], bombs=[place], dead_letters={place: b"?"})) == []
    assert found(evidence(poison=[b"?"])) == [("poison becomes a dead letter", None)]
    assert found(evidence(bombs=[place], dead_letters={place._replace(offset=6): b"?"})) == [
        ("poison becomes a dead letter", None)
    ]


def test_a_process_that_ends_by_itself_is_named() -> None:
    assert found(evidence(unexpected=["Process 'all-1' ended by itself."])) == [("nothing unexpected", None)]


def test_the_log_reader_tells_rounds_claims_and_answers() -> None:
    log_reader = LogReader()
    log_reader.read(_scenario())
    ((workflow_id, number),) = log_reader.summary.rounds
    round_ = log_reader.summary.rounds[workflow_id, number]
    (claimed,) = log_reader.summary.actions.values()
    assert (number, round_.endings, round_.cancelled) == (1, ["completed"], False)
    assert (claimed.claims, claimed.done_by) == ([LoggedClaim(4711, "pure")], 4711)
    assert [answers.accepted for answers in log_reader.summary.answers.values()] == [1]
    assert log_reader.summary.superseded == 0


def test_scenarios_take_no_more_steps_than_they_may() -> None:
    steps = {plan_requests(7, number)[0].request.max_steps for number in range(50)}  # type: ignore[union-attr] # the opening
    assert steps == set(range(1, MAX_SCENARIO_STEPS + 1))


def test_an_error_line_that_requires_no_action_is_a_violation(tmp_path: Path) -> None:
    lines = [
        '{"event": "kafka_unavailable", "level": "warning"}',
        '{"event": "server_outage", "level": "error"}',
        '{"event": "Task exception was never retrieved", "level": "error"}',
        '{"event": "background_task_error", "level": "error"}',
        "Traceback (most recent call last):",
    ]
    (tmp_path / "all-1.log").write_text("\n".join(lines))
    sentences = error_lines_without_action(tmp_path)
    assert [line for line in lines if any(line in sentence for sentence in sentences)] == lines[2:]
    assert found(evidence(error_lines=sentences)) == 3 * [("an error line requires action", None)]
