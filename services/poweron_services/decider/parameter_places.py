"""The addresses and paths in the parameters of an action, recognised by its schema and by the parameters' names.

The action may have been described by any third party, so lists, objects and alternatives are searched, too. If a schema
says nothing, the name decides, word by word: `path`, `source_file`, `outputDir`.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

from pydantic import JsonValue

from poweron_events.catalog import ActionSpec

Kind = Literal["address", "path"]

_ADDRESS_FORMATS: Final = frozenset({"uri", "uri-reference", "iri", "iri-reference", "url", "uri-template"})
_ADDRESSES: Final = frozenset({"url", "uri", "iri", "href", "link", "address", "endpoint", "webpage"})
_PATHS: Final = frozenset(
    {"path", "file", "filename", "filepath", "pathname", "directory", "dir", "dirname", "folder", "cwd", "glob"}
)
_MAYBE: Final = frozenset(
    {"source", "src", "destination", "dest", "dst", "target", "root", "location", "input", "output", "from", "to"}
)
"""Words that name a path if the value looks like one."""
_OF_PATHS: Final = frozenset({"name"})  # `fileName` is a path, as `file` is; `fileType` is not
_ALTERNATIVES: Final = ("anyOf", "oneOf", "allOf")
_CONDITIONS: Final = ("if", "then", "else")
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SCHEME: Final = re.compile(r"(?i)[a-z][a-z0-9+.-]{1,30}://")
_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")


class Place(NamedTuple):
    """An address or a path that a parameter names."""

    kind: Kind
    parameter: str
    value: str


def places(parameters: Mapping[str, JsonValue], spec: ActionSpec) -> tuple[Place, ...]:
    """The addresses and paths in the parameters, each once, except values that the schema itself offers."""
    result = (
        Place(kind, name, text)
        for name, value in parameters.items()
        for kind, text in _find(spec.properties.get(name, True), value, name)
    )
    return tuple(dict.fromkeys(result))


@lru_cache(maxsize=256)
def takes_addresses(spec: ActionSpec) -> bool:
    """Return whether a parameter of the action is a web address by its schema or by its name."""
    return any(_is_address(schema) or _last_word(name) in _ADDRESSES for name, schema in spec.properties.items())


def _is_address(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    inner = [alternative for keyword in _ALTERNATIVES for alternative in schema.get(keyword, ())]
    return schema.get("format") in _ADDRESS_FORMATS or any(map(_is_address, [*inner, schema.get("items")]))


def _find(schema: Any, value: JsonValue, name: str) -> Iterator[tuple[Kind, str]]:
    own_schema = schema if isinstance(schema, dict) else {}
    if _offers(own_schema, value):
        return
    for inner in _alternatives(own_schema):
        yield from _find(inner, value, name)
    match value:
        case str() if value.strip():
            kind = _kind(own_schema, name, value)
            if kind is not None:
                yield kind, value
        case list():
            for number, item in enumerate(value):
                yield from _find(_of_entry(own_schema, number), item, name)
        case dict():
            members = own_schema.get("properties", {})
            for key, item in value.items():
                if key not in members and _by_name(name, key) is not None and "/" in key:
                    yield "path", key
                yield from _find(members.get(key, own_schema.get("additionalProperties", True)), item, key)


def _alternatives(schema: Mapping[str, Any]) -> Iterator[Any]:
    for keyword in _ALTERNATIVES:
        yield from schema.get(keyword, ())
    yield from (schema[keyword] for keyword in _CONDITIONS if keyword in schema)


def _offers(schema: Mapping[str, Any], value: JsonValue) -> bool:
    """Return whether the schema names exactly this value."""
    values = [schema[keyword] for keyword in ("default", "const") if keyword in schema]
    return value in values or value in schema.get("enum", ())


def _of_entry(schema: Mapping[str, Any], number: int) -> Any:
    first = schema.get("prefixItems", ())
    return first[number] if number < len(first) else schema.get("items", True)


def _kind(schema: Mapping[str, Any], name: str, value: str) -> Kind | None:
    if schema.get("format") in _ADDRESS_FORMATS:
        return "address"
    kind = _by_name(name, value)
    return "address" if kind == "path" and _SCHEME.match(value) else kind


def _by_name(name: str, value: str) -> Kind | None:
    words = _words(name)
    last = _last_word(name)
    if last in _ADDRESSES:
        return "address"
    if last in _PATHS or (last in _OF_PATHS and any(word in _PATHS for word in words)):
        return "path"
    is_maybe = any(word in _PATHS | _MAYBE for word in words)
    return "path" if is_maybe and _looks_like_a_path(value) else None


def _last_word(name: str) -> str:
    words = _words(name)
    return words[-1] if words else ""


@lru_cache(maxsize=1_024)
def _words(name: str) -> tuple[str, ...]:
    """The words of a name in camelCase, in snake_case or with hyphens, each in the singular."""
    return tuple(_singular(word.lower()) for word in _WORD.findall(name))


def _singular(word: str) -> str:
    return {"directories": "directory"}.get(word, word.removesuffix("s"))


def _looks_like_a_path(value: str) -> bool:
    return value.startswith(("/", "~", "./", "../", "\\")) or bool(
        _DRIVE.match(value) or re.search(r"\w[\\/]\w", value)
    )
