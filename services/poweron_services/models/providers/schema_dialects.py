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
    sent = _in_words(_rooted(schema), dialect)
    if _too_large(sent, dialect):
        sent = _rooted_again(_joined_alternatives(sent))
    while (most := _size(sent).values) > dialect.most_values or _size(sent).characters > dialect.most_characters:
        sent = _without_longest_list(sent)
        if _size(sent).values == most:
            break
    return Told(sent, _is_closed(sent) and not _too_large(sent, dialect))


def _rooted(schema: Mapping[str, Any]) -> Schema:
    """Wrap alternatives at the top level, so that the schema is that of one object."""
    if "anyOf" not in schema:
        return dict(schema)
    return {"type": "object", "properties": {ANSWER: schema}, "required": [ANSWER], "additionalProperties": False}


def _rooted_again(schema: Schema) -> Schema:
    """Remove the wrapper around alternatives that were joined."""
    inner: Schema = schema["properties"].get(ANSWER, schema)
    return inner if inner.get("type") == "object" else schema


# --- words -----------------------------------------------------------------------------------------------


def _in_words(schema: Any, dialect: Dialect) -> Schema:
    if not isinstance(schema, dict):
        return {}
    sent: Schema = {word: schema[word] for word in ("type", "enum") if word in schema}
    if "const" in schema:
        sent["enum"] = [schema["const"]]
    if (few := _few_numbers(schema)) and "minimum" not in dialect.bounds:
        sent["enum"] = few
    if all(isinstance(each, str) for each in sent.get("enum", [None])):
        sent["type"] = "string"  # strict modes require a type for each value
    if isinstance(sent.get("type"), list):
        sent = {"anyOf": [{**sent, "type": kind} for kind in sent["type"]]}
    alternatives = schema.get("anyOf", schema.get("oneOf"))
    if alternatives is not None:
        sent["anyOf"] = _distinct(_in_words(each, dialect) for each in alternatives)
    if schema.get("type") == "array":
        sent["items"] = _in_words(schema.get("items", True), dialect)
    if schema.get("type") == "object":
        sent |= _members(schema, dialect)
    return sent | _bounds(schema, dialect)


def _few_numbers(schema: Schema) -> list[int]:
    """Return the whole numbers between the bounds, if there are few."""
    least, most = schema.get("minimum"), schema.get("maximum")
    if schema.get("type") != "integer" or not (isinstance(least, int) and isinstance(most, int)):
        return []
    return list(range(least, most + 1)) if most - least < FEW else []


def _distinct(schemas: Iterator[Schema]) -> list[Schema]:
    found: list[Schema] = []
    for each in schemas:
        if each not in found:
            found.append(each)
    return found


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
        said.format(schema[word])
        for word, said in _BOUNDS.items()
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
    size.unions += sum("anyOf" in each for each in members.values())
    size.values += len(schema.get("enum", ()))
    size.characters += sum(len(each) for each in members) + sum(len(str(each)) for each in schema.get("enum", ()))
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


def _joined_alternatives(schema: Schema) -> Schema:
    """Join alternatives that are objects into one, inner schemas first."""
    return _rewritten(schema, _join)


def _rewritten(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """Change every schema within a schema, inner ones first."""
    inside = dict(schema)
    if "properties" in schema:
        inside["properties"] = {name: _rewritten(each, change) for name, each in schema["properties"].items()}
    if "anyOf" in schema:
        inside["anyOf"] = [_rewritten(each, change) for each in schema["anyOf"]]
    if "items" in schema:
        inside["items"] = _rewritten(schema["items"], change)
    return change(inside)


def _join(schema: Schema) -> Schema:
    objects = [each for each in schema.get("anyOf", ()) if each.get("type") == "object"]
    if len(objects) < 2:
        return schema
    others = [each for each in schema["anyOf"] if each not in objects]
    whole = objects[0]
    for each in objects[1:]:
        whole = _either(whole, each)
    return {**schema, "anyOf": [whole, *others]} if others else whole


def _either(one: Schema, other: Schema) -> Schema:
    """Return a schema that admits what either one admits, and as little else as possible."""
    if one == other:
        return one
    if "enum" in one and "enum" in other and one.get("type") == other.get("type"):
        return {**one, "enum": list(dict.fromkeys([*one["enum"], *other["enum"]]))}
    if one.get("type") == other.get("type") == "object":
        is_open = [each for each in (one, other) if "properties" not in each]
        return is_open[0] if is_open else _either_object(one, other)
    if one.get("type") == other.get("type") == "array":
        return _either_list(one, other)
    return {"anyOf": _flat(one, other)}


def _either_object(one: Schema, other: Schema) -> Schema:
    mine, theirs = one["properties"], other["properties"]
    members = {
        name: _either(mine.get(name, theirs.get(name)), theirs.get(name, mine.get(name)))
        for name in dict.fromkeys([*mine, *theirs])
    }
    return {"type": "object", "properties": members, "required": list(members), "additionalProperties": False}


def _either_list(one: Schema, other: Schema) -> Schema:
    empty = [each for each in (one, other) if each.get("maxItems") == 0]
    items = other["items"] if empty == [one] else one["items"] if empty else _either(one["items"], other["items"])
    joined: Schema = {"type": "array", "items": items}
    if least := min(one.get("minItems", 0), other.get("minItems", 0)):
        joined["minItems"] = least
    if "maxItems" in one and "maxItems" in other:
        joined["maxItems"] = max(one["maxItems"], other["maxItems"])
    return joined


def _flat(one: Schema, other: Schema) -> list[Schema]:
    """Return the alternatives of both schemas; objects among them are joined into one."""
    alternatives = [each for schema in (one, other) for each in schema.get("anyOf", [schema])]
    joined = _join({"anyOf": _distinct(iter(alternatives))})
    found: list[Schema] = joined.get("anyOf", [joined])
    return found


def _without_longest_list(schema: Schema) -> Schema:
    """Allow any text instead of the longest list of values in a schema."""
    longest = max(_lists(schema), key=lambda values: sum(len(str(each)) + 1 for each in values), default=None)

    def opened(each: Schema) -> Schema:
        if longest is None or each.get("enum") != longest:
            return each
        return {**{word: inner for word, inner in each.items() if word != "enum"}, "type": "string"}

    return _rewritten(schema, opened)


def _lists(schema: Schema) -> Iterator[list[Any]]:
    if "enum" in schema:
        yield schema["enum"]
    inside = (*schema.get("properties", {}).values(), *schema.get("anyOf", ()))
    for each in (*inside, *filter(None, [schema.get("items")])):
        yield from _lists(each)
