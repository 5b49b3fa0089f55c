"""Asks models for one decision again: what they answer today, what the code makes of it, and what it costs."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from poweron_events.content import ContentStore
from poweron_events.errors import PowerOnError, Refused
from poweron_events.fold.costs import model_calls
from poweron_events.fold.stage_specs import TURNS
from poweron_events.fold.state import Workflow
from poweron_events.stream import WorkflowEvent
from poweron_services.models.call import Caller
from poweron_services.models.chat_model import ChatModel, Completion
from poweron_services.models.prompts import Prompt
from poweron_services.models.time_limit import TimeLimit
from poweron_services.replay.action_specs import CatalogThen, KnownActions
from poweron_services.replay.prompt_check import StoredPrompt
from poweron_services.replay.workflow_records import Folded, StoredContent
from poweron_services.wiring import stage_functions

AT_ONCE = 4  # concurrent questions to models


class Answered(NamedTuple):
    """One answer and what the role made of it."""

    model: str
    event: WorkflowEvent | None
    """The decision that it leads to; None if there is none."""
    answer: str
    problem: str
    duration_ms: int
    completion: Completion | None


@dataclass(slots=True)
class _Watched:
    """A model whose answers are recorded."""

    model: ChatModel
    completions: list[Completion] = field(default_factory=list)

    async def complete(self, prompt: Prompt) -> Completion:
        completion = await self.model.complete(prompt)
        self.completions.append(completion)
        return completion


@dataclass(frozen=True, slots=True)
class AskAgain:
    """Asks models for one decision of a workflow and stores nothing."""

    decision: Folded
    content: ContentStore
    known: KnownActions
    prompt: bytes | None
    """The original prompt, which lists the actions available at the time."""

    def __post_init__(self) -> None:
        """Refuse an event that no model has decided."""
        event = self.decision.recorded.envelope.event
        if event is None or self.decision.before.phase not in TURNS or not model_calls(event):
            raise Refused(
                f"Event {self.decision.seq} of workflow {self.decision.before.id} is no decision of a model: "
                "no model was asked for it"
            )

    @property
    def event(self) -> WorkflowEvent:
        """The original decision."""
        event = self.decision.recorded.envelope.event
        assert event is not None
        return event

    async def ask(self, models: Sequence[tuple[str, ChatModel]], times: int) -> list[Answered]:
        """Ask each model this many times and return the answers."""
        places = asyncio.Semaphore(AT_ONCE)

        async def one(name: str, model: ChatModel) -> Answered:
            async with places:
                return await self._once(name, model)

        return await asyncio.gather(*(one(name, model) for name, model in models for _ in range(times)))

    async def _once(self, name: str, model: ChatModel) -> Answered:
        workflow, watched_model, began = self.decision.before, _Watched(model), time.monotonic_ns()
        content = StoredContent(self.content)
        specs, places = self._catalog(workflow).specs, self.known.configured_places
        functions = stage_functions(Caller(watched_model, content), content, specs, places)
        event, problem = None, ""
        try:
            async with TimeLimit(workflow.current.opening.stage_timeout_ms / 1000):
                event = (await functions[TURNS[workflow.phase]](workflow))[0]
        except (PowerOnError, TimeoutError) as error:
            problem = str(error) or "It has not answered in time."
        took_ms = (time.monotonic_ns() - began) // 1_000_000
        last = watched_model.completions[-1] if watched_model.completions else None
        return Answered(name, event, last.text if last else "", problem, took_ms, last)

    def _catalog(self, workflow: Workflow) -> CatalogThen:
        listing = StoredPrompt(self.prompt).actions if self.prompt is not None else None
        if listing is None or workflow.phase not in ("plan", "plan_actions", "select"):
            return CatalogThen(self.known.specs)
        return self.known.then(workflow, listing)
