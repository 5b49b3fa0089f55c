"""Documents that could not be read: what a round says of them, whatever its model wrote (L-10).

The sentence about such a document begins with its name in quotes; no other note of an action does.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from poweron_events.event import DocumentRef
from poweron_events.fold.state import ChatMessage, Workflow
from poweron_events.observation import MAX_NOTES
from poweron_services.decider.defaults import own_language

MAX_TOLD = 10  # documents that an ending tells one by one
MAX_BEGINNING = 150  # characters by which a name is recognised where its sentence was cut

_SAID: Final = {
    "en": ("Documents that could not be read ({count}):", "at least ", " of ", "and {count} more"),
    "de": ("Dokumente, die nicht gelesen werden konnten ({count}):", "mindestens ", " von ", "und {count} weitere"),
}


def unreadable(name: str, why: str) -> str:
    """The note about a document that could not be read; `why` goes on after its name."""
    return f"{name!r} {why}"


def unread(notes: Iterable[str]) -> list[str]:
    """Those notes of a result that tell of a document that could not be read."""
    return [note for note in notes if note.startswith(("'", '"'))]


def unread_in_short(notes: Sequence[str]) -> str:
    """How many documents an action could not read, for the summary of its step; empty where it read them all."""
    count = len(unread(notes))
    if not count:
        return ""
    more = " or more" if count == MAX_NOTES else ""
    return f" ({count}{more} document{'' if count == 1 and not more else 's'} could not be read)"


def unread_documents(workflow: Workflow) -> str:
    """The paragraph about the documents that the round could not read; empty where it read them all."""
    steps = [message for message in workflow.current.messages if message.kind == "step"]
    given = workflow.current.opening.documents
    told = list(dict.fromkeys(note for step in steps for note in _of_step(step, given)))
    if not told:
        return ""
    heading, at_least, of, more = _SAID[own_language(workflow)]
    items = [f"- {note}" for note in told[:MAX_TOLD]]
    if len(told) > MAX_TOLD:
        items.append(f"- {more.format(count=len(told) - MAX_TOLD)}")
    count = str(len(told)) + (f"{of}{len(given)}" if all(_names_one(note, given) for note in told) else "")
    if any(len(unread(step.findings)) == MAX_NOTES for step in steps):
        count = at_least + count
    return f"{heading.format(count=count)}\n\n" + "\n".join(items)


def _of_step(step: ChatMessage, given: Sequence[DocumentRef]) -> Iterator[str]:
    """A failed step can begin with other quotes, too: there it must be the name of a document of the request."""
    return (note for note in unread(step.findings) if step.success or _names_one(note, given))


def _names_one(note: str, given: Sequence[DocumentRef]) -> bool:
    return any(note.startswith(unreadable(document.document_name, "")[:MAX_BEGINNING]) for document in given)
