"""Copies of events in a fork: they cost nothing, and their contents are stored under the fork's own key."""

from dataclasses import dataclass
from typing import Any, Final, TypeVar, assert_never

import orjson

from poweron_events.archive_events import ArchiveEvent
from poweron_events.codec import dumps
from poweron_events.content import ContentStore
from poweron_events.content_references import content_fields
from poweron_events.errors import MissingContent
from poweron_events.event import RECORDED, DocumentRef, Model, ModelCall
from poweron_events.instance_events import InstanceEnded, InstanceStarted
from poweron_events.request import (
    CancellationRequested,
    DocumentErased,
    PolicyApplied,
    RequestIdentity,
    RequestRefused,
    RoundPaused,
    RoundRequested,
    RoundResumed,
    RulesChanged,
    WorkflowRequested,
)
from poweron_events.round_events import (
    ActionsPlanned,
    AnswerRejected,
    BudgetDenied,
    BudgetGranted,
    BudgetRequested,
    DeadlinePassed,
    RoundCancelled,
    RoundCompleted,
    RoundFailed,
    StageFailed,
    TaskReviewed,
    TasksPlanned,
    Totals,
)
from poweron_events.step_events import (
    ActionCompleted,
    ActionSelected,
    ActionStarted,
    ApprovalDenied,
    ApprovalEscalated,
    ApprovalGranted,
    ApprovalRequested,
    CallReserved,
    IterationTelemetry,
    ObservationRecorded,
    ParametersChanged,
    ParametersRejected,
    ParametersSet,
    RefinementDecided,
    SelectionRejected,
)
from poweron_events.stream import WorkflowEvent

Copied = TypeVar("Copied", bound=Model)


def with_identity(event: WorkflowEvent, fork: str, seq: int) -> WorkflowEvent:
    """Replace the event's request, if any, with one of the fork's own, since each request has one answer."""
    if getattr(event, "request", None) is None:
        return event
    return event.model_copy(update={"request": RequestIdentity(source=f"/poweron/fork/{fork}", id=str(seq))})


@dataclass(frozen=True, slots=True)
class Copying:
    """Copies events of a workflow into its fork. Raises Unavailable while the content store does not answer."""

    content: ContentStore
    origin: str
    fork: str

    async def event(self, event: WorkflowEvent, seq: int) -> WorkflowEvent:
        """Return the fork's copy of the event; `seq` is its position in the original workflow."""
        copy: WorkflowEvent = await self.model(with_identity(event, self.fork, seq))
        return copy.model_copy(update=await self._changes(copy, seq))

    async def model(self, model: Copied) -> Copied:
        """Copy a part of an event and store every content it names under the fork's key; model calls cost nothing."""
        values = {name: await self._value(model, name) for name in type(model).model_fields}
        free_usage: dict[str, Any] = _FREE if isinstance(model, ModelCall) else {}
        return model.model_copy(update=values | free_usage)

    async def kept(self, name: str) -> str:
        """Copy a content and return its name in the fork; erased content keeps its name, which leads to nothing."""
        try:
            return await self.content.put(self.fork, await self.content.get(self.origin, name))
        except MissingContent:
            return name

    async def _changes(self, event: WorkflowEvent, seq: int) -> dict[str, Any]:
        changes: dict[str, Any] = {"failed_calls": ()} if "failed_calls" in type(event).model_fields else {}
        match event:
            case ActionStarted():
                changes |= {"claim": RECORDED, "worker": RECORDED}
            case ActionCompleted():
                changes |= {"duration_ms": 0, "reused_from": seq}
                changes |= await self._lists(event)
            case RefinementDecided():
                changes |= {"iteration": IterationTelemetry()}
            case RoundCompleted() | RoundFailed() | RoundCancelled():
                changes |= {"totals": Totals(steps=event.totals.steps)}
            case (
                WorkflowRequested()
                | RoundRequested()
                | CancellationRequested()
                | RoundPaused()
                | RoundResumed()
                | RulesChanged()
                | PolicyApplied()
                | InstanceStarted()
                | InstanceEnded()
                | RequestRefused()
                | DocumentErased()
                | ArchiveEvent()
                | CallReserved()
                | TasksPlanned()
                | ActionsPlanned()
                | ActionSelected()
                | SelectionRejected()
                | ParametersSet()
                | ParametersRejected()
                | ApprovalRequested()
                | ApprovalGranted()
                | ApprovalDenied()
                | ApprovalEscalated()
                | ParametersChanged()
                | ObservationRecorded()
                | TaskReviewed()
                | AnswerRejected()
                | StageFailed()
                | BudgetRequested()
                | BudgetGranted()
                | BudgetDenied()
                | DeadlinePassed()
            ):
                pass
            case _:
                assert_never(event)
        return changes

    async def _value(self, model: Model, name: str) -> Any:
        value = getattr(model, name)
        if isinstance(value, str) and name in content_fields(type(model)):
            return await self.kept(value)
        if isinstance(value, Model):
            return await self.model(value)
        if isinstance(value, tuple) and any(isinstance(item, Model) for item in value):
            return tuple([await self.model(item) for item in value])
        return value

    async def _lists(self, event: ActionCompleted) -> dict[str, Any]:
        """Copy the lists of all calls and of all documents, whose entries also name contents."""
        changes = dict[str, Any]()
        if event.all_calls is not None:
            changes["all_calls"], _ = await self._list(event.all_calls, ModelCall)
        if event.documents_left_out:
            *first_documents, index = event.documents
            content, size = await self._list(index.content, DocumentRef)
            index = index.model_copy(update={"content": content, "size": size or index.size})
            changes["documents"] = (*first_documents, index)
        return changes

    async def _list(self, name: str, kind: type[Model]) -> tuple[str, int]:
        """Copy each entry of a list and return its new name and size; the old list is already under the fork's key."""
        try:
            entries = orjson.loads(await self.content.get(self.fork, name))
        except MissingContent:
            return name, 0
        copies = [await self.model(kind.model_validate(entry)) for entry in entries]
        content = dumps([entry.model_dump(mode="json", by_alias=True) for entry in copies])
        return await self.content.put(self.fork, content), len(content)


_FREE: Final[dict[str, Any]] = {
    "provider": RECORDED,
    "input_tokens": 0,
    "output_tokens": 0,
    "cached_input_tokens": 0,
    "reasoning_tokens": 0,
    "cost_nano_usd": 0,
    "usage_estimated": False,
    "duration_ms": 0,
    "tries": 1,
    "reservations": (),
}
