"""The schemas that hold a model to JSON and to CSV, and the unwrapping of answers in the form of the schemas.

Servers accept only schemas of objects. So any JSON is wrapped in a member of its own, and a table is an object of
columns and rows, which no quote or line break within a cell can break. The output of a model without a schema that
writes what it was asked for is read as well.
"""

from collections.abc import Mapping
from typing import Any, Final

import orjson

from poweron_services.models.builtin.summary import as_csv
from poweron_services.models.json_objects import with_escapes
from poweron_services.models.prompts import OutputFormat

WITHIN: Final = "output_json"
"""The member that wraps JSON: a name that no request asks for."""
COLUMNS: Final = "columns"
ROWS: Final = "rows"
OUTPUT_SCHEMAS: Final[Mapping[OutputFormat, Mapping[str, Any]]] = {
    "json": {
        "type": "object",
        "properties": {WITHIN: {"anyOf": [{"type": "object"}, {"type": "array"}]}},
        "required": [WITHIN],
        "additionalProperties": False,
    },
    "csv": {
        "type": "object",
        "properties": {
            COLUMNS: {"type": "array", "items": {"type": "string"}, "minItems": 1},
            ROWS: {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
        },
        "required": [COLUMNS, ROWS],
        "additionalProperties": False,
    },
}

FORMS: Final[Mapping[OutputFormat, str]] = {
    "text": " (plain text without any markdown)",
    "html": " (elements of a page's body such as headings, paragraphs, lists and tables; "
    "no scripts, styles or pictures)",
    "csv": f' (where JSON is asked for, "{COLUMNS}" names the columns, and each of "{ROWS}" has a text for each)',
}
"""What prompts say about a format."""


def unfolded_output(text: str, output_format: OutputFormat) -> str:
    """Unwrap output in the form of the format's schema to JSON or CSV; leave anything else unchanged."""
    if output_format not in OUTPUT_SCHEMAS:
        return text
    try:
        said = orjson.loads(escaped := with_escapes(text))
    except orjson.JSONDecodeError:
        return text
    if output_format == "json":
        return orjson.dumps(said[WITHIN]).decode() if isinstance(said, dict) and said.keys() == {WITHIN} else escaped
    return as_csv(map(tuple, [said[COLUMNS], *said[ROWS]])) if _is_table(said) else text


def _is_table(said: Any) -> bool:
    if not isinstance(said, dict) or said.keys() != {COLUMNS, ROWS}:
        return False
    rows = [said[COLUMNS], *said[ROWS]] if isinstance(said[ROWS], list) else []
    return all(isinstance(row, list) for row in rows) and all(isinstance(cell, str) for row in rows for cell in row)
