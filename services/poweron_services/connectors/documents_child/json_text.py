"""JSON: one line per value with the path to it; lists of objects as tables."""

import json
from collections.abc import Iterator
from typing import Any

from poweron_services.connectors.documents_child import plain_text
from poweron_services.connectors.documents_child.document import Section
from poweron_services.connectors.documents_child.limits import Limits
from poweron_services.connectors.documents_child.pipe_tables import pipe_table
from poweron_services.connectors.documents_child.readers import Note, Part

ITSELF = "\0"
"""The key of what an object is itself, named by its path alone: the text of an XML element beside its attributes."""
WHOLE = "text"
"""What the column of a table is called that holds what its rows are themselves."""
WHOLE_TEXTS = 2  # how much longer than another text JSON may be that is held as a whole; it can not be cut like text


def read(data: bytes, limits: Limits) -> Iterator[Part]:
    if len(data) > limits.whole_text * WHOLE_TEXTS:
        yield Note("The JSON is too long to be taken apart and was read as plain text.")
        yield from plain_text.read(data, limits)
        return
    text = plain_text.decoded(data, limits, whole=True)[0]
    try:
        value = _parsed(text)
    except ValueError:
        yield Note("The content is not valid JSON and was read as plain text.")
        yield Section("", text)
        return
    yield Section("", "\n".join(lines(value, "")))


def _parsed(text: str) -> Any:
    try:
        return _loaded(text)
    except json.JSONDecodeError:
        return [_loaded(line) for line in text.splitlines() if line.strip()]  # one value per line


def _loaded(text: str) -> Any:
    """With decimals as they are written: a float would lose the last cents of a large sum, and the zero of 12.50."""
    return json.loads(text, parse_float=str)


def lines(value: Any, path: str = "") -> Iterator[str]:
    """One for each value that is no object, with the path to it."""
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
    """The values of an object and of the objects in it, by their paths."""
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
