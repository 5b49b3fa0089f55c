"""The shape of an action: parameters and documents in, a result out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from poweron_events.catalog import ActionSpec
from poweron_events.codes import Code
from poweron_events.errors import Refused
from poweron_events.event import UnreadDocument
from poweron_events.execution import ActionDocument, ActionResult
from poweron_services.models.call import Called
from poweron_services.models.prompts import Prompt


@dataclass(frozen=True, slots=True)
class InputDocument:
    """A document that the action works on."""

    reference: str
    name: str
    mime_type: str
    data: bytes


class Ask(Protocol):
    """How an action asks the model: the call is counted and kept like every other one."""

    async def __call__(self, prompt: Prompt) -> Called: ...


@dataclass(frozen=True, slots=True)
class Order:
    """What an action is told to do. `parameters` is the action's own parameter model, already checked."""

    parameters: Any
    documents: Sequence[InputDocument]
    language: str | None
    idempotency_key: str
    ask: Ask


@dataclass(frozen=True, slots=True)
class Done:
    """An action's result, with notes for the observation: short facts, whole sentences."""

    result: ActionResult
    notes: tuple[str, ...] = ()
    unread: tuple[UnreadDocument, ...] = ()
    code: Code | None = None
    """Why there is no success; None where there is."""
    detail: str = ""
    """More of the error, for the log only."""


class Action(Protocol):
    """One of the things a step can do.

    It may be run again with the same idempotency key. What cannot be done is told as a result with
    `success=False` and a sentence, or raised as `Refused`; `Unavailable` is raised too and also ends
    the action: the loop decides whether to try again.
    """

    spec: ActionSpec

    async def __call__(self, order: Order) -> Done: ...


def document(name: str, data: str, mime_type: str) -> ActionDocument:
    """A text as result document."""
    return ActionDocument(document_name=name[:255], document_data=data.encode(), mime_type=mime_type)


class Failed(Refused):
    """The action could not do its work; the sentence says why, the notes and the unread documents more of it."""

    code = "action_failed"

    def __init__(self, why: str, *notes: str, code: Code | None = None, unread: Sequence[UnreadDocument] = ()) -> None:
        super().__init__(why, code=code)
        self.notes = notes
        self.unread = tuple(unread)


def none_read(unread: Sequence[UnreadDocument], otherwise: str) -> Failed:
    """That there is nothing to work on: no document could be read, or there is none."""
    if not unread:
        return Failed(otherwise, code="nothing_to_read")
    return Failed(unread[0].reason, code="documents_unreadable", unread=unread)
