"""Asks a model the cases of each stage, in the way in which a workflow would ask it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from poweron_events.catalog import CATALOG
from poweron_events.content import ContentStore
from poweron_events.errors import PowerOnError, Refused
from poweron_events.event import Role
from poweron_events.outcome import AnswerRejected, RoundCompleted
from poweron_events.parameters import ParametersRejected
from poweron_events.selection import SelectionRejected
from poweron_services import wiring
from poweron_services.actions.process_prompts import DocumentTask, process_prompt
from poweron_services.model_check.cases import Case, cases
from poweron_services.models.call import Caller
from poweron_services.models.chat_model import ChatModel, Completion
from poweron_services.models.context_window import Windowed
from poweron_services.models.prompts import Prompt, PromptStage, SourceText
from poweron_services.runtime.stages import StageFunction

ROLES: Final[Mapping[PromptStage, Role]] = {
    "plan": "planner",
    "select": "selector",
    "parameterize": "parameterizer",
    "refine": "refiner",
    "review": "reviewer",
    "message": "reviewer",
}
GOOD_FORM, GOOD_SUBSTANCE = 0.8, 0.6  # shares of the cases, below which a model is too weak for a stage


@dataclass(slots=True)
class StageResult:
    """How a model did in the cases of one stage."""

    stage: PromptStage
    asked: int = 0
    """How many cases; fewer than wanted, or none, where the time was over."""
    in_form: int = 0
    right: int = 0
    seconds: float = 0.0
    tokens: int = 0
    cost_nano_usd: int = 0
    wrong: list[str] = field(default_factory=list)
    """What it could not do: a few words for each case."""

    @property
    def is_too_weak(self) -> bool:
        return self.in_form < GOOD_FORM * self.asked or self.right < GOOD_SUBSTANCE * self.asked


@dataclass
class _Overheard:
    """A model whose tokens and cost are added up."""

    model: ChatModel
    tokens: int = 0
    cost_nano_usd: int = 0

    async def prompt_tokens(self) -> int | None:
        return await self.model.prompt_tokens() if isinstance(self.model, Windowed) else None

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
    """Each stage's result as it comes.

    Args:
        model: who is asked, one case after the other: the prompts of a stage begin alike, which caches make use of.
        stages: those that it is for.
        count: how many cases of each.
        seconds: for all of them; a stage has its share of what is left, and leaves out what goes beyond it. Where
            nothing is left, it is not asked at all.
        timeout: seconds for one case.
        now: the clock, in seconds.
    """
    over = now() + seconds
    for done, stage in enumerate(stages):
        until = now() + (over - now()) / (len(stages) - done)
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
    heard = _Overheard(model)
    try:
        async with asyncio.timeout(timeout):
            answer = await _answered(case, Caller(heard, content), content)
    except (PowerOnError, TimeoutError) as error:
        answer, wrong = None, str(error) or f"no answer within {timeout:g} s"
    else:
        wrong = "its form" if answer is None else ""
    result.asked += 1
    result.tokens += heard.tokens
    result.cost_nano_usd += heard.cost_nano_usd
    result.in_form += answer is not None
    is_right = answer is not None and case.is_right(answer)
    result.right += is_right
    if not is_right:
        result.wrong.append(f"{case.asks}{f': {wrong}' if wrong else ''}")


async def _answered(case: Case, caller: Caller, content: ContentStore) -> object | None:
    """The event that the answer leads to, or the text of a process; None where its form cannot be used."""
    if case.stage == "process":
        return await _processed(case, caller)
    functions: dict[Role, StageFunction] = wiring.stage_functions(caller, content, CATALOG)
    *_, event = await functions[ROLES[case.stage]](case.workflow)
    match event:
        case AnswerRejected() | SelectionRejected() | ParametersRejected():
            return None
        case RoundCompleted(model_calls=()):
            return None
    return event


async def _processed(case: Case, caller: Caller) -> str | None:
    fact = case.fact
    text = SourceText(f"docItem:d1:{fact.document}", fact.document, fact.text)
    called = await caller.call(case.workflow, process_prompt(DocumentTask(fact.question, fact.language), [text]))
    if isinstance(called.refusal, Refused):
        return None
    return called.text if called.text.strip() else None
