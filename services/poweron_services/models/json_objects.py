"""The one JSON object in a model's text: by itself, in a list or a code fence, or with words around it.

Plain JSON is read by orjson at once. Only where the text is more than that, the objects in it are looked for;
what is ambiguous or broken is refused, never guessed. Line breaks and tabs that stand in a text as they are, which
grammars of some servers admit and JSON does not, are read as the escapes that they must have been.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import orjson

from poweron_events.errors import Refused

MAX_TEXT = 200_000  # characters; an answer that is longer is no answer
MAX_OBJECTS = 20  # in one text

_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_BEGINNING: Final = re.compile(r"\{\s*[\"}]")
"""How an object begins; a brace before anything else is prose."""


class NoObject(Refused):
    """The text holds no object, several, or a broken one; the sentence says which."""

    code = "answer_unreadable"


def the_object(text: str, *, required: Iterable[str], forbidden: frozenset[str]) -> dict[str, Any]:
    """The object of a text.

    Args:
        text: what a model said.
        required: keys by which the object is known where there are several.
        forbidden: keys that no object of the text may hold, however deep.

    Raises:
        NoObject: there is not exactly one, it cannot be read, or it holds what is forbidden.
    """
    if len(text) > MAX_TEXT:
        raise NoObject(f"The answer has {len(text)} characters; at most {MAX_TEXT} are read.")
    try:
        found = [_plain(text)]
    except orjson.JSONDecodeError as error:
        found = _within(text, error)
    for value in found:
        _check_keys(value, forbidden)
    if len(found) == 1:
        return found[0]
    keys = frozenset(required)
    fitting = [value for value in found if keys <= value.keys()]
    if len(fitting) != 1:
        raise NoObject(f"The answer holds {len(found)} JSON objects; answer with exactly one.")
    return fitting[0]


def _plain(text: str) -> dict[str, Any]:
    value = orjson.loads(text)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, dict):
        raise NoObject(f"The answer must be one JSON object, not {type(value).__name__}.")
    _DECODER.decode(text)
    return value


def _within(text: str, why: orjson.JSONDecodeError) -> list[dict[str, Any]]:
    """The objects with other text around them."""
    try:
        spans = islice(_spans(text), MAX_OBJECTS + 1)
        found = [orjson.loads(with_escapes(text[begin:end])) for begin, end in spans]
    except RecursionError as error:
        raise NoObject("The answer is not one JSON object: it is nested too deeply.") from error
    except ValueError as error:
        raise NoObject(f"The answer is not one JSON object: {error}.") from error
    if len(found) > MAX_OBJECTS:
        raise NoObject(f"The answer holds more than {MAX_OBJECTS} JSON objects; answer with exactly one.")
    if not found:
        reason = why if "{" in text else "it holds none" if text.strip() else "it is empty"
        raise NoObject(f"The answer is not one JSON object: {reason}.") from why
    return found


def with_escapes(text: str) -> str:
    """JSON with each line break and other control character in its texts as an escape."""
    return _STRING.sub(lambda found: _CONTROL.sub(lambda one: f"\\u{ord(one[0]):04x}", found[0]), text)


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Where the outermost objects begin and end; raises what the decoder raises for one that is broken."""
    end = 0
    while match := _BEGINNING.search(text, end):
        _, end = _DECODER.raw_decode(text, match.start())
        yield match.start(), end


def _check_keys(value: dict[str, Any], forbidden: frozenset[str]) -> None:
    inside: list[Any] = [value] if forbidden else []
    while inside:
        one = inside.pop()
        if isinstance(one, dict):
            if named := forbidden_keys(one, forbidden):
                raise NoObject(f"The answer must not hold {', '.join(map(repr, named))}.", code="field_not_allowed")
            inside += one.values()
        elif isinstance(one, list):
            inside += one


def forbidden_keys(value: Mapping[str, Any], forbidden: frozenset[str]) -> list[str]:
    """The keys that are forbidden, in whatever case they are written."""
    folded = {key.casefold() for key in forbidden}
    return sorted(key for key in value if key.strip().casefold() in folded)


def _once(pairs: list[tuple[str, Any]]) -> None:
    """Refuse a key that stands twice in an object: each reader would take another one of the two."""
    if len({key for key, _ in pairs}) < len(pairs):
        twice = next(key for place, (key, _) in enumerate(pairs) if any(key == other for other, _ in pairs[:place]))
        raise NoObject(f"The answer holds {twice[:100]!r} twice in one object.")


def _no_number(constant: str) -> None:
    raise NoObject(f"The answer is not one JSON object: {constant} is no number of JSON.")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_once, parse_constant=_no_number, parse_int=len, parse_float=len, strict=False
)
"""Finds keys that stand twice, and where an object ends; the values are read by orjson."""
