"""The one JSON object in a model's text: alone, in a list or a code fence, or with words around it.

Plain JSON is parsed by orjson directly. Only if the text contains anything else is it searched for objects; an
ambiguous or broken text is refused, never guessed. Unescaped line breaks and tabs within strings, which the grammars of
some servers allow and JSON does not, are read as the escapes that they should be.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import orjson

from poweron_events.errors import Refused

MAX_TEXT = 200_000  # characters; a longer answer is refused
MAX_OBJECTS = 20  # in one text

_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_KEY_END: Final = re.compile(r'"\s*:')
_BEGINNING: Final = re.compile(r"\{\s*[\"}]")
"""The beginning of an object; a brace before anything else is prose."""


class NoObject(Refused):
    """The text holds no object, several, or a broken one; the message says which."""

    code = "answer_unreadable"


def the_object(text: str, *, required: Iterable[str], forbidden: frozenset[str]) -> dict[str, Any]:
    """Return the object in a text.

    Args:
        text: the text of a model.
        required: keys that identify the object if there are several.
        forbidden: keys that no object in the text may have, at any depth.

    Raises:
        NoObject: there is not exactly one object, it is unreadable, or it has a forbidden key.
    """
    if len(text) > MAX_TEXT:
        raise NoObject(f"The answer has {len(text)} characters; at most {MAX_TEXT} are read.")
    try:
        objects = [_plain(text)]
    except orjson.JSONDecodeError as error:
        objects = _within(text, error)
    for value in objects:
        _check_keys(value, forbidden)
    if len(objects) == 1:
        return objects[0]
    keys = frozenset(required)
    candidates = [value for value in objects if keys <= value.keys()]
    if len(candidates) != 1:
        raise NoObject(f"The answer holds {len(objects)} JSON objects; answer with exactly one.")
    return candidates[0]


def _plain(text: str) -> dict[str, Any]:
    value = orjson.loads(text)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, dict):
        raise NoObject(f"The answer must be one JSON object, not {type(value).__name__}.")
    if len(_KEY_END.findall(text)) != _count_keys(value):  # a key occurs twice, or a text within looks like one
        _DECODER.decode(text)
    return value


def _count_keys(value: Any) -> int:
    """Return the number of keys of all objects within a value."""
    if isinstance(value, dict):
        return len(value) + sum(map(_count_keys, value.values()))
    return sum(map(_count_keys, value)) if isinstance(value, list) else 0


def _within(text: str, cause: orjson.JSONDecodeError) -> list[dict[str, Any]]:
    """Return the objects in a text that contains several of them, or other words."""
    try:
        spans = islice(_spans(text), MAX_OBJECTS + 1)
        objects = [orjson.loads(with_escapes(text[begin:end])) for begin, end in spans]
    except RecursionError as error:
        raise NoObject("The answer is not one JSON object: it is nested too deeply.") from error
    except ValueError as error:
        raise NoObject(f"The answer is not one JSON object: {error}.") from error
    if len(objects) > MAX_OBJECTS:
        raise NoObject(f"The answer holds more than {MAX_OBJECTS} JSON objects; answer with exactly one.")
    if not objects:
        reason = cause if "{" in text else "it holds none" if text.strip() else "it is empty"
        raise NoObject(f"The answer is not one JSON object: {reason}.") from cause
    return objects


def with_escapes(text: str) -> str:
    """Escape the line breaks and other control characters within the strings of JSON."""
    if not _CONTROL.search(text):
        return text
    return _STRING.sub(lambda string: _CONTROL.sub(lambda control: f"\\u{ord(control[0]):04x}", string[0]), text)


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each outermost object; raise the decoder's error for a broken one."""
    end = 0
    while match := _BEGINNING.search(text, end):
        _, end = _DECODER.raw_decode(text, match.start())
        yield match.start(), end


def _check_keys(value: dict[str, Any], forbidden: frozenset[str]) -> None:
    inside: list[Any] = [value] if forbidden else []
    while inside:
        item = inside.pop()
        if isinstance(item, dict):
            if keys := forbidden_keys(item, forbidden):
                raise NoObject(f"The answer must not hold {', '.join(map(repr, keys))}.", code="field_not_allowed")
            inside += item.values()
        elif isinstance(item, list):
            inside += item


def forbidden_keys(value: Mapping[str, Any], forbidden: frozenset[str]) -> list[str]:
    """Return the keys that are forbidden, ignoring case."""
    names = {key.casefold() for key in forbidden}
    return sorted(key for key in value if key.strip().casefold() in names)


def _once(pairs: list[tuple[str, Any]]) -> None:
    """Refuse a duplicate key in an object: parsers disagree about which of the two counts."""
    if len({key for key, _ in pairs}) < len(pairs):
        twice = next(key for place, (key, _) in enumerate(pairs) if any(key == other for other, _ in pairs[:place]))
        raise NoObject(f"The answer holds {twice[:100]!r} twice in one object.")


def _no_number(constant: str) -> None:
    raise NoObject(f"The answer is not one JSON object: {constant} is no number of JSON.")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_once, parse_constant=_no_number, parse_int=len, parse_float=len, strict=False
)
"""Finds duplicate keys, and the end of an object; orjson reads the values."""
