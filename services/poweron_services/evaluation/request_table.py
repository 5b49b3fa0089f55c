"""The table of an evaluation: a request a line, and what its answer must be."""

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


def _listed(given: Any) -> Any:
    return (given,) if isinstance(given, str) else given


Texts = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(_listed)]


class ExpectedFacts(Model):
    """What an answer must be; what is not named is not looked at, but for the status."""

    contains: Texts = ()
    """Texts that stand in the message or in a document of the answer, whatever their case and spacing."""
    status: Status = "completed"
    max_steps: Number | None = None
    actions: tuple[ActionName, ...] = ()
    """Actions that were run in this order; others may have been between them."""


class TableLine(Model):
    """One line as it is written."""

    prompt: str = Field(min_length=1, max_length=MAX_PROMPT, pattern=r"\S")
    documents: tuple[Annotated[str, Field(min_length=1)], ...] = Field(default=(), max_length=MAX_DOCUMENTS)
    expect: ExpectedFacts


@dataclass(frozen=True, slots=True)
class TableRequest:
    """A request of the table, the number of its line, and where its documents are."""

    line: int
    prompt: str
    documents: Sequence[Path]
    expect: ExpectedFacts

    @property
    def fingerprint(self) -> str:
        """What is asked, whatever is expected of it: the same for as long as an answer to it is one."""
        return sha256("\n".join([self.prompt, *(path.name for path in self.documents)]).encode())


def read_table(file: Path) -> list[TableRequest]:
    """All requests of the file; empty lines are skipped.

    Raises:
        Refused: the file cannot be read, or a line cannot be used; the sentence has its number.
    """
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError as error:
        raise Refused(f"There is no file {str(file)!r}. Name a file with one JSON object a line.") from error
    except UnicodeDecodeError as error:
        raise Refused(f"{str(file)!r} is not text in UTF-8. Write it as JSON Lines: one object a line.") from error
    except OSError as error:
        raise Refused(f"The file {str(file)!r} cannot be read: {error.strerror}.") from error
    found = list(_requests(file, lines))
    if not 0 < len(found) <= MAX_LINES:
        raise Refused(f"{str(file)!r} has {len(found):,} requests; it must have 1 to {MAX_LINES:,}, each on a line.")
    return found


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
