"""The reader of JSON: one line per value, with its path; lists of objects become tables."""

import json
from collections.abc import Iterator
from typing import Any

from poweron_services.connectors.documents_child import plain_text
from poweron_services.connectors.documents_child.document import Section
from poweron_services.connectors.documents_child.limits import ReadLimits
from poweron_services.connectors.documents_child.pipe_tables import pipe_table
from poweron_services.connectors.documents_child.readers import Note, Part

ITSELF = "\0"
"""The key of an object's own value, shown under its path alone, such as the text of an XML element with attributes."""
WHOLE = "text"
"""The name of the table column that holds the rows' own values."""
WHOLE_TEXTS = 2  # JSON may be this many times as long as `whole_text`, since it cannot be cut like other text


def read(data: bytes, limits: ReadLimits) -> Iterator[Part]:
    if len(data) > limits.whole_text * WHOLE_TEXTS:
        yield Note("The JSON is too long to be taken apart and was read as plain text.")
        yield from plain_text.read(data, limits)
        return
    text = plain_text.decoded(data, limits, whole=True)[0]
    try:
        value = _parse(text)
    except ValueError:
        yield Note("The content is not valid JSON and was read as plain text.")
        yield Section("", text)
        return
    yield Section("", "\n".join(lines(value, "")))


def _parse(text: str) -> Any:
    try:
        return _load(text)
    except json.JSONDecodeError:
        return [_load(line) for line in text.splitlines() if line.strip()]  # one value per line


def _load(text: str) -> Any:
    """Parse JSON with decimals as strings: a float would lose the last cents of a large sum, and the zero of 12.50."""
    return json.loads(text, parse_float=str)


def lines(value: Any, path: str = "") -> Iterator[str]:
    """Yield a line for each value that is not an object, with its path; a list of objects becomes a table."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from lines(inner, _path(path, key))
    elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        yield f"\n{path}:\n" if path else ""
        yield _table([_flat(item) for item in value]) + "\n"
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for index, item in enumerate(value, start=1):
            yield from lines(item, f"{path}[{index}]")
    else:
        yield f"{path}: {_text(value)}" if path else _text(value)


def _table(items: list[dict[str, str]]) -> str:
    columns = list(dict.fromkeys(key for item in items for key in item))
    return pipe_table([columns, *([item.get(column, "") for column in columns] for item in items)])


def _flat(value: dict[str, Any], path: str = "") -> dict[str, str]:
    """The values of an object and of the objects within it, keyed by path."""
    flat: dict[str, str] = {}
    for key, inner in value.items():
        if isinstance(inner, dict):
            flat |= _flat(inner, _path(path, key))
        else:
            flat[_path(path, key) or WHOLE] = _text(inner)
    return flat


def _path(path: str, key: str) -> str:
    if key == ITSELF:
        return path
    return f"{path}.{key}" if path else str(key)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and not any(isinstance(item, dict | list) for item in value):
        return ", ".join(map(_text, value))
    return json.dumps(value, ensure_ascii=False)
