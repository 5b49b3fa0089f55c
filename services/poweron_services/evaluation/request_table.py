"""The table of an evaluation: one request per line, with the facts expected of its answer."""

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
