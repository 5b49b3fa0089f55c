"""The files of a round: what each of its tasks wrote for the user, numbered if their names are equal."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import NamedTuple

from poweron_events.event import DocumentRef
from poweron_events.fold.state import Workflow
from poweron_services.decider.rules import WRITING

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
    return told_apart(file for task in tasks for file in _files([step for step in steps if step.task == task]))


def told_apart(documents: Iterable[DocumentRef]) -> tuple[DocumentRef, ...]:
    """Add a number to every document name that an earlier one has: `report.md`, `report (2).md`."""
    taken, names, apart = set[str](), dict[str, Iterator[str]](), list[DocumentRef]()
    for document in documents:
        left = names.setdefault(document.document_name, _names(document.document_name))
        name = next(name for name in left if name.casefold() not in taken)
        taken.add(name.casefold())
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
        numbered = f" ({number}){behind}"
        yield f"{name.removesuffix(behind)[: MAX_NAME - len(numbered)]}{numbered}"
