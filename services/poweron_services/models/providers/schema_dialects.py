"""The schema dialects of providers: what each can enforce of a JSON Schema, and how a schema is translated.

Strict modes allow no optional members, so an absent value is written as its empty value, or as null if the schema
allows it. What a dialect cannot express is dropped, in this order; the validation of the answer remains authoritative:

1. Keywords that it does not know: the description mentions the bound instead, "at most 10 items".
2. Alternatives, if there are too many properties or alternatives, or too deep ones: they are joined, so that each value
   may be what any of them allows.
3. Listed values, the longest list first, if there are too many: any text is then allowed.
4. Strictness, if an object is open or the schema is still too large.

The limits are those that the providers publish (November 2026); `tests/provider_rules.py` holds them as rules.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from poweron_services.models.normalisation import ANSWER
from poweron_services.settings.config import Provider

Schema = dict[str, Any]

_SHAPE: Final = frozenset({"type", "properties", "required", "additionalProperties", "items", "enum", "anyOf"})
_BOUNDS: Final[Mapping[str, str]] = {
    "minLength": "{} or more characters",
    "maxLength": "at most {} characters",
    "minItems": "{} or more items",
    "maxItems": "at most {} items",
    "minimum": "{} or more",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "pattern": "like {}",
    "format": "in the format {}",
}
_PLAIN_PATTERN: Final = re.compile(r"\^(?:[^\\{?]|\\x[0-9a-fA-F]{2}|(?<!\()\?)*\$")
"""A pattern that every server can turn into a grammar: anchored, with no escapes except of bytes, no counted
repetition, which llama.cpp unrolls, and no look-around. For any other pattern, llama.cpp refuses the whole request."""
FEW: Final = 20  # whole numbers that are listed instead of their bounds
LONG: Final = 1_000  # characters; a limit of this length is not mentioned


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a provider accepts. The numbers apply to one whole schema."""

    bounds: frozenset[str] = frozenset()
    most_properties: int = 5_000
    deepest: int = 10
    most_values: int = 1_000
    most_characters: int = 120_000
    most_unions: int = 5_000


_OPENAI: Final = Dialect(
    bounds=frozenset(
        {"minItems", "maxItems", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern"}
    )
)
"""Also for self-hosted servers behind `OPENAI_BASE_URL`: llama.cpp and vLLM accept all that OpenAI does."""
DIALECTS: Final[Mapping[Provider, Dialect]] = {
    "openai": _OPENAI,
    "openai-responses": _OPENAI,
    "ollama": _OPENAI,
    "mistral": Dialect(),
    "azure": Dialect(most_properties=100, deepest=5, most_values=500, most_characters=15_000),
    "anthropic": Dialect(bounds=frozenset({"minItems"}), most_unions=16),
}


class Told(NamedTuple):
    """A schema in a dialect, and whether the provider can enforce it."""

    schema: Schema
    strict: bool


def told(schema: Mapping[str, Any], provider: Provider) -> Told:
    """Translate a schema into the dialect of a provider."""
    dialect = DIALECTS[provider]
    result = _in_words(_wrap(schema), dialect)
    if _too_large(result, dialect):
        result = _unwrap(_join_alternatives(result))
    while (most := _size(result).values) > dialect.most_values or _size(result).characters > dialect.most_characters:
        result = _without_longest_list(result)
        if _size(result).values == most:
            break
    return Told(result, _is_closed(result) and not _too_large(result, dialect))


def _wrap(schema: Mapping[str, Any]) -> Schema:
    """Wrap alternatives at the top level, so that the schema is that of one object."""
    if "anyOf" not in schema:
        return dict(schema)
    return {"type": "object", "properties": {ANSWER: schema}, "required": [ANSWER], "additionalProperties": False}


def _unwrap(schema: Schema) -> Schema:
    """Remove the wrapper around alternatives that were joined."""
    inner: Schema = schema["properties"].get(ANSWER, schema)
    return inner if inner.get("type") == "object" else schema


# --- words -----------------------------------------------------------------------------------------------


def _in_words(schema: Any, dialect: Dialect) -> Schema:
    if not isinstance(schema, dict):
        return {}
    result: Schema = {word: schema[word] for word in ("type", "enum") if word in schema}
    if "const" in schema:
        result["enum"] = [schema["const"]]
    if (numbers := _few_numbers(schema)) and "minimum" not in dialect.bounds:
        result["enum"] = numbers
    if all(isinstance(value, str) for value in result.get("enum", [None])):
        result["type"] = "string"  # strict modes require a type for each value
    if isinstance(result.get("type"), list):
        result = {"anyOf": [{**result, "type": kind} for kind in result["type"]]}
    alternatives = schema.get("anyOf", schema.get("oneOf"))
    if alternatives is not None:
        result["anyOf"] = _distinct(_in_words(alternative, dialect) for alternative in alternatives)
    if schema.get("type") == "array":
        result["items"] = _in_words(schema.get("items", True), dialect)
    if schema.get("type") == "object":
        result |= _members(schema, dialect)
    return result | _bounds(schema, dialect)


def _few_numbers(schema: Schema) -> list[int]:
    """Return the whole numbers between the bounds, if there are few."""
    least, most = schema.get("minimum"), schema.get("maximum")
    if schema.get("type") != "integer" or not (isinstance(least, int) and isinstance(most, int)):
        return []
    return list(range(least, most + 1)) if most - least < FEW else []


def _distinct(schemas: Iterator[Schema]) -> list[Schema]:
    result: list[Schema] = []
    for schema in schemas:
        if schema not in result:
            result.append(schema)
    return result


def _members(schema: Schema, dialect: Dialect) -> Schema:
    """Return the members of an object, all required; an object without known members accepts any."""
    properties = schema.get("properties", {})
    if not properties:
        return {"additionalProperties": True}
    members = {name: _in_words(inner, dialect) for name, inner in properties.items()}
    return {"properties": members, "required": list(members), "additionalProperties": False}


def _bounds(schema: Schema, dialect: Dialect) -> Schema:
    known = {word: schema[word] for word in _BOUNDS if word in schema and word in dialect.bounds}
    if known.get("minItems", 0) > 1 and "maxItems" not in dialect.bounds:  # Anthropic accepts 0 and 1
        known["minItems"] = 1
    if not _PLAIN_PATTERN.fullmatch(str(known.get("pattern", "^$"))):
        del known["pattern"]
    other = [
        template.format(schema[word])
        for word, template in _BOUNDS.items()
        if word in schema and word not in known and (word, schema[word]) != ("minLength", 1)
        if word != "maxLength" or schema[word] < LONG
    ]
    return {**known, "description": ", ".join(other)} if other else known


# --- size ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Size:
    properties: int = 0
    depth: int = 0
    values: int = 0
    characters: int = 0
    unions: int = 0


def _size(schema: Schema) -> _Size:
    size = _Size()
    _count(schema, size, 0)
    return size


def _count(schema: Schema, size: _Size, depth: int) -> None:
    members: dict[str, Schema] = schema.get("properties", {})
    size.properties += len(members)
    size.unions += sum("anyOf" in member for member in members.values())
    size.values += len(schema.get("enum", ()))
    size.characters += sum(len(word) for word in members) + sum(len(str(word)) for word in schema.get("enum", ()))
    depth += schema.get("type") == "object"
    size.depth = max(size.depth, depth)
    for inner in (*members.values(), *schema.get("anyOf", ()), *filter(None, [schema.get("items")])):
        _count(inner, size, depth)


def _too_large(schema: Schema, dialect: Dialect) -> bool:
    size = _size(schema)
    return (
        size.properties > dialect.most_properties or size.depth > dialect.deepest or size.unions > dialect.most_unions
    )


def _is_closed(schema: Schema) -> bool:
    """Return whether every value is described and every member of an object known, as strict modes require."""
    if not schema or schema.get("additionalProperties"):
        return False
    inside = (*schema.get("properties", {}).values(), *schema.get("anyOf", ()))
    items = [schema["items"]] if "items" in schema else []
    return all(map(_is_closed, (*inside, *items)))


# --- joining ---------------------------------------------------------------------------------------------


def _join_alternatives(schema: Schema) -> Schema:
    """Join alternatives that are objects into one, inner schemas first."""
    return _rewrite(schema, _join)


def _rewrite(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """Change every schema within a schema, inner ones first."""
    inside = dict(schema)
    if "properties" in schema:
        inside["properties"] = {name: _rewrite(inner, change) for name, inner in schema["properties"].items()}
    if "anyOf" in schema:
        inside["anyOf"] = [_rewrite(inner, change) for inner in schema["anyOf"]]
    if "items" in schema:
        inside["items"] = _rewrite(schema["items"], change)
    return change(inside)


def _join(schema: Schema) -> Schema:
    objects = [alternative for alternative in schema.get("anyOf", ()) if alternative.get("type") == "object"]
    if len(objects) < 2:
        return schema
    others = [alternative for alternative in schema["anyOf"] if alternative not in objects]
    union = objects[0]
    for alternative in objects[1:]:
        union = _either(union, alternative)
    return {**schema, "anyOf": [union, *others]} if others else union


def _either(first: Schema, second: Schema) -> Schema:
    """Return a schema that admits what either one admits, and as little else as possible."""
    if first == second:
        return first
    if "enum" in first and "enum" in second and first.get("type") == second.get("type"):
        return {**first, "enum": list(dict.fromkeys([*first["enum"], *second["enum"]]))}
    if first.get("type") == second.get("type") == "object":
        is_open = [side for side in (first, second) if "properties" not in side]
        return is_open[0] if is_open else _either_object(first, second)
    if first.get("type") == second.get("type") == "array":
        return _either_list(first, second)
    return {"anyOf": _flat(first, second)}


def _either_object(first: Schema, second: Schema) -> Schema:
    first_members, second_members = first["properties"], second["properties"]
    members = {
        name: _either(
            first_members.get(name, second_members.get(name)), second_members.get(name, first_members.get(name))
        )
        for name in dict.fromkeys([*first_members, *second_members])
    }
    return {"type": "object", "properties": members, "required": list(members), "additionalProperties": False}


def _either_list(first: Schema, second: Schema) -> Schema:
    empty = [side for side in (first, second) if side.get("maxItems") == 0]
    items = (
        second["items"] if empty == [first] else first["items"] if empty else _either(first["items"], second["items"])
    )
    result: Schema = {"type": "array", "items": items}
    if least := min(first.get("minItems", 0), second.get("minItems", 0)):
        result["minItems"] = least
    if "maxItems" in first and "maxItems" in second:
        result["maxItems"] = max(first["maxItems"], second["maxItems"])
    return result


def _flat(first: Schema, second: Schema) -> list[Schema]:
    """Return the alternatives of both schemas; objects among them are joined into one."""
    alternatives = [alternative for schema in (first, second) for alternative in schema.get("anyOf", [schema])]
    joined = _join({"anyOf": _distinct(iter(alternatives))})
    result: list[Schema] = joined.get("anyOf", [joined])
    return result


def _without_longest_list(schema: Schema) -> Schema:
    """Allow any text instead of the longest list of values in a schema."""
    longest = max(_lists(schema), key=lambda values: sum(len(str(value)) + 1 for value in values), default=None)

    def open_list(member: Schema) -> Schema:
        if longest is None or member.get("enum") != longest:
            return member
        return {**{word: inner for word, inner in member.items() if word != "enum"}, "type": "string"}

    return _rewrite(schema, open_list)


def _lists(schema: Schema) -> Iterator[list[Any]]:
    if "enum" in schema:
        yield schema["enum"]
    inside = (*schema.get("properties", {}).values(), *schema.get("anyOf", ()))
    for inner in (*inside, *filter(None, [schema.get("items")])):
        yield from _lists(inner)
