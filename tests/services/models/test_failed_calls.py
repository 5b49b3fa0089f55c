"""Calls of models that fail: each is waited for, counted, and told in the event of its stage, as long as it fails."""

import asyncio
import re
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from doubles import TASK, WHOLE_LOOP, Counting, World, script, soon
from modes import MODES
from providers import Playing, failing, opened
from pytest_httpserver import HTTPServer
from structlog.testing import capture_logs

from builders import Told, cancellation, planned, requested
from poweron_events import retry
from poweron_events.catalog import CATALOG
from poweron_events.codec import dumps
from poweron_events.content import ContentStore
from poweron_events.errors import Refused, Unavailable
from poweron_events.event import FailedCalls
from poweron_events.fold.costs import failed_calls, used_by
from poweron_events.fold.state import Used
from poweron_events.round_events import TasksPlanned
from poweron_services import telemetry
from poweron_services.actions.action import Done, Order
from poweron_services.models.call import Caller
from poweron_services.models.chat_model import Completion, free
from poweron_services.models.prompts import ProcessPrompt, Prompt, Template
from poweron_services.models.scripted import ScriptedModel
from poweron_services.models.time_limit import TimeLimit
from poweron_services.roles.selector import generate_react_plan_selection_prompt

PLAN = {"tasks": [TASK]}
BROKEN = Unavailable("openai:test has trouble of its own (500).", code="model_unavailable")
BUSY = Unavailable("openai:test is asked too often (429).", code="model_busy")
PAID = Completion("", "openai", "test", 70, 8, 900, refusal=BROKEN)


def counted(event: Any) -> dict[str, int]:
    """How many calls failed on the way to an event, by code."""
    return {failed.code: failed.count for failed in failed_calls(event)}


def first(world: World, id_: str, kind: str) -> Any:
    return next(event for event in world.accepted(id_) if type(event).__name__ == kind)


class Paid(ScriptedModel):
    """A model whose first answers fail although they are paid for."""

    def __init__(self, failing: int) -> None:
        super().__init__(script())
        self.failing = failing

    async def complete(self, prompt: Prompt) -> Completion:
        if self.failing:
            if prompt.allowance is not None:
                prompt.allowance.longest_answer(PAID.input_tokens, PAID.output_tokens, lambda *_: PAID.cost_nano_usd)
            self.failing -= 1
            return PAID
        return await super().complete(prompt)


class Asking(Counting):
    """An action that asks a model once."""

    async def __call__(self, order: Order) -> Done:
        prompt = ProcessPrompt(
            template=Template("short", "Read.\n=== data ===\n{{ ai_prompt }}\n"),
            ai_prompt="What is the total?",
            custom_instructions="",
            language=None,
            output_format="markdown",
            documents=(),
        )
        await order.ask(prompt)
        return self.result()


# --- what events tell ------------------------------------------------------------------------------------


@pytest.mark.req("B-01")
@pytest.mark.usefixtures("logged")
async def test_the_event_of_a_stage_tells_of_the_calls_that_failed_before_it() -> None:
    world = World([Counting()], script(planning=[BROKEN, BUSY, BROKEN, PLAN]))
    async with world.process():
        id_ = await world.ask()
        await world.ended(id_)
    assert world.names(id_) == WHOLE_LOOP
    plan = first(world, id_, "TasksPlanned")
    assert counted(plan) == {"model_unavailable": 2, "model_busy": 1}
    assert plan.model_call.tries == 4
    assert [counted(event) for event in world.accepted(id_) if event is not plan] == [{}] * (len(WHOLE_LOOP) - 1)


STAGES = {
    "planning": "TasksPlanned",
    "selection": "ActionSelected",
    "parameters": "ParametersSet",
    "process": "ActionCompleted",
    "refinement": "RefinementDecided",
    "review": "TaskReviewed",
    "message": "RoundCompleted",
}


@pytest.mark.req("B-01")
@pytest.mark.usefixtures("logged")
@pytest.mark.parametrize("stage", STAGES)
async def test_each_stage_the_action_and_the_final_message_tell_of_theirs(stage: str) -> None:
    good = list(script()[next(kind for kind in script() if kind.__name__.lower().startswith(stage[:5]))])
    world = World([Asking()], script(**{stage: [BROKEN, *good]}))
    async with world.process():
        id_ = await world.ask()
        await world.ended(id_)
    assert world.names(id_) == WHOLE_LOOP
    told = {type(event).__name__: counted(event) for event in world.accepted(id_) if failed_calls(event)}
    assert told == {STAGES[stage]: {"model_unavailable": 1}}


@pytest.mark.req("B-01")
@pytest.mark.req("L-10")
@pytest.mark.usefixtures("logged")
async def test_a_stage_that_failed_in_the_end_counts_requests_and_tells_them(logged: list[Any]) -> None:
    world = World([Counting()], script(planning=[BROKEN]))
    async with world.process():
        id_ = await world.ask(stage_timeout_ms=1_000)
        await world.ended(id_)
    failed = first(world, id_, "StageFailed")
    requests = len(world.model.asked)
    assert requests > 2
    assert (failed.tries, counted(failed)) == (requests, {"model_unavailable": requests})
    assert failed.error == (
        f"It was tried {requests} times within 1 s, the time limit of a stage. The last trouble: {BROKEN}"
    )
    lines = [line for line in logged if line["event"] == telemetry.MODEL_WAITS]
    assert [line["tries"] for line in lines] == [*range(1, requests + 1)]


@pytest.mark.req("B-01")
@pytest.mark.usefixtures("logged")
@pytest.mark.parametrize(
    ("line", "code"),
    [
        (Refused("The key is not valid.", code="model_access_denied"), "model_access_denied"),
        (RuntimeError("a bug"), "unexpected_error"),
    ],
)
async def test_a_call_that_is_not_tried_again_is_told_too(line: Exception, code: str) -> None:
    world = World([Counting()], script(planning=[BROKEN, line]))
    async with world.process():
        id_ = await world.ask()
        await world.ended(id_)
    failed = first(world, id_, "StageFailed")
    assert (failed.tries, counted(failed)) == (2, {"model_unavailable": 1, code: 1})


@pytest.mark.req("B-01")
@pytest.mark.usefixtures("logged")
async def test_a_call_that_the_time_of_its_stage_cut_off_is_told_with_how_long_it_took() -> None:
    class Slow(ScriptedModel):
        async def complete(self, prompt: Prompt) -> Completion:
            self.asked.append(prompt)
            if len(self.asked) == 1:
                raise BROKEN
            await asyncio.Event().wait()
            raise AssertionError

    world = World([Counting()], model=Slow(script()))
    async with world.process():
        id_ = await world.ask(stage_timeout_ms=1_000)
        await world.ended(id_)
    failed = first(world, id_, "StageFailed")
    assert counted(failed) == {"model_unavailable": 1, "model_timeout": 1}
    assert 800 <= failed.failed_calls[1].duration_ms <= 1_000
    assert failed.error == f"It was tried 2 times within 1 s, the time limit of a stage. The last trouble: {BROKEN}"


@pytest.mark.req("B-01")
@pytest.mark.usefixtures("logged")
async def test_an_action_that_failed_for_its_model_tells_the_calls_and_the_trouble(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Asking, "spec", property(lambda action: replace(Counting.spec.fget(action), limit_ms=1_000)))
    world = World([Asking()], script(process=[BUSY]))
    async with world.process():
        id_ = await world.ask()
        await world.ended(id_)
    completed = first(world, id_, "ActionCompleted")
    (failed,) = completed.failed_calls
    assert (failed.code, completed.code) == ("model_busy", "model_busy")
    assert completed.error == (
        f"It was tried {failed.count} times within 1 s, the time limit of test.pure. The last trouble: {BUSY}"
    )


@pytest.mark.req("B-01")
@pytest.mark.usefixtures("logged")
async def test_an_answer_that_its_stage_could_not_use_is_told_with_its_tokens() -> None:
    asked = 0

    async def selected(workflow: Any) -> Any:
        nonlocal asked
        asked += 1
        prompt = generate_react_plan_selection_prompt(workflow, CATALOG)
        await Caller(world.model, world.content).call(workflow, prompt)
        if asked == 1:
            raise Unavailable("The content store did not answer.", code="content_store_unavailable")
        raise Refused("No.")

    world = World([Counting()])
    async with world.process(stage_functions={"selector": selected}):
        id_ = await world.ask()
        await world.ended(id_)
    failed = first(world, id_, "StageFailed")
    (unused,) = failed.failed_calls
    assert (unused.code, unused.count, unused.input_tokens, unused.output_tokens) == (
        *("content_store_unavailable", 1),
        *(10, 5),
    )
    assert [call.input_tokens for call in failed.model_calls] == [10]


@pytest.mark.req("B-01")
async def test_an_event_stays_small_however_many_calls_failed_and_is_as_before_where_none_did() -> None:
    plan, limit = planned(), TimeLimit(1)
    for code in ("model_busy", "model_unavailable", "model_timeout") * 1_000:
        limit.call_failed(FailedCalls(code=code, count=1, input_tokens=7, duration_ms=2), BROKEN)
    many = plan.model_copy(update={"failed_calls": limit.failed_calls})
    assert counted(many) == {"model_busy": 1_000, "model_unavailable": 1_000, "model_timeout": 1_000}
    assert {(each.input_tokens, each.duration_ms) for each in many.failed_calls} == {(7_000, 2_000)}
    assert len(many.failed_calls) == 3
    before, written = (dumps(each.model_dump(mode="json", by_alias=True)) for each in (plan, many))
    assert b"failedCalls" not in before
    assert len(written) - len(before) < 500
    assert TasksPlanned.model_validate_json(written) == many


@pytest.mark.req("B-01")
@pytest.mark.usefixtures("logged")
async def test_where_the_event_of_a_stage_cannot_be_written_its_failure_tells_all_tries() -> None:
    async def plans_what_cannot_be_written(workflow: Any) -> Any:
        (plan,) = await world.stage_functions(Caller(world.model, world.content))["planner"](workflow)
        return [plan.model_copy(update={"tasks": plan.tasks * 1_000})]

    world = World([Counting()], script(planning=[BROKEN, BUSY, BROKEN, PLAN]))
    async with world.process(stage_functions={"planner": plans_what_cannot_be_written}):
        id_ = await world.ask()
        await world.ended(id_)
    failed = first(world, id_, "StageFailed")
    assert (failed.code, counted(failed)) == ("event_too_large", {"model_unavailable": 2, "model_busy": 1})
    assert len(failed.model_calls) == 1
    assert failed.tries == len(world.model.asked) == 4


@pytest.mark.req("B-01")
@pytest.mark.usefixtures("logged")
async def test_an_answer_that_an_action_gave_up_while_it_was_being_kept_is_told_and_counts() -> None:
    class Impatient(Asking):
        async def __call__(self, order: Order) -> Done:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    await super().__call__(order)
                raise AssertionError
            return self.result()

    class Slow(ContentStore):
        async def put_all(self, workflow_id: str, contents: Any) -> Any:
            if any(b"What is the total?" in each for each in contents):
                await asyncio.Event().wait()
            return await super().put_all(workflow_id, contents)

    world = World([Impatient()])
    world.content = Slow.at("memory:///")
    async with world.process():
        id_ = await world.ask(prompt="Name it.")
        await world.ended(id_)
    completed = first(world, id_, "ActionCompleted")
    assert completed.success
    assert [(call.input_tokens, call.prompt_ref) for call in completed.model_calls] == [(10, None)]
    assert world.accepted(id_)[-1].totals.input_tokens == 10 * len(world.model.asked)


@pytest.mark.req("B-02")
@pytest.mark.req("S41")
@pytest.mark.usefixtures("logged")
@pytest.mark.parametrize("mode", MODES)
async def test_a_call_within_an_action_that_a_budget_does_not_hold_ends_the_round_with_that_code(mode: str) -> None:
    class Large(ScriptedModel):
        async def complete(self, prompt: Prompt) -> Completion:
            if isinstance(prompt, ProcessPrompt):
                assert prompt.allowance is not None
                prompt.allowance.longest_answer(1_000_000, 1_000, free)
            return await super().complete(prompt)

    world = World([Asking()], model=Large(script()))
    async with world.process():
        id_ = await world.ask(budgets={"round_tokens": 300_000}, workflow_mode=mode)
        await world.ended(id_)
    ending = first(world, id_, "RoundFailed")
    assert ending.code == "token_budget"
    assert "the next call may take 1,000,200 tokens." in ending.message
    assert [type(event).__name__ for event in world.accepted(id_)].count("ActionStarted") == 1


# --- what they cost --------------------------------------------------------------------------------------


@pytest.mark.req("B-01")
@pytest.mark.usefixtures("logged")
@pytest.mark.parametrize("mode", MODES)
async def test_what_a_failed_call_cost_is_in_the_totals(mode: str) -> None:
    world = World([Asking()], model=Paid(2))
    async with world.process():
        id_ = await world.ask(workflow_mode=mode)
        await world.ended(id_)
    events = world.accepted(id_)
    used = sum((used_by(event) for event in events), Used())
    totals = events[-1].totals
    assert (totals.input_tokens, totals.output_tokens, totals.cost_nano_usd) == used[:3]
    (failed,) = first(world, id_, "TasksPlanned").failed_calls
    assert (failed.count, failed.input_tokens, failed.output_tokens, failed.cost_nano_usd) == (2, 140, 16, 1_800)


@pytest.mark.req("B-01")
@pytest.mark.usefixtures("logged")
async def test_what_a_failed_call_cost_is_in_its_iteration_and_in_the_final_totals() -> None:
    class PaidWhere(ScriptedModel):
        async def complete(self, prompt: Prompt) -> Completion:
            again = prompt.stage in {each.stage for each in self.asked}
            if prompt.stage in ("refine", "message") and not again:
                self.asked.append(prompt)
                return PAID
            return await super().complete(prompt)

    world = World([Counting()], model=PaidWhere(script()))
    async with world.process():
        id_ = await world.ask()
        await world.ended(id_)
    assert first(world, id_, "RefinementDecided").iteration.input_tokens == 3 * 10 + 70
    assert world.accepted(id_)[-1].totals.input_tokens == 6 * 10 + 2 * 70


@pytest.mark.req("B-02")
@pytest.mark.req("S41")
@pytest.mark.usefixtures("logged")
async def test_a_model_that_is_paid_for_failing_is_asked_no_further_than_the_budget() -> None:
    world = World([Counting()], model=Paid(1_000))
    async with world.process():
        id_ = await world.ask(budgets={"workflow_cost_nano_usd": 2_000})
        await world.ended(id_)
    failed = first(world, id_, "StageFailed")
    assert (failed.code, counted(failed)) == ("cost_budget", {"model_unavailable": 2})
    assert world.accepted(id_)[-1].totals.cost_nano_usd == 1_800


# --- waiting ---------------------------------------------------------------------------------------------


async def test_the_pauses_grow_to_half_a_minute_and_each_try_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    slept = list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(retry, "asyncio", SimpleNamespace(sleep=sleep))
    told = Told().tell(requested(), planned()).workflow
    model = ScriptedModel(script(selection=[*[BROKEN] * 9, "{}"]))
    with capture_logs() as lines:
        called = await Caller(model, ContentStore.at("memory:///")).call(
            told, generate_react_plan_selection_prompt(told, CATALOG)
        )
    assert slept == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert called.call.tries == 10
    waits = [line for line in lines if line["event"] == telemetry.MODEL_WAITS]
    assert [(line["tries"], line["seconds"]) for line in waits] == [*enumerate(slept, start=1)]
    assert {(line["workflow_id"], line["stage"], line["code"]) for line in waits} == {
        (told.id, "select", "model_unavailable")
    }


async def test_a_provider_that_asks_for_an_hour_is_waited_for_where_the_stage_has_the_time(logged: list[Any]) -> None:
    an_hour = Unavailable("Slow down.", code="model_busy", retry_after=3_600)
    world = World([Counting()], script(planning=[an_hour]))
    async with world.process():
        id_ = await world.ask(stage_timeout_ms=2 * 3_600_000)
        await soon(lambda: telemetry.MODEL_WAITS in [line["event"] for line in logged])
        (line,) = [line for line in logged if line["event"] == telemetry.MODEL_WAITS]
        assert (line["tries"], line["seconds"]) == (1, 3_600)
        await world.tell(id_, cancellation())
        await world.ended(id_)
    assert len(world.model.asked) == 1
    assert "StageFailed" not in world.names(id_)


@pytest.mark.req("L-10")
@pytest.mark.usefixtures("logged")
async def test_a_provider_that_asks_for_more_time_than_the_stage_has_ends_it_at_once_and_says_when(
    httpserver: HTTPServer,
) -> None:
    playing = Playing(httpserver, "openai", [failing("openai", 429, "Slow down", **{"Retry-After": "3600"})])
    async with aclosing(opened(httpserver, "openai")) as model:
        world = World([Counting()], model=model)
        async with world.process():
            before = datetime.now(UTC)
            id_ = await world.ask()
            await world.ended(id_)
    failed = first(world, id_, "StageFailed")
    assert len(playing.asked) == 1
    assert (failed.code, failed.tries, counted(failed)) == ("model_busy", 1, {"model_busy": 1})
    found = re.fullmatch(
        r"openai:gpt-4o-mini is asked too often \(429\): Slow down\. "
        r"Wait 3,600 s, as it asks, or have the limits of the account raised\. "
        r"It may be tried again at (.+) UTC, in 1 h 0 min, which is later than a stage may take\.",
        failed.error,
    )
    assert found is not None, failed.error
    at = datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    assert timedelta(minutes=59) < at - before < timedelta(minutes=61)
    assert found[1] in world.accepted(id_)[-1].message
