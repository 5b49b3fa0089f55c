"""Intended differences of earlier releases, so that their decisions are compared with what they would have decided.

A changed rule counts as a difference unless the old rule was released and is listed here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson
from pydantic import BaseModel

from poweron_events.catalog import CATALOG, WRITING, ActionSpec
from poweron_events.event import DocumentRef
from poweron_events.fold.history import render
from poweron_events.fold.state import ChatMessage, Workflow
from poweron_events.round_events import RoundCompleted, RoundFailed
from poweron_events.stream import WorkflowEvent
from poweron_services.models.prompts import MessagePrompt, Prompt, ReviewPrompt, TaskPrompt

FIRST: Final = "0.1.0"
BEFORE_0_3: Final = frozenset({FIRST, "0.2.0"})
BEFORE_0_4: Final = frozenset({*BEFORE_0_3, "0.3.0"})
SENTENCES: Final = frozenset({"reason", "detail", "error", "message", "told", "summary"})
"""Texts for users in events. New wording since an earlier release is reported, but is not a different decision."""
RELEASED_ACTIONS: Final = Path(__file__).with_name("released_actions.json")
"""The parameters of PowerOn's own actions by release, without constraints on list items, as models saw them then."""


def lacks_fields(data: Any, event: BaseModel) -> bool:
    """Return whether the recorded data lack a field that is always written now: an earlier release wrote them."""
    if not isinstance(data, Mapping):
        return False
    for name, definition in type(event).model_fields.items():
        alias, value = definition.alias or name, getattr(event, name)
        if alias not in data:
            if definition.exclude_if is None:
                return True
        elif isinstance(value, BaseModel) and lacks_fields(data[alias], value):
            return True
    return False


def as_written_by(release: str | None, event: WorkflowEvent, workflow: Workflow) -> WorkflowEvent:
    """Return the event as that release would have written it; None is the current release."""
    if release == FIRST and isinstance(event, RoundCompleted):  # totals did not count the call for the message
        return event.model_copy(update={"totals": workflow.current.totals, "documents": _written_documents(workflow)})
    if release in BEFORE_0_3 and isinstance(event, RoundFailed):
        return event.model_copy(update={"documents": _written_documents(workflow) if release == FIRST else ()})
    return event


def _written_documents(workflow: Workflow) -> tuple[DocumentRef, ...]:
    """Return a round's documents for the user according to 0.1.0: those of writing steps, the newest of each name."""
    steps = [message for message in workflow.current.messages if message.kind == "step" and message.success]
    documents = (document for step in steps if step.action in WRITING for document in step.documents)
    return tuple({document.document_name: document for document in documents}.values())


@cache
def actions_of(release: str) -> Mapping[str, ActionSpec]:
    """Return PowerOn's own actions as of that release; the current ones if they have not changed since."""
    specs: dict[str, Any] = orjson.loads(RELEASED_ACTIONS.read_bytes()).get(release)
    if specs is None:
        return CATALOG
    return {
        name: ActionSpec(name, {"type": "object", **spec}, CATALOG[name].effect_class, CATALOG[name].limit_ms)
        for name, spec in specs.items()
    }


@dataclass(slots=True)
class EarlierPrompts:
    """The values that prompts of earlier releases showed for one workflow."""

    learnings: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """The learnings of each step before its refinement, by the number of its message."""

    written: tuple[str, ...] = ()
    """The names of the documents that 0.1.0 would list as written."""

    def look_at(self, workflow: Workflow) -> None:
        """Take note of the workflow as it is when the decision is made."""
        self.written = tuple(document.document_name for document in _written_documents(workflow))

    def observed(self, after: Workflow) -> None:
        """Take note of an observed step, whose only learnings so far are those of its selection."""
        last = after.current.messages[-1]
        self.learnings[last.seq] = last.learnings

    def shown(self, prompt: Prompt, release: str | None) -> dict[str, Any]:
        """Return the values that a prompt shows, with the names and messages of an earlier release's templates."""
        values = prompt.shown()
        if release == FIRST and isinstance(prompt, MessagePrompt):
            values["documents"] = self.written
        if release == FIRST and isinstance(prompt, ReviewPrompt):
            values["stopped_because"] = "the loop stopped"
        messages = values.get("history")
        if release in BEFORE_0_3 and isinstance(messages, tuple):
            values["history"] = tuple(map(self._as_shown_then, messages))
        if isinstance(prompt, TaskPrompt):
            values["success_criteria"] = tuple(criterion.criterion for criterion in prompt.progress)
            values["history_text"] = "\n".join(map(render, values["history"])) or "none"
        return values

    def _as_shown_then(self, message: ChatMessage) -> ChatMessage:
        """Return the message without what the history shows since 0.3.0: attempts, links and refinements' learnings."""
        learnings = self.learnings.get(message.seq, message.learnings)
        return message.model_copy(update={"attempt": 0, "told": None, "links": (), "learnings": learnings})
