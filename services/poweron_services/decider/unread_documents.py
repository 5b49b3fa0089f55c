"""The paragraph of a round's message about unreadable documents, regardless of what its model wrote (L-10)."""

from collections.abc import Iterable, Mapping
from typing import Final

from poweron_events.event import UnreadDocument
from poweron_events.execution import ActionCompleted
from poweron_events.fold.state import ChatMessage, Workflow
from poweron_services.decider.defaults import own_language

MAX_TOLD = 10  # documents that the end of a round lists individually
PARTLY: Final = "partly_read"

_SAID: Final = {
    "en": ("Documents that could not be read ({count}):", "at least ", " of ", "and {count} more"),
    "de": ("Dokumente, die nicht gelesen werden konnten ({count}):", "mindestens ", " von ", "und {count} weitere"),
}


def unread_in_short(completed: ActionCompleted) -> str:
    """Say how many documents an action could not read, for the summary of its step; empty if it read them all."""
    count = len(_unread(completed.unread)) + (completed.unread_left_out if _left_out_unread(completed) else 0)
    return f" ({count} document{'' if count == 1 else 's'} could not be read)" if count else ""


def known_unreadable(workflow: Workflow) -> Mapping[tuple[str, str | None], UnreadDocument]:
    """The documents of which this round's steps could read nothing, by name and commitment of their bytes.

    Documents that timed out are left out, so that they are retried: the machine may have been busy.
    """
    steps = [message for message in workflow.current.messages if message.kind == "step"]
    unread = [each for step in steps for each in _unread(step.unread) if each.code != "document_timeout"]
    return {(each.document_name, each.content): each for each in unread}


def all_unreadable(workflow: Workflow) -> bool:
    """Return whether a first round can read none of its documents and no step of it has produced any."""
    round_, known = workflow.current, known_unreadable(workflow)
    made = any(message.success and message.documents for message in round_.messages if message.kind == "step")
    given = round_.opening.documents if round_.number == 1 and not made else ()
    return bool(given) and all((each.document_name, each.content) in known for each in given)


def unread_documents(workflow: Workflow) -> str:
    """The paragraph about the documents that the round could not read; empty if it read them all."""
    steps = [message for message in workflow.current.messages if message.kind == "step"]
    told = list(dict.fromkeys(document for step in steps for document in _unread(step.unread)))
    if not told:
        return ""
    heading, at_least, of, more = _SAID[own_language(workflow)]
    items = [f"- {document.reason}" for document in told[:MAX_TOLD]]
    if len(told) > MAX_TOLD:
        items.append(f"- {more.format(count=len(told) - MAX_TOLD)}")
    handed_over = [document.document_name for document in workflow.current.opening.documents]
    count = str(len(told))
    if {document.document_name for document in told} <= {*handed_over}:
        count += f"{of}{len(handed_over)}"
    if any(step.unread_left_out and _left_out_unread(step) for step in steps):
        count = at_least + count
    return f"{heading.format(count=count)}\n\n" + "\n".join(items)


def _left_out_unread(said: ActionCompleted | ChatMessage) -> bool:
    """Return whether the omitted documents may be unread.

    Partly read documents come last, so if one of them is listed, all omitted documents were partly read, too.
    """
    return len(_unread(said.unread)) == len(said.unread)


def _unread(documents: Iterable[UnreadDocument]) -> list[UnreadDocument]:
    """The documents of which nothing was read."""
    return [document for document in documents if document.code != PARTLY]
