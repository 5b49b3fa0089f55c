"""Convert a value that a model gave to the type of its parameter, only if nothing is lost (D-04).

A value that cannot be converted without loss is left as it is, for the parameter's own check to refuse.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import JsonValue

from poweron_events.codec import dumps
from poweron_events.step_events import FieldType

MAX_EXACT = 2**53  # beyond it, a float cannot hold every integer exactly
_INTEGER = re.compile(r"[+-]?[0-9]{1,15}(?:\.0{1,15})?")
_NUMBER = re.compile(r"[+-]?[0-9]{1,15}(?:\.[0-9]{1,15})?")
_TRUTH = {"true": True, "yes": True, "false": False, "no": False}
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # except tabs and line feeds


_FIELD_TYPES: Final[Mapping[str, FieldType]] = {
    "string": "string",
    "boolean": "boolean",
    "integer": "number",
    "number": "number",
}


def field_type(schema: Any) -> FieldType:
    """The type that stage 2 is given for a parameter; if it has several, the first."""
    if choices(schema):
        return "enum"
    return next((_FIELD_TYPES.get(kind, "object") for kind in _kinds(schema)), "object")


def choices(schema: Any) -> tuple[JsonValue, ...]:
    """The values of an enum."""
    if not isinstance(schema, dict):
        return ()
    if "const" in schema:
        return (schema["const"],)
    if isinstance(values := schema.get("enum"), list):
        return tuple(value for value in values if value is not None)
    lists = [choices(kind) for kind in _alternatives(schema)]
    return tuple(value for values in lists for value in values) if all(lists) else ()


def entry_choices(schema: Any) -> tuple[JsonValue, ...]:
    """The values that each entry of a list can have."""
    return choices(_value_schema(schema).get("items")) if _kinds(schema) == ["array"] else ()


def coerced(value: JsonValue, schema: Any) -> JsonValue:
    """Convert the value to the type that the schema describes."""
    if allowed := choices(schema):
        return choice(value, allowed)
    match _kinds(schema), _value_schema(schema):
        case ["string"], {"format": "hostname"}:
            return host_name(value) if isinstance(value, str) else value
        case ["array"], shape:
            entries = value if isinstance(value, list) else [value] if isinstance(value, str) else None
            return value if entries is None else [coerced(entry, shape.get("items", True)) for entry in entries]
        case ["object"], {"properties": dict(members)} if isinstance(value, dict):
            return {name: coerced(entry, members.get(name, True)) for name, entry in value.items()}
        case [kind], _ if kind in _CONVERT:
            return _CONVERT[kind](value)
    return value


def cleaned(text: str) -> str:
    """The text without control characters and unpaired surrogates, which are invisible."""
    return _UNSEEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def host_name(text: str) -> str:
    """Return the host in a URL or part of one; any other text is returned unchanged."""
    bare = cleaned(text).strip()
    try:
        url = urlsplit(bare if "://" in bare else f"https://{bare}")
        host, port = url.hostname, url.port
        if url.scheme not in ("http", "https") or not host or url.username is not None or (port == 0):
            return text
        return host.removeprefix("*.").rstrip(".").encode("idna").decode().lower()
    except (ValueError, UnicodeError):
        return text


def _alternatives(schema: Mapping[str, Any]) -> list[Any]:
    """The alternative schemas of a value, without the null for a value that is not given."""
    kinds = schema.get("anyOf", schema.get("oneOf", []))
    return [kind for kind in kinds if kind != {"type": "null"}]


def _value_schema(schema: Any) -> Mapping[str, Any]:
    """The schema of a value that is given: the only alternative to null, if there is just one."""
    if not isinstance(schema, dict):
        return {}
    match _alternatives(schema):
        case [dict(only)] if "type" not in schema:
            return _value_schema(only)
    return schema


def _kinds(schema: Any) -> list[str]:
    """The types that a given value may have."""
    value_schema = _value_schema(schema)
    names = value_schema.get("type", [])
    types = [names] if isinstance(names, str) else [kind for kind in names if kind != "null"]
    return types or [kind for alternative in _alternatives(value_schema) for kind in _kinds(alternative)]


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


def choice(value: JsonValue, allowed: tuple[JsonValue, ...]) -> JsonValue:
    """Return the only allowed value that is written like this, ignoring case, or the value itself."""
    if not isinstance(value, str) or value in allowed:
        return value
    text = value.strip().casefold()
    matches = [word for word in allowed if written(word).casefold() == text]
    return matches[0] if len(matches) == 1 else value


def written(value: JsonValue) -> str:
    """A value as a person would write it."""
    return value if isinstance(value, str) else dumps(value).decode()


_CONVERT: Final[Mapping[str, Callable[[JsonValue], JsonValue]]] = {
    "string": _text,
    "integer": _integer,
    "number": _float,
    "boolean": _boolean,
}
