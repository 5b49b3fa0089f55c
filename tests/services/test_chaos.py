"""Chaos without servers: the plans are those of their seed, and whatever is wrong is named."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import get_args

import orjson
import pytest

from builders import At, completed, planned, requested, reviewed
from builders import Told as Telling
from poweron_events import topics
from poweron_events.event import CriterionProgress
from poweron_events.log import Record
from poweron_events.log.memory import MemoryLog
from poweron_services.actions.action import Order
from poweron_services.chaos.evidence import Answers, Asked, Claim, Evidence, RoundTold, Shown, Step, Told, Witness
from poweron_services.chaos.faults import KINDS, LASTING, SENTENCES, Kind, plan
from poweron_services.chaos.load import MAX_STEPS, Load, letters
from poweron_services.chaos.recovery import Strike, Watch
from poweron_services.chaos.scenarios import ErrandModel, ErrandParameters, Journal, errand_actions
from poweron_services.chaos.status import tallies
from poweron_services.chaos.verdict import judge
from poweron_services.models.prompts import ParametersPrompt, RefinementPrompt, SelectionPrompt, Template

WORKFLOW = "0f3c5a10-0000-5000-8000-000000000001"
KEY = "key-1"
MINUTE = 60.0  # seconds


# --- plans ------------------------------------------------------------------------------------------------


def test_the_same_seed_plans_the_same_faults() -> None:
    assert plan(7, MINUTE) == plan(7, MINUTE)
    assert plan(7, MINUTE) != plan(8, MINUTE)


def test_a_longer_run_begins_as_a_shorter_one() -> None:
    shorter = plan(7, MINUTE)
    assert plan(7, 10 * MINUTE)[: len(shorter)] == shorter


def test_every_kind_of_fault_strikes_as_often_as_any_other() -> None:
    planned_ = plan(7, 10 * MINUTE)
    counts = Counter(fault.kind for fault in planned_)
    assert set(counts) == set(KINDS) == set(SENTENCES) == set(get_args(Kind))
    assert max(counts.values()) - min(counts.values()) <= 1
    assert all(LASTING[fault.kind][0] <= fault.lasts <= LASTING[fault.kind][1] for fault in planned_)
    assert all(0 < fault.at < 10 * MINUTE for fault in planned_)


def test_the_same_seed_asks_for_the_same_errands() -> None:
    assert [letters(7, number) for number in range(50)] == [letters(7, number) for number in range(50)]
    assert letters(7, 1) != letters(8, 1)


def test_errands_are_repeated_followed_up_and_called_off_now_and_then() -> None:
    written = [letter for number in range(200) for letter in letters(7, number)]
    kinds = Counter(letter.request_id.rpartition("-")[0] for letter in written)
    assert kinds["errand"] == 200
    assert min(kinds["follow-up"], kinds["cancel"]) > 5
    assert {len(letter.times) for letter in written} == {1, 2, 3}


async def test_a_muster_has_an_errand_in_each_partition() -> None:
    log = MemoryLog()
    load = Load(log, 7, asyncio.Event())
    for muster in (1, 2):
        await load.ask_everywhere()
        assert await log.ends(topics.REQUESTS.name) == dict.fromkeys(range(12), muster)
        assert len(load.asked) == load.posted == 12 * muster


# --- errands ----------------------------------------------------------------------------------------------


def _selecting(steps_left: int) -> SelectionPrompt:
    return SelectionPrompt(
        template=Template("selection", ""),
        user_prompt="Run errand 1.",
        language=None,
        objective="Run errand 1.",
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


async def test_a_repeated_try_of_an_errand_is_the_same_try() -> None:
    first = await ErrandModel().complete(_selecting(2))
    again = await ErrandModel().complete(_selecting(2))
    assert first.text == again.text


async def test_an_errand_goes_on_until_no_step_is_left(tmp_path: Path) -> None:
    decisions = []
    for steps_left in (1, 0):
        prompt = RefinementPrompt(
            template=Template("refinement", ""),
            objective="Run errand 1.",
            progress=(CriterionProgress(criterion="Every step was taken.", met=False),),
            selected_action="errand.look",
            observation=None,  # type: ignore[arg-type] # the model does not look at it
            steps_left=steps_left,
        )
        decisions.append(orjson.loads((await ErrandModel().complete(prompt)).text)["decision"])
    assert decisions == ["continue", "stop"]


async def test_the_journal_tells_who_had_an_effect_and_how_often(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "effects")
    action = errand_actions(journal)["errand.send"]
    parameters = ErrandParameters(before_ms=0, after_ms=0)
    order = Order(parameters=parameters, documents=(), language=None, idempotency_key=KEY, ask=None)  # type: ignore[arg-type] # it asks nothing
    await action(order)
    await action(order)
    ((key, pid),) = journal.read()
    assert (key, journal.read()[key, pid]) == (KEY, 2)


async def test_parameters_are_those_that_the_selection_named() -> None:
    selected = orjson.loads((await ErrandModel().complete(_selecting(2))).text)
    prompt = ParametersPrompt(
        template=Template("parameters", ""),
        action_objective="",
        selected_action=selected["action"],
        parameters_context=selected["parametersContext"],
        fields=(),
        refusal=None,
    )
    answered = orjson.loads((await ErrandModel().complete(prompt)).text)
    assert answered["parameters"] == orjson.loads(selected["parametersContext"])


# --- watching ---------------------------------------------------------------------------------------------


def _records(telling: Telling) -> list[Record]:
    home = topics.partition_of(telling.id.encode(), topics.PARTITIONS)
    return [
        Record(topics.EVENTS.name, home, offset, 1_000 + offset, message.key, message.value, {})
        for offset, message in enumerate(telling.messages)
    ]


def _errand() -> list[Record]:
    at, telling = At(), Telling()
    claimed = at.started(worker="a-host-with-dashes-4711-0f3c5a10")
    took = [at.selected(), at.parameters(), claimed, at.done(), at.observed(), at.refined()]
    telling.tell(requested(), planned(), *took, reviewed(), completed())
    return _records(telling)


def test_a_fault_is_recovered_when_every_open_workflow_has_gone_on() -> None:
    watch = Watch()
    opening, *rest = _errand()
    watch.take(opening)
    watch.struck("kafka_killed", now_ms=1_000)
    (strike,) = watch.strikes
    assert strike.waiting == watch.open != set()
    watch.take(rest[0])
    assert (strike.first_ms, strike.all_ms) == (1_001, 1_001)


def test_what_was_written_before_the_fault_is_no_recovery() -> None:
    watch = Watch()
    opening, *rest = _errand()
    watch.take(opening)
    watch.struck("kafka_killed", now_ms=1_001)
    watch.take(rest[0])
    assert watch.strikes[0].all_ms is None


def test_a_record_that_comes_twice_is_counted_once() -> None:
    watch = Watch()
    for record in [*_errand(), *_errand()]:
        watch.take(record)
    assert watch.events == len(_errand())
    assert (watch.endings["completed"], watch.open) == (1, set())


def test_the_table_tells_median_and_longest_of_each_kind() -> None:
    strikes = [Strike("rows_lost", 1_000, set(), 1_000 + took, 2_000 + took) for took in (100, 200, 900)]
    strikes.append(Strike("rows_lost", 1_000, {WORKFLOW}))
    (tally,) = tallies(strikes)
    assert (tally.struck, tally.recovered) == (4, 3)
    assert (tally.first, tally.median, tally.longest) == (200, 1_200, 1_900)


# --- the verdict ------------------------------------------------------------------------------------------


def evidence(**changed: object) -> Evidence:
    """One errand of two steps as it should be: asked, answered, done, shown."""
    told = Told(
        rounds={(WORKFLOW, 1): RoundTold(max_steps=2, steps=2, endings=["completed"])},
        steps={KEY: Step(WORKFLOW, [Claim(1, "at_most_once")], done_by=1)},
        phases={WORKFLOW: "ended"},
    )
    told.answers["errand-1"] = Answers(accepted=1)
    given = {
        "asked": [Asked("errand-1", WORKFLOW, "workflow")],
        "told": told,
        "effects": Counter({(KEY, 1): 1}),
        "shown": {WORKFLOW: Shown("completed", 1)},
    }
    return Evidence(**{**given, **changed})  # type: ignore[arg-type] # a test changes what it likes


def found(told: Evidence, *, finished: bool = True) -> list[tuple[str, str | None]]:
    return [(each.promise, each.workflow_id) for each in judge(told, finished=finished)]


def test_what_is_as_it_should_be_is_clean() -> None:
    assert found(evidence()) == []


def test_a_request_without_an_answer_is_lost() -> None:
    lost = evidence()
    lost.told.answers.clear()
    assert found(lost) == [("nothing lost", WORKFLOW)]
    assert found(lost, finished=False) == []


def test_a_request_that_is_accepted_twice_is_named() -> None:
    twice = evidence()
    twice.told.answers["errand-1"].accepted = 2
    assert found(twice) == [("one answer", WORKFLOW)]


def test_a_request_that_nobody_sent_is_named() -> None:
    invented = evidence()
    invented.told.answers["errand-2"] = Answers(accepted=1)
    assert found(invented) == [("one answer", None)]


def test_a_round_that_does_not_end_is_named_with_what_it_waits_for() -> None:
    stuck = evidence(shown={WORKFLOW: Shown("running", 1)})
    stuck.told.rounds[WORKFLOW, 1].endings.clear()
    stuck.told.phases[WORKFLOW] = "started"
    (violation,) = judge(stuck)
    assert violation.workflow_id == WORKFLOW
    assert "'started'" in violation.sentence
    assert found(stuck, finished=False) == []


@pytest.mark.parametrize(
    "round_",
    [
        RoundTold(max_steps=2, steps=2, endings=["completed", "completed"]),
        RoundTold(max_steps=2, steps=2, endings=["failed"]),
        RoundTold(max_steps=2, steps=1, endings=["completed"]),
        RoundTold(max_steps=2, steps=2, endings=["completed"], cancelled=True),
        RoundTold(max_steps=2, steps=2, endings=["cancelled"]),
    ],
)
def test_a_round_that_does_not_end_once_and_as_expected_is_named(round_: RoundTold) -> None:
    wrong = evidence(shown={WORKFLOW: Shown(round_.endings[-1], 1)})
    wrong.told.rounds[WORKFLOW, 1] = round_
    assert found(wrong) == [("ends once, as expected", WORKFLOW)]


def test_a_cancelled_round_may_end_after_any_step() -> None:
    stopped = evidence(shown={WORKFLOW: Shown("cancelled", 1)})
    stopped.told.rounds[WORKFLOW, 1] = RoundTold(max_steps=2, steps=1, endings=["cancelled"], cancelled=True)
    assert found(stopped) == []


def test_an_effect_that_may_be_had_once_and_was_had_twice_is_named() -> None:
    both = [Claim(1, "at_most_once"), Claim(2, "at_most_once")]
    twice = evidence(effects=Counter({(KEY, 1): 1, (KEY, 2): 1}))
    twice.told.steps[KEY] = Step(WORKFLOW, both, done_by=1)
    assert found(twice) == [("at most once", WORKFLOW)]


def test_a_repeated_effect_is_fine_where_each_had_its_own_claim() -> None:
    both = [Claim(1, "idempotent"), Claim(2, "idempotent")]
    repeated = evidence(effects=Counter({(KEY, 1): 1, (KEY, 2): 1}))
    repeated.told.steps[KEY] = Step(WORKFLOW, both, done_by=2)
    assert found(repeated) == []


def test_an_effect_twice_under_one_claim_is_named() -> None:
    twice = evidence(effects=Counter({(KEY, 1): 2}))
    twice.told.steps[KEY] = Step(WORKFLOW, [Claim(1, "pure")], done_by=1)
    assert found(twice) == [("one effect a claim", WORKFLOW)]


def test_an_effect_without_a_claim_is_named() -> None:
    assert found(evidence(effects=Counter({(KEY, 1): 1, ("key-2", 1): 1}))) == [("claim before effect", None)]


def test_a_result_without_its_effect_is_named() -> None:
    assert found(evidence(effects=Counter())) == [("done is done", WORKFLOW)]


def test_rows_that_differ_and_readers_that_disagree_are_named() -> None:
    assert found(evidence(differences=["workflows: the row is missing."])) == [("rows are the log", None)]
    assert found(evidence(shown={})) == [("readers agree", WORKFLOW)]
    assert found(evidence(shown={WORKFLOW: Shown("running", 1)})) == [("readers agree", WORKFLOW)]


def test_a_record_that_nobody_can_read_and_nobody_buried_is_named() -> None:
    assert found(evidence(poison=[b"?"], buried={b"?"})) == []
    assert found(evidence(poison=[b"?"])) == [("poison is buried", None)]


def test_a_process_that_ends_by_itself_is_named() -> None:
    assert found(evidence(surprises=["Process 'north' ended by itself."])) == [("nothing unasked", None)]


def test_the_witness_tells_rounds_claims_and_answers() -> None:
    witness = Witness()
    witness.hear(_errand())
    ((workflow_id, number),) = witness.told.rounds
    round_ = witness.told.rounds[workflow_id, number]
    (claimed,) = witness.told.steps.values()
    assert (number, round_.endings, round_.cancelled) == (1, ["completed"], False)
    assert (claimed.claims, claimed.done_by) == ([Claim(4711, "pure")], 4711)
    assert [answers.accepted for answers in witness.told.answers.values()] == [1]
    assert witness.told.superseded == 0


def test_errands_take_no_more_steps_than_they_may() -> None:
    steps = {letters(7, number)[0].request.max_steps for number in range(50)}  # type: ignore[union-attr] # the opening
    assert steps == set(range(1, MAX_STEPS + 1))
