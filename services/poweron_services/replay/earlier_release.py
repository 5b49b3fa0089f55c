"""What earlier releases did otherwise on purpose, so that a decision of theirs is compared with what they would decide.

A change of a rule stays a difference unless it was released and stands here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson
from pydantic import BaseModel

from poweron_events.catalog import CATALOG, ActionSpec
from poweron_events.event import DocumentRef
from poweron_events.fold.history import render
from poweron_events.fold.state import ChatMessage, Workflow
from poweron_events.outcome import RoundCompleted, RoundFailed
from poweron_events.stream import WorkflowEvent
from poweron_services.decider.rules import WRITING
from poweron_services.models.prompts import MessagePrompt, Prompt, ReviewPrompt, TaskPrompt

FIRST: Final = "0.1.0"
BEFORE_0_3: Final = frozenset({FIRST, "0.2.0"})
BEFORE_0_4: Final = frozenset({*BEFORE_0_3, "0.3.0"})
SENTENCES: Final = frozenset({"reason", "detail", "error", "message", "told", "summary"})
"""What events say to people. Releases word it differently: of an earlier one it is told, and is no other decision."""
RELEASED_ACTIONS: Final = Path(__file__).with_name("released_actions.json")
"""The parameters of our actions, by release; without what their lists may hold, which no model was told then."""


def lacks_fields(data: Any, event: BaseModel) -> bool:
    """Whether the recorded data lack a field that is always written now: then an earlier release wrote them."""
    if not isinstance(data, Mapping):
        return False
    for name, described in type(event).model_fields.items():
        alias, value = described.alias or name, getattr(event, name)
        if alias not in data:
            if described.exclude_if is None:
                return True
        elif isinstance(value, BaseModel) and lacks_fields(data[alias], value):
            return True
    return False


def as_written_by(release: str | None, event: WorkflowEvent, workflow: Workflow) -> WorkflowEvent:
    """The event as that release would have written it in place of this one; None is this release."""
    if release == FIRST and isinstance(event, RoundCompleted):  # totals did not count the call for the message
        return event.model_copy(update={"totals": workflow.current.totals, "documents": _written(workflow)})
    if release in BEFORE_0_3 and isinstance(event, RoundFailed):
        return event.model_copy(update={"documents": _written(workflow) if release == FIRST else ()})
    return event


def _written(workflow: Workflow) -> tuple[DocumentRef, ...]:
    """What a round wrote for the user by 0.1.0: the documents of its writing steps, the newest of each name."""
    steps = [each for each in workflow.current.messages if each.kind == "step" and each.success]
    written = (document for step in steps if step.action in WRITING for document in step.documents)
    return tuple({document.document_name: document for document in written}.values())


@cache
def actions_of(release: str) -> Mapping[str, ActionSpec]:
    """Our own actions as that release had them: those of now, where they have not changed since."""
    described: dict[str, Any] = orjson.loads(RELEASED_ACTIONS.read_bytes()).get(release)
    if described is None:
        return CATALOG
    return {
        name: ActionSpec(name, {"type": "object", **taken}, CATALOG[name].effect_class, CATALOG[name].limit_ms)
        for name, taken in described.items()
    }


@dataclass(slots=True)
class EarlierPrompts:
    """What prompts of earlier releases showed, of one workflow."""

    learnings: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Those of a step before it was refined, by the number of its message."""

    written: tuple[str, ...] = ()
    """The documents that 0.1.0 would name as written."""

    def look_at(self, workflow: Workflow) -> None:
        """How the workflow stands when the decision is taken."""
        self.written = tuple(document.document_name for document in _written(workflow))

    def observed(self, after: Workflow) -> None:
        """A step was observed: it has no learnings yet but those of its selection."""
        last = after.current.messages[-1]
        self.learnings[last.seq] = last.learnings

    def shown(self, prompt: Prompt, release: str | None) -> dict[str, Any]:
        """What a prompt shows, as templates of earlier releases name it and as they told messages."""
        shown = prompt.shown()
        if release == FIRST and isinstance(prompt, MessagePrompt):
            shown["documents"] = self.written
        if release == FIRST and isinstance(prompt, ReviewPrompt):
            shown["stopped_because"] = "the loop stopped"
        messages = shown.get("history")
        if release in BEFORE_0_3 and isinstance(messages, tuple):
            shown["history"] = tuple(map(self._as_told_then, messages))
        if isinstance(prompt, TaskPrompt):
            shown["success_criteria"] = tuple(criterion.criterion for criterion in prompt.progress)
            shown["history_text"] = "\n".join(map(render, shown["history"])) or "none"
        return shown

    def _as_told_then(self, message: ChatMessage) -> ChatMessage:
        """Without what the history has told since 0.3.0: attempts, links, what a refinement taught."""
        learnings = self.learnings.get(message.seq, message.learnings)
        return message.model_copy(update={"attempt": 0, "told": None, "links": (), "learnings": learnings})
