"""A value that a model gave, as the type that a parameter has: changed only where nothing is lost (D-04).

What cannot be changed without a loss is left as it is, for the parameter's own check to refuse.
"""

import re
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import JsonValue
from pydantic.fields import FieldInfo

from poweron_events.catalog import HostName
from poweron_events.selection import FieldType

MAX_EXACT = 2**53  # beyond it a float is no exact integer
_INTEGER = re.compile(r"[+-]?[0-9]{1,15}(?:\.0{1,15})?")
_NUMBER = re.compile(r"[+-]?[0-9]{1,15}(?:\.[0-9]{1,15})?")
_TRUTH = {"true": True, "yes": True, "false": False, "no": False}
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # but tabs and line ends


def field_type(field: FieldInfo) -> FieldType:
    """What stage 2 is told about a parameter's type."""
    annotation = _given(field.annotation)
    if get_origin(annotation) is Literal:
        return "enum"
    types: dict[Any, FieldType] = {str: "string", bool: "boolean", int: "number", float: "number"}
    return types.get(_plain(annotation), "object")


def choices(field: FieldInfo) -> tuple[str, ...]:
    """The values that an enum has."""
    annotation = _given(field.annotation)
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def coerced(value: JsonValue, annotation: Any) -> JsonValue:
    """The value as the annotated type."""
    annotation = _given(annotation)
    if annotation == HostName:
        return host_name(value) if isinstance(value, str) else value
    if get_origin(annotation) is Literal:
        return _choice(value, get_args(annotation))
    if get_origin(annotation) is tuple:
        given = value if isinstance(value, list) else [value] if isinstance(value, str) else None
        return value if given is None else [coerced(each, get_args(annotation)[0]) for each in given]
    convert = {str: _text, int: _integer, float: _float, bool: _boolean}.get(_plain(annotation))
    return convert(value) if convert else value


def cleaned(text: str) -> str:
    """The text without control characters and halves of characters, which nobody can see."""
    return _UNSEEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def host_name(text: str) -> str:
    """The host that a URL, or a part of one, names; anything else is left as it stands."""
    bare = cleaned(text).strip()
    try:
        url = urlsplit(bare if "://" in bare else f"https://{bare}")
        host, port = url.hostname, url.port
        if url.scheme not in ("http", "https") or not host or url.username is not None or (port == 0):
            return text
        return host.removeprefix("*.").rstrip(".").encode("idna").decode().lower()
    except (ValueError, UnicodeError):
        return text


def _given(annotation: Any) -> Any:
    """The type without the None that stands for a value not given."""
    if get_origin(annotation) in (Union, UnionType):
        types = [each for each in get_args(annotation) if each is not NoneType]
        return types[0] if len(types) == 1 else annotation
    return annotation


def _plain(annotation: Any) -> Any:
    """The type without what is said about it."""
    return getattr(annotation, "__origin__", annotation)


def _text(value: JsonValue) -> JsonValue:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if abs(value) <= MAX_EXACT else value
    return cleaned(value) if isinstance(value, str) else value


def _integer(value: JsonValue) -> JsonValue:
    if isinstance(value, float) and abs(value) <= MAX_EXACT and value.is_integer():
        return int(value)
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        return int(value.strip().partition(".")[0])
    return value


def _float(value: JsonValue) -> JsonValue:
    return float(value) if isinstance(value, str) and _NUMBER.fullmatch(value.strip()) else value


def _boolean(value: JsonValue) -> JsonValue:
    return _TRUTH.get(value.strip().casefold(), value) if isinstance(value, str) else value


def _choice(value: JsonValue, allowed: tuple[Any, ...]) -> JsonValue:
    said = value.strip().casefold() if isinstance(value, str) else value
    same = [each for each in allowed if isinstance(each, str) and each.casefold() == said]
    return same[0] if len(same) == 1 else value
