"""The files of a round: what each of its tasks wrote for the user, numbered if their names are equal (L-08).

The end of a round also names the documents that it could not read, and a requested format that no document has.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Final, NamedTuple

from poweron_events.catalog import WRITING
from poweron_events.event import DocumentRef, UnreadDocument
from poweron_events.fold.state import ChatMessage, Workflow
from poweron_events.step_events import ActionCompleted
from poweron_services.decider.defaults import own_language
from poweron_services.text.format_wishes import Kind, asked_formats

MAX_TOLD = 10  # documents that the end of a round lists individually
PARTLY: Final = "partly_read"
_WORDS: Final = {
    "en": ("Documents that could not be read ({count}):", "at least ", " of ", "and {count} more"),
    "de": ("Dokumente, die nicht gelesen werden konnten ({count}):", "mindestens ", " von ", "und {count} weitere"),
}
MAX_NAME, MAX_ENDING = 255, 20  # characters of a document's name, and of its extension


class _Step(NamedTuple):
    """A successful step and its documents."""

    task: int
    attempt: int
    action: str | None
    documents: tuple[DocumentRef, ...]


def written_documents(workflow: Workflow) -> tuple[DocumentRef, ...]:
    """The files of every task of the round, in the order of tasks and steps, each under a unique name.

    A task's files are the documents of its writing steps or, if it has none, of all its steps. If a task was retried, a
    file of a later attempt replaces earlier files of the same name. Files that only an earlier attempt wrote remain,
    since the later one continues from there.
    """
    steps = list(_steps(workflow))
    tasks = range(1, len(workflow.current.tasks) + 1)
    return with_unique_names(file for task in tasks for file in _files([step for step in steps if step.task == task]))


def with_unique_names(documents: Iterable[DocumentRef]) -> tuple[DocumentRef, ...]:
    """Add a number to every document name that an earlier one has: `report.md`, `report (2).md`."""
    keys, names, apart = set[str](), dict[str, Iterator[str]](), list[DocumentRef]()
    for document in documents:
        left = names.setdefault(document.document_name, _names(document.document_name))
        name = next(name for name in left if name.casefold() not in keys)
        keys.add(name.casefold())
        apart.append(document.model_copy(update={"document_name": name}))
    return tuple(apart)


def _steps(workflow: Workflow) -> Iterator[_Step]:
    """Yield the successful steps; the last of them may have been stopped before its result was observed."""
    for message in workflow.current.messages:
        if message.kind == "step" and message.success:
            yield _Step(message.task, message.attempt, message.action, message.documents)
    task = workflow.current.task
    if task is None or task.step.completed is None or task.step.observation is not None:
        return
    if task.step.completed.success:
        selection, documents = task.step.selection, task.step.completed.documents
        yield _Step(task.number, task.attempt, selection.action if selection else None, documents)


def _files(steps: Sequence[_Step]) -> Iterator[DocumentRef]:
    """Yield what the steps of one task wrote."""
    writing = [step for step in steps if step.action in WRITING and step.documents] or steps
    last = {document.document_name: step.attempt for step in writing for document in step.documents}
    for step in writing:
        yield from (document for document in step.documents if last[document.document_name] == step.attempt)


def _names(name: str) -> Iterator[str]:
    """Yield the name, then the name with the numbers from 2 on before its extension."""
    yield name
    stem, _, ending = name.rpartition(".")
    behind = f".{ending}" if stem and len(ending) <= MAX_ENDING else ""
    for number in count(2):
        suffix = f" ({number}){behind}"
        yield f"{name.removesuffix(behind)[: MAX_NAME - len(suffix)]}{suffix}"


def unread_in_short(completed: ActionCompleted) -> str:
    """Say how many documents an action could not read, for the summary of its step; empty if it read them all."""
    count = len(_unread(completed.unread)) + (completed.unread_left_out if _left_out_unread(completed) else 0)
    return f" ({count} document{'' if count == 1 else 's'} could not be read)" if count else ""


def known_unreadable(workflow: Workflow) -> Mapping[tuple[str, str | None], UnreadDocument]:
    """The documents of which this round's steps could read nothing, by name and commitment of their bytes.

    Documents that timed out are left out, so that they are retried: the machine may have been busy.
    """
    steps = [message for message in workflow.current.messages if message.kind == "step"]
    unread = [document for step in steps for document in _unread(step.unread) if document.code != "document_timeout"]
    return {(document.document_name, document.content): document for document in unread}


def all_unreadable(workflow: Workflow) -> bool:
    """Return whether a first round can read none of its documents and no step of it has produced any."""
    round_, known = workflow.current, known_unreadable(workflow)
    has_documents = any(message.success and message.documents for message in round_.messages if message.kind == "step")
    documents = round_.opening.documents if round_.number == 1 and not has_documents else ()
    return bool(documents) and all((document.document_name, document.content) in known for document in documents)


def unread_documents(workflow: Workflow) -> str:
    """The paragraph about the documents that the round could not read; empty if it read them all."""
    steps = [message for message in workflow.current.messages if message.kind == "step"]
    unread = list(dict.fromkeys(document for step in steps for document in _unread(step.unread)))
    if not unread:
        return ""
    heading, at_least, of, more = _WORDS[own_language(workflow)]
    items = [f"- {document.reason}" for document in unread[:MAX_TOLD]]
    if len(unread) > MAX_TOLD:
        items.append(f"- {more.format(count=len(unread) - MAX_TOLD)}")
    names = [document.document_name for document in workflow.current.opening.documents]
    count = str(len(unread))
    if {document.document_name for document in unread} <= {*names}:
        count += f"{of}{len(names)}"
    if any(step.unread_left_out and _left_out_unread(step) for step in steps):
        count = at_least + count
    return f"{heading.format(count=count)}\n\n" + "\n".join(items)


def _left_out_unread(step: ActionCompleted | ChatMessage) -> bool:
    """Return whether the omitted documents may be unread.

    Partly read documents come last, so if one of them is listed, all omitted documents were partly read, too.
    """
    return len(_unread(step.unread)) == len(step.unread)


def _unread(documents: Iterable[UnreadDocument]) -> list[UnreadDocument]:
    """The documents of which nothing was read."""
    return [document for document in documents if document.code != PARTLY]


MAX_NAMED = 5  # documents
_ENDINGS: Final[dict[Kind, str]] = {"PDF": ".pdf", "Word": ".docx", "Excel": ".xlsx", "PowerPoint": ".pptx"}
_FORMAT_SENTENCES: Final = {
    "en": (
        " and ",
        "You asked for {formats}, which this release cannot make",
        "You asked for {formats}, which was not made",
        "; it made {documents} instead",
    ),
    "de": (
        " und ",
        "Gewünscht war {formats}, was diese Version nicht erstellen kann",
        "Gewünscht war {formats}, was nicht erstellt wurde",
        "; stattdessen liegt vor: {documents}",
    ),
}


def missing_formats(workflow: Workflow, documents: Sequence[str]) -> str:
    """The sentence about the formats that none of the round's documents has; empty if nothing is missing."""
    names = tuple(name.casefold() for name in documents)
    missing = [kind for kind in asked_formats(workflow) if not any(name.endswith(_ENDINGS[kind]) for name in names)]
    if not missing:
        return ""
    both, cannot, was_not, instead = _FORMAT_SENTENCES[own_language(workflow)]
    beside = instead.format(documents=", ".join(documents[-MAX_NAMED:])) if documents else ""
    sentence = cannot if missing == ["PowerPoint"] else was_not
    return f"{sentence.format(formats=both.join(missing))}{beside}."
