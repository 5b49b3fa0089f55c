"""The schemas by which a model is held to JSON and to CSV, and its answers without the form that the schemas ask for.

A server takes a schema of an object only. So other JSON stands within a member of its own, and a table is an object of
columns and rows, which no quote and no line break within a cell can spoil. A model that was held to no schema, and
writes what it was asked for, is read as well.
"""

from collections.abc import Mapping
from typing import Any, Final

import orjson

from poweron_services.models.builtin.summary import as_csv
from poweron_services.models.json_objects import with_escapes
from poweron_services.models.prompts import OutputFormat

WITHIN: Final = "output_json"
"""The member that JSON stands within: a name that no request asks for."""
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
"""What prompts say of a format."""


def unfolded_output(text: str, output_format: OutputFormat) -> str:
    """What a model wrote for the format's schema as JSON or CSV; anything else as it stands."""
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
