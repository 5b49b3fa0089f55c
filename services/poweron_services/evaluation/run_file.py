"""The files of an evaluation: its table, and each run with the workflow that answered each line.

The table has one request per line, with the facts expected of its answer. A run is stored next to it, without answers.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError

from poweron_events.codec import sha256
from poweron_events.errors import Refused
from poweron_events.event import ActionName, Model, Number
from poweron_events.request import MAX_DOCUMENTS, MAX_PROMPT
from poweron_events.validation_messages import explain


class RunAnswer(Model):
    """One request of a run."""

    line: Number
    fingerprint: str
    model: str
    repetition: Number
    workflow_id: str | None = None
    """None if the request was never sent."""
    trouble: str | None = None
    """Why there is no answer, as a sentence; None if there is one."""
    code: str | None = None


class StoredRun(Model):
    """A run: the models, the requests and the workflows that answered them."""

    run_id: str
    table: str
    began: str
    worker: str
    """The prefix of the asking process's instances; decisions of other processes are not part of this run."""
    models: tuple[str, ...]
    answers: tuple[RunAnswer, ...] = ()


def place_of(table: Path, run_id: str) -> Path:
    """Return the path of a run's file, next to its table."""
    return table.with_name(f"{table.stem}.run-{run_id}.json")


def keep(table: Path, run: StoredRun) -> Path:
    """Write the run's file atomically and return its path."""
    place = place_of(table, run.run_id)
    beside = place.with_name(f".{place.name}.new")
    beside.write_text(run.model_dump_json(by_alias=True, indent=1) + "\n", encoding="utf-8")
    os.replace(beside, place)  # noqa: PTH105 - it replaces the file atomically
    return place


def read_run(table: Path, name: str) -> StoredRun:
    """Read the run with this id, or from this file.

    Raises:
        Refused: there is no such run, the file is something else, or the run ended before its first answer.
    """
    place = Path(name) if os.sep in name or Path(name).is_file() else place_of(table, name)
    if not place.is_file():
        raise Refused(
            f"There is no run {name!r}. Name the file of a run, or the id in its name: "
            f"{place_of(table, 'ID').name!r} beside the table."
        )
    try:
        run = StoredRun.model_validate_json(place.read_bytes())
    except (ValidationError, OSError) as error:
        raise Refused(f"{str(place)!r} is not the file of a run that `poweron evaluate` has written.") from error
    if not run.answers:
        raise Refused(
            f"Run {run.run_id} was stopped before its first answer, so there is nothing to judge: leave out --recorded "
            "to ask again."
        )
    return run


MAX_LINES = 10_000


Status = Literal["completed", "failed", "cancelled", "refused"]


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


Texts = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(_as_tuple)]


class ExpectedFacts(Model):
    """The facts expected of an answer; apart from the status, only those that are given are checked."""

    contains: Texts = ()
    """Texts that must appear in the message or in a document of the answer, ignoring case and spacing."""
    status: Status = "completed"
    max_steps: Number | None = None
    actions: tuple[ActionName, ...] = ()
    """Actions that must be run in this order; others may come between them."""


class TableLine(Model):
    """One line as written in the file."""

    prompt: str = Field(min_length=1, max_length=MAX_PROMPT, pattern=r"\S")
    documents: tuple[Annotated[str, Field(min_length=1)], ...] = Field(default=(), max_length=MAX_DOCUMENTS)
    expect: ExpectedFacts


@dataclass(frozen=True, slots=True)
class TableRequest:
    """A request of the table, its line number and the paths of its documents."""

    line: int
    prompt: str
    documents: Sequence[Path]
    expect: ExpectedFacts

    @property
    def fingerprint(self) -> str:
        """A hash of the question, without the expectations; recorded answers remain valid while it stays the same."""
        return sha256("\n".join([self.prompt, *(path.name for path in self.documents)]).encode())


def read_table(file: Path) -> list[TableRequest]:
    """Return all requests of the file; empty lines are skipped.

    Raises:
        Refused: the file cannot be read, or a line is unusable; the message has the line's number.
    """
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError as error:
        raise Refused(f"There is no file {str(file)!r}. Name a file with one JSON object a line.") from error
    except UnicodeDecodeError as error:
        raise Refused(f"{str(file)!r} is not text in UTF-8. Write it as JSON Lines: one object a line.") from error
    except OSError as error:
        raise Refused(f"The file {str(file)!r} cannot be read: {error.strerror}.") from error
    requests = list(_requests(file, lines))
    if not 0 < len(requests) <= MAX_LINES:
        raise Refused(f"{str(file)!r} has {len(requests):,} requests; it must have 1 to {MAX_LINES:,}, each on a line.")
    return requests


def _requests(file: Path, lines: Sequence[str]) -> Iterator[TableRequest]:
    for number, text in enumerate(lines, 1):
        if text.strip():
            yield _request(file, number, text)


def _request(file: Path, number: int, text: str) -> TableRequest:
    try:
        line = TableLine.model_validate_json(text)
    except ValidationError as error:
        raise Refused(
            f"Line {number} of {str(file)!r} cannot be used: {explain(error)}. A line is an object such as "
            '{"prompt": "…", "documents": ["a.pdf"], "expect": {"contains": ["…"]}}.'
        ) from error
    documents = [file.parent / name for name in line.documents]
    for path in documents:
        if not path.is_file():
            raise Refused(
                f"Line {number} of {str(file)!r} names a document that is no file: {str(path)!r}. Paths are taken from "
                f"the folder of the table."
            )
    return TableRequest(number, line.prompt, documents, line.expect)
