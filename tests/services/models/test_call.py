"""One call of a model: shortened until the model takes it, and counted also where it would not answer."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from doubles import Counting
from structlog.testing import capture_logs

from builders import At, Told, planned, requested, step
from poweron_events.catalog import CATALOG
from poweron_events.content import ContentStore
from poweron_events.errors import Refused
from poweron_events.fold.history import render
from poweron_events.fold.state import Used, Workflow
from poweron_services import telemetry
from poweron_services.actions.action import Done, Order
from poweron_services.decider.size_limits import MAX_CALLS, fitting_calls
from poweron_services.models.answers import SelectionAnswer
from poweron_services.models.call import Caller
from poweron_services.models.chat_model import Completion, TooLong
from poweron_services.models.prompts import ProcessPrompt, Prompt, SelectionPrompt, SourceText, Template
from poweron_services.roles.action_execution import Execution
from poweron_services.roles.claims import Assignment
from poweron_services.roles.executor import Executor
from poweron_services.roles.selector import generate_react_plan_selection_prompt
from poweron_services.telemetry.spans import Span

WORKFLOW = Told().tell(requested(), planned()).workflow
SELECTED = Completion('{"action": "document.extract", "actionObjective": "Read it"}', "test", "narrow", 10, 5)
REFUSED = Completion(
    "", "test", "narrow", 10, 5, 7, refusal=Refused("The model would not answer.", code="answer_refused")
)


@dataclass
class Narrow:
    """A model that takes prompts of so many characters, and always answers the same."""

    completion: Completion
    takes: int = 100_000
    asked: list[str] = field(default_factory=list)

    async def complete(self, prompt: Prompt) -> Completion:
        self.asked.append(str(prompt.render()))
        if len(self.asked[-1]) > self.takes:
            raise TooLong("The prompt is longer than what narrow takes.")
        return self.completion


def selection() -> SelectionPrompt:
    told = Told().tell(requested(max_steps=50), planned())
    for number in range(1, 37):
        told.tell(*step(number, decision="continue"))
    return generate_react_plan_selection_prompt(told.workflow, CATALOG)


def process(text: str) -> ProcessPrompt:
    return ProcessPrompt(
        template=Template("short", "Read.\n=== data ===\n{{ documents[0].text }}\n"),
        ai_prompt="What is the total?",
        custom_instructions="",
        language=None,
        output_format="markdown",
        documents=(SourceText("docItem:1:a.txt", "a.txt", text),),
    )


@pytest.mark.req("P-09")
async def test_what_is_too_long_is_asked_again_with_half_of_the_history_and_every_try_counts() -> None:
    prompt, content = selection(), ContentStore.at("memory:///")
    model = Narrow(SELECTED, takes=len(str(prompt.render())) - 100)
    decided = await Caller(model, content).decide(WORKFLOW, prompt, SelectionAnswer)
    assert decided.answer is not None
    assert decided.call.tries == len(model.asked) > 1
    assert "are left out.)" not in model.asked[0]
    assert "are left out.)" in model.asked[-1]
    assert render(prompt.history[0]) in model.asked[-1]  # the newest
    assert render(prompt.history[-1]) not in model.asked[-1]  # the oldest
    assert (await content.get(WORKFLOW.id, str(decided.call.prompt_ref))).decode() == model.asked[-1]


@pytest.mark.req("S42")
async def test_what_a_model_says_of_itself_can_always_be_written_down() -> None:
    said = replace(
        REFUSED,
        provider="te\ud800st",
        model="nar\ud800row",
        refusal=Refused("I would \ud800 not.", code="answer_refused"),
    )
    decided = await Caller(Narrow(said), ContentStore.at("memory:///")).decide(WORKFLOW, selection(), SelectionAnswer)
    assert (decided.call.provider, decided.call.model, str(decided.answer)) == ("te?st", "nar?row", "I would ? not.")


async def test_where_nothing_more_may_be_left_out_the_prompt_is_refused() -> None:
    model = Narrow(SELECTED, takes=100)
    with pytest.raises(TooLong, match=r"^The prompt is longer than what narrow takes\. Nothing more can be left out"):
        await Caller(model, ContentStore.at("memory:///")).call(WORKFLOW, selection())
    assert len(model.asked) < 20


async def test_documents_are_never_cut_behind_the_back_of_the_one_who_asked() -> None:
    model = Narrow(SELECTED, takes=1_000)
    with pytest.raises(TooLong, match=r"Hand over fewer or shorter documents, or use a model that takes more\.$"):
        await Caller(model, ContentStore.at("memory:///")).call(WORKFLOW, process("word " * 1_000))
    assert len(model.asked) == 1


@pytest.mark.req("S1")
def test_a_shorter_prompt_says_the_same_to_the_model() -> None:
    prompt = selection()
    shorter = prompt.shorter()
    assert shorter is not None
    assert shorter.render().instructions == prompt.render().instructions
    assert (shorter.user_prompt, shorter.objective) == (prompt.user_prompt, prompt.objective)


@pytest.mark.req("B-01")
async def test_what_was_cached_and_what_was_thought_is_told_of_the_call_and_counts_once() -> None:
    used = replace(SELECTED, input_tokens=1_000, output_tokens=200, cached_input_tokens=600, reasoning_tokens=150)
    caller = Caller(Narrow(used), ContentStore.at("memory:///"))
    spans: list[Span] = []
    telemetry.bind_workflow(WORKFLOW, spans.append)
    with capture_logs() as lines:
        call = (await caller.decide(WORKFLOW, selection(), SelectionAnswer)).call
    assert (call.cached_input_tokens, call.reasoning_tokens) == (600, 150)
    assert Used.by([call]).tokens == 1_200
    (line,) = [line for line in lines if line["event"] == "model_answered"]
    assert (line["cached_input_tokens"], line["reasoning_tokens"]) == (600, 150)
    (span,) = spans
    assert span.attributes["gen_ai.usage.cache_read.input_tokens"] == 600
    assert span.attributes["gen_ai.usage.reasoning.output_tokens"] == 150
    together = fitting_calls([call] * (MAX_CALLS + 1))[-1]
    assert (together.cached_input_tokens, together.reasoning_tokens) == (1_200, 300)


@pytest.mark.req("B-01")
async def test_a_stage_that_the_model_would_not_answer_says_so_and_counts() -> None:
    decided = await Caller(Narrow(REFUSED), ContentStore.at("memory:///")).decide(
        WORKFLOW, selection(), SelectionAnswer
    )
    assert isinstance(decided.answer, Refused)
    assert (str(decided.answer), decided.answer.code) == ("The model would not answer.", "answer_refused")
    assert (decided.call.input_tokens, decided.call.output_tokens, decided.call.cost_nano_usd) == (10, 5, 7)


@pytest.mark.req("B-01")
async def test_an_action_that_the_model_would_not_answer_fails_with_that_reason_and_counts() -> None:
    class Asking(Counting):
        async def __call__(self, order: Order) -> Done:
            await order.ask(process("A text."))
            raise AssertionError

    content = ContentStore.at("memory:///")
    caller = Caller(Narrow(REFUSED), content)
    execution = Execution(
        actions={"test.pure": Asking()}, caller=caller, content=content, observes=False, now_ms=lambda: 0
    )
    executor = Executor(execution, worker="w1", concurrency=1)
    told = Told().tell(requested(), planned(), At().selected(action="test.pure"), At().parameters(parameters={}))
    for _ in ("claimed", "run"):
        events: Any = await executor(told.workflow, Assignment(0, lambda: True, _unchanged, _at_once))
        told.tell(*events)
    assert (events[0].success, events[0].error) == (False, "The model would not answer.")
    assert events[0].code == "answer_refused"
    assert events[0].model_calls[0].input_tokens == 10


async def _at_once(*_: object) -> bool:
    return True


async def _unchanged(workflow: Workflow) -> Workflow:
    return workflow
