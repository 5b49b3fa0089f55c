"""The parameters of queries: ids, numbers, times and cursors, each with its pattern and an example."""

from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import Path, Query
from pydantic import BeforeValidator, WithJsonSchema

MOST: Final = 500  # entries of a page
MAX_SEQ: Final = 2**31 - 1
UUID: Final = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
EXAMPLE_ID: Final = "8f14e45f-ceea-567a-8f14-e45fceea167a"

WorkflowId = Annotated[str, Path(description="The workflow.", pattern=UUID, examples=[EXAMPLE_ID])]
Seq = Annotated[int, Path(description="The number of an event.", ge=0, le=MAX_SEQ, examples=[4])]
Limit = Annotated[int, Query(description="The most entries of the page.", ge=1, le=MOST)]
CURSOR: Final = "Where the page begins: `next` of the page before."


def cursor(pattern: str) -> Any:
    """Return the description of a cursor of this form."""
    return Query(alias="cursor", description=CURSOR, pattern=pattern, max_length=400)


def _milliseconds(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        moment = datetime.fromisoformat(value)
        return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000)
    except (ValueError, OverflowError):
        raise ValueError("write a time like 2026-11-21T09:30:00Z, or a date") from None


Moment = Annotated[
    int,
    BeforeValidator(_milliseconds),
    WithJsonSchema(
        {
            "anyOf": [{"type": "string", "format": "date-time"}, {"type": "string", "format": "date"}],
            "examples": ["2026-11-21T09:30:00Z"],
        }
    ),
]
"""A time as RFC 3339, or a date (0:00 UTC); in ms since 1970."""
