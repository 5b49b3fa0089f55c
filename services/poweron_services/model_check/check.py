"""A check that asks a model the cases of each stage, just as a workflow would."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from poweron_events.catalog import CATALOG
from poweron_events.content import ContentStore
from poweron_events.errors import PowerOnError, Refused
from poweron_events.event import Role
from poweron_events.fold.stage_specs import PromptStage, role_of
from poweron_events.round_events import AnswerRejected, RoundCompleted
from poweron_events.step_events import ParametersRejected, SelectionRejected
from poweron_services import wiring
from poweron_services.actions.process_prompts import DocumentTask, process_prompt
from poweron_services.model_check.cases import Case, cases
from poweron_services.models.call import Caller
from poweron_services.models.chat_model import ChatModel, Completion
from poweron_services.models.context_window import window_of
from poweron_services.models.prompts import Prompt, SourceText
from poweron_services.runtime.stages import StageFunction

GOOD_FORM, GOOD_SUBSTANCE = 0.8, 0.6  # shares of the cases; a model below either is too weak for the stage


@dataclass(slots=True)
class StageResult:
    """The result of a model in the cases of one stage."""

    stage: PromptStage
    asked: int = 0
    """The number of cases asked; fewer than requested, or none, if time ran out."""
    in_form: int = 0
    right: int = 0
    seconds: float = 0.0
    tokens: int = 0
    cost_nano_usd: int = 0
    wrong: list[str] = field(default_factory=list)
    """What the model got wrong: a few words for each case."""

    @property
    def is_too_weak(self) -> bool:
        return self.in_form < GOOD_FORM * self.asked or self.right < GOOD_SUBSTANCE * self.asked


@dataclass
class _MeteredModel:
    """A wrapper around a model that adds up its tokens and cost."""

    model: ChatModel
    tokens: int = 0
    cost_nano_usd: int = 0

    async def prompt_tokens(self) -> int | None:
        return await window_of(self.model)

    async def complete(self, prompt: Prompt) -> Completion:
        completion = await self.model.complete(prompt)
        self.tokens += completion.input_tokens + completion.output_tokens
        self.cost_nano_usd += completion.cost_nano_usd
        return completion


async def checked(
    model: ChatModel,
    stages: Sequence[PromptStage],
    count: int,
    seconds: float,
    timeout: float,
    *,
    now: Callable[[], float] = time.monotonic,
) -> AsyncIterator[StageResult]:
    """Yield the result of each stage as soon as it is complete.

    Args:
        model: the model to ask, one case after the other: the prompts of a stage begin alike, so caches apply.
        stages: the stages to check.
        count: the number of cases per stage.
        seconds: the time for all stages. Each stage gets its share of the time left and skips cases that would exceed
            it. If no time is left, the stage is not asked at all.
        timeout: seconds for one case.
        now: the clock, in seconds.
    """
    over = now() + seconds
    for number, stage in enumerate(stages):
        until = now() + (over - now()) / (len(stages) - number)
        result = StageResult(stage)
        content = ContentStore.at("memory:///")
        for case in await cases(stage, count, content):
            mean = result.seconds / result.asked if result.asked else 0.0
            if now() + mean > until:
                break
            began = now()
            await _ask(model, case, content, result, timeout)
            result.seconds += now() - began
        yield result


async def _ask(model: ChatModel, case: Case, content: ContentStore, result: StageResult, timeout: float) -> None:
    meter = _MeteredModel(model)
    try:
        async with asyncio.timeout(timeout):
            answer = await _answer(case, Caller(meter, content), content)
    except (PowerOnError, TimeoutError) as error:
        answer, wrong = None, str(error) or f"no answer within {timeout:g} s"
    else:
        wrong = "its form" if answer is None else ""
    result.asked += 1
    result.tokens += meter.tokens
    result.cost_nano_usd += meter.cost_nano_usd
    result.in_form += answer is not None
    is_right = answer is not None and case.is_right(answer)
    result.right += is_right
    if not is_right:
        result.wrong.append(f"{case.asks}{f': {wrong}' if wrong else ''}")


async def _answer(case: Case, caller: Caller, content: ContentStore) -> object | None:
    """Return the event that the answer leads to, or the text of `process`; None if the answer's form is unusable."""
    if case.stage == "process":
        return await _process(case, caller)
    functions: dict[Role, StageFunction] = wiring.stage_functions(caller, content, CATALOG)
    *_, event = await functions[role_of(case.stage)](case.workflow)
    is_rejected = isinstance(event, AnswerRejected | SelectionRejected | ParametersRejected)
    is_without_model = isinstance(event, RoundCompleted) and not event.model_calls
    return None if is_rejected or is_without_model else event


async def _process(case: Case, caller: Caller) -> str | None:
    fact = case.fact
    text = SourceText(f"docItem:d1:{fact.document}", fact.document, fact.text)
    reply = await caller.call(case.workflow, process_prompt(DocumentTask(fact.question, fact.language), [text]))
    if isinstance(reply.refusal, Refused):
        return None
    return reply.text if reply.text.strip() else None
