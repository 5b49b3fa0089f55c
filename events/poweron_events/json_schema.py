"""The JSON Schema of an action's parameters, from any source: self-contained and limited in size.

A schema may come from a third-party server. This module refuses one that could reach the network, never end or be
read in two ways. It replaces references within a schema by their targets, so no other code has to resolve them.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

import orjson
from pydantic import JsonValue

from poweron_events.errors import Refused

JsonSchema: TypeAlias = Mapping[str, Any]
"""A schema of draft 2020-12 that describes an object."""

MAX_BYTES: Final = 200_000
MAX_VALUES: Final = 5_000  # JSON values, with each reference replaced by its target
MAX_DEPTH: Final = 32
MAX_PARAMETERS: Final = 50
MAX_NAME: Final = 100  # characters
ANNOTATIONS: Final = frozenset({"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"})
"""Keywords that describe a value without restricting it."""

_DROPPED: Final = frozenset({"$schema", "$comment", "$defs", "definitions", "$anchor", "$dynamicAnchor", "$vocabulary"})
_REFUSED: Final = frozenset(
    {"$dynamicRef", "$recursiveRef", "patternProperties", "unevaluatedItems", "unevaluatedProperties"}
)
_ONE: Final = frozenset({"items", "contains", "additionalProperties", "propertyNames", "not", "if", "then", "else"})
_MANY: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED: Final = frozenset({"properties", "dependentSchemas"})
_IN_NAMES: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.$@")


class UnusableSchema(Refused):
    """The schema cannot describe an action's parameters; the message says why."""


def self_contained(given: Mapping[str, object]) -> dict[str, Any]:
    """Return an independent copy of the schema, without references and always with `properties`.

    Raises:
        UnusableSchema: it is not the schema of an object, or is not safe to use.
    """
    root = _as_json(given)
    schema = _Inliner(root).inlined(root)
    if not isinstance(schema, dict) or schema.setdefault("type", "object") != "object":
        raise UnusableSchema("Parameters are described by a schema of an object.")
    _check_names(schema.setdefault("properties", {}), schema.get("required", []))
    return schema


def count_values(value: JsonValue) -> int:
    """Return the number of JSON values: this one and all inside it."""
    if isinstance(value, dict):
        return 1 + sum(map(count_values, value.values()))
    return 1 + sum(map(count_values, value)) if isinstance(value, list) else 1


def _as_json(given: Mapping[str, object]) -> dict[str, Any]:
    try:
        written = orjson.dumps(given)
    except (TypeError, ValueError, RecursionError) as error:
        raise UnusableSchema(f"The schema is no JSON: {error}.") from error
    if len(written) > MAX_BYTES:
        raise UnusableSchema(f"The schema has {len(written)} bytes, more than {MAX_BYTES}.")
    read = orjson.loads(written)
    if not isinstance(read, dict):
        raise UnusableSchema("Parameters are described by a schema of an object.")
    read.pop("$id", None)  # of the whole schema; a nested one would change the meaning of references
    return read


def _check_names(properties: Mapping[str, Any], required: Any) -> None:
    if len(properties) > MAX_PARAMETERS:
        raise UnusableSchema(f"The schema has {len(properties)} parameters, more than {MAX_PARAMETERS}.")
    for name in properties:
        if not 0 < len(name) <= MAX_NAME or not _IN_NAMES.issuperset(name):
            raise UnusableSchema(
                f"{name[:MAX_NAME]!r} is no name of a parameter: it has at most {MAX_NAME} letters, digits or `_-.$@`."
            )
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise UnusableSchema("`required` of the schema is no list of names.")
    if unknown := [name for name in required if name not in properties]:
        raise UnusableSchema(f"The schema requires {unknown[0][:MAX_NAME]!r}, which it does not describe.")


class _Inliner:
    """Replaces each reference by its target, and counts the resulting values."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._values = 0
        self._within: list[str] = []  # the references being replaced, outermost first

    def inlined(self, schema: Any, depth: int = 0) -> Any:
        if depth > MAX_DEPTH:
            raise UnusableSchema(f"The schema is nested more than {MAX_DEPTH} deep.")
        self._count(1)
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            raise UnusableSchema(f"The schema holds {type(schema).__name__} where a schema is expected.")
        own = {
            keyword: self._keyword(keyword, value, depth + 1)
            for keyword, value in schema.items()
            if keyword not in _DROPPED and keyword != "$ref"
        }
        if "$ref" in schema:
            own["allOf"] = [self._named(schema["$ref"], depth + 1), *own.get("allOf", ())]
        return _unwrapped(own)

    def _keyword(self, keyword: str, value: Any, depth: int) -> Any:
        if keyword in _REFUSED or keyword == "$id":
            raise UnusableSchema(f"The schema must not hold {keyword!r}.")
        if keyword in _ONE:
            return self.inlined(value, depth)
        if keyword in _MANY and isinstance(value, list):
            return [self.inlined(each, depth) for each in value]
        if keyword in _NAMED and isinstance(value, dict):
            return {name: self.inlined(each, depth) for name, each in value.items()}
        if keyword in _MANY | _NAMED:
            raise UnusableSchema(f"{keyword!r} of the schema holds {type(value).__name__}, which it must not.")
        self._count(count_values(value))
        return value

    def _named(self, reference: Any, depth: int) -> Any:
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            raise UnusableSchema(f"{str(reference)[:MAX_NAME]!r} is a reference to something outside of the schema.")
        if reference in self._within:
            raise UnusableSchema(f"{reference[:MAX_NAME]!r} of the schema refers to itself.")
        self._within.append(reference)
        found = self.inlined(_pointed_at(reference, self._root), depth)
        self._within.pop()
        return found

    def _count(self, more: int) -> None:
        self._values += more
        if self._values > MAX_VALUES:
            raise UnusableSchema(f"The schema has more than {MAX_VALUES} values.")


def _pointed_at(reference: str, root: dict[str, Any]) -> Any:
    found: Any = root
    for part in unquote(reference).split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isascii() and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
        else:
            raise UnusableSchema(f"{reference[:MAX_NAME]!r} names nothing in the schema.")
    return found


def _unwrapped(schema: dict[str, Any]) -> dict[str, Any]:
    """Merge a wrapper that adds only annotations, such as a title or a default, into the schema inside it."""
    around = {keyword: value for keyword, value in schema.items() if keyword != "allOf"}
    match schema.get("allOf"):
        case [dict() as only] if around.keys() <= ANNOTATIONS:
            return {**only, **around}
    return schema
