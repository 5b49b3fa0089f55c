"""The parameters of queries: ids, numbers, times and cursors, each with its pattern and an example."""

import re
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import Path, Query
from pydantic import BaseModel, BeforeValidator, WithJsonSchema

from poweron_events.envelope import parse_time_ms
from poweron_events.fold.state import Place
from poweron_projections.entries import DeadLetterEntry

MOST: Final = 500  # entries of a page
MAX_SEQ: Final = 2**31 - 1
UUID: Final = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
EXAMPLE_ID: Final = "8f14e45f-ceea-567a-8f14-e45fceea167a"


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


IN_LOWER_CASE: Final = BeforeValidator(_lower)
"""Accepts a UUID in upper case, too."""
WorkflowId = Annotated[str, IN_LOWER_CASE, Path(description="The workflow.", pattern=UUID, examples=[EXAMPLE_ID])]
Seq = Annotated[int, Path(description="The number of an event.", ge=0, le=MAX_SEQ, examples=[4])]
PLACE: Final = r"^r[0-9]{1,9}t[0-9]{1,9}a[0-9]{1,9}s[0-9]{1,9}$"
StepPlace = Annotated[
    str,
    Path(
        description="Round, task, attempt and step.",
        pattern=PLACE,
        examples=["r1t1a1s2"],
    ),
]
_PLACE: Final = re.compile(r"r([0-9]{1,9})t([0-9]{1,9})a([0-9]{1,9})s([0-9]{1,9})")
Limit = Annotated[int, Query(description="The most entries of the page.", ge=1, le=MOST)]
CURSOR: Final = "Where the page begins: `next` of the page before."


def parse_place(text: str) -> Place | None:
    """Return the place that a text such as `r1t1a1s2` names; None if it names none."""
    match = _PLACE.fullmatch(text)
    if match is None:
        return None
    round_, task, attempt, step = map(int, match.groups())
    return round_, task, attempt, step


def place_name(place: Place) -> str:
    """Return a place in the form that `parse_place` reads."""
    round_, task, attempt, step = place
    return f"r{round_}t{task}a{attempt}s{step}"


class PageFilter(BaseModel):
    """The filter of a list, as it is in the address of its page."""

    @property
    def given(self) -> dict[str, str]:
        """The conditions that are set."""
        return {name: value for name, value in self if value}

    def address_at(self, path: str, **changed: str | None) -> str:
        """Return the address of a page with this filter and these changes; None removes a condition."""
        query = {name: value for name, value in (self.given | changed).items() if value}
        return f"{path}?{urlencode(query)}" if query else path


def cursor(pattern: str) -> Any:
    """Return the description of a cursor of this form."""
    return Query(alias="cursor", description=CURSOR, pattern=pattern, max_length=400)


NumberCursor = Annotated[str | None, cursor(r"^[0-9]{1,9}$")]

DEAD_LETTER_CURSOR: Final = r"^[0-9]{1,18}\|[a-zA-Z0-9._-]{1,249}\|[0-9]{1,9}\|[0-9]{1,18}$"


def dead_letter_cursor(letter: DeadLetterEntry) -> str:
    """Return the cursor of the page that begins after this dead letter."""
    return f"{parse_time_ms(letter.time)}|{letter.topic}|{letter.partition}|{letter.offset}"


def dead_letter_place(cursor: str | None) -> tuple[int, str, int, int] | None:
    """Return the time and the place in a cursor of dead letters, as `reader.dead_letters` takes them."""
    if cursor is None:
        return None
    time, topic, partition, offset = cursor.split("|")
    return int(time), topic, int(partition), int(offset)


def _parse_moment(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return parse_time_ms(value)
    except (ValueError, OverflowError):
        raise ValueError("write a time like 2026-11-21T09:30:00Z, or a date") from None


Moment = Annotated[
    int,
    BeforeValidator(_parse_moment),
    WithJsonSchema(
        {
            "anyOf": [{"type": "string", "format": "date-time"}, {"type": "string", "format": "date"}],
            "examples": ["2026-11-21T09:30:00Z"],
        }
    ),
]
"""A time as RFC 3339, or a date (0:00 UTC); in ms since 1970."""
