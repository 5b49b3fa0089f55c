"""Check the JSON Schema of an action's parameters, and values against it.

Both may come from third parties: nothing here accesses the network, and the cost of a check is bounded. Errors are
worded as for all external data.
"""

import re
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Annotated, Any, Final

import orjson
from jsonschema import Draft202012Validator, SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend
from jsonschema_specifications import REGISTRY
from pydantic import JsonValue, StringConstraints, TypeAdapter
from pydantic import ValidationError as PydanticError
from pydantic_core import SchemaError as PatternError
from referencing import Registry

from poweron_events.catalog import ActionSpec
from poweron_events.codec import dumps
from poweron_events.errors import Refused
from poweron_events.json_schema import JsonSchema, UnusableSchema, count_values
from poweron_events.validation_messages import MAX_PROBLEMS, MAX_REASON, named, worded

MAX_LENGTH: Final = 1_000  # characters of a pattern


WIDE: Final = 4  # atoms, for an item that matches many characters, such as `\w`, `.` or `[^a]`


ENDLESS: Final = 1_000_000


_TOKEN: Final = re.compile(
    r"""(?P<opens>\((?:\?(?P<flags>[A-Za-z-]*):?|\?P?<\w+>)?)|(?P<closes>\))
    |\[(?P<class>(?:\\.|[^\]\\])+)\]|(?P<wide>\\[pP]\{[^}]*\}|\\[wWdDsS]|\.)
    |\{(?P<least>\d{1,6})(?:,(?P<most>\d{1,6})?)?\}|(?P<free>[*+?^$|])|(?P<atom>\\.|.)""",
    re.VERBOSE | re.DOTALL,
)


_INNER_CLASS: Final = re.compile(r"^\^$|(?<!\\)\[")


NOTHING: Final[Mapping[str, JsonValue]] = {}


MAX_COST: Final = 1_000_000  # values in the schema times values that are checked


MAX_REMEMBERED: Final = 4_000  # bytes of values whose check is cached


MAX_PATTERN_COST: Final = 2_000  # all patterns of a schema together: one second for the longest text


class Unfit(Refused):
    """The parameters do not fit the action; the sentence says where and why."""

    code = "parameter_invalid"


def check_description(spec: ActionSpec) -> None:
    """Refuse a schema that is invalid, or that no value can be checked against within reasonable time.

    Raises:
        UnusableSchema: says what is wrong with it.
    """
    patterns = list(_patterns(spec.parameters))
    if sum(map(pattern_cost, patterns)) > MAX_PATTERN_COST:
        raise UnusableSchema(f"The patterns in the schema of {spec.name} take too long to check.")
    try:
        _check_schema(spec.parameters)
    except SchemaError as error:
        raise _unusable(spec, "".join(error.message.splitlines()[:1])[:200].rstrip(".")) from error
    for pattern in patterns:
        try:
            _matcher(pattern)
        except PatternError as error:
            raise _unusable(spec, f"the pattern {pattern[:200]!r} cannot be used") from error


def _unusable(spec: ActionSpec, reason: str) -> UnusableSchema:
    return UnusableSchema(f"The parameters of {spec.name} are described by no usable schema: {reason}.")


def _check_schema(schema: JsonSchema) -> None:
    """Check the schema except its formats: patterns in another dialect than Python's are not an error."""
    for error in islice(_schema_checker().iter_errors(schema), 1):
        raise SchemaError.create_from(error)


@lru_cache(maxsize=1)
def _schema_checker() -> Validator:
    """Return a checker for schemas, which uses the metaschema of draft 2020-12 merged into one.

    The metaschema consists of seven schemas that refer to each other by `$dynamicRef`, which takes seven times as long
    for each tool.
    """
    meta = Draft202012Validator.META_SCHEMA
    parts = [REGISTRY.contents(f"{meta['$id'].rpartition('/')[0]}/{part['$ref']}") for part in meta["allOf"]]
    metaschema = {
        "type": meta["type"],
        "properties": ChainMap(*({**part.get("properties", {})} for part in (meta, *parts))),
        "$defs": ChainMap(*({**part.get("$defs", {})} for part in parts)),
    }
    return Draft202012Validator(_itself(metaschema), registry=Registry())


def _itself(schema: Any) -> Any:
    """A part of the metaschema, with each dynamic reference replaced by a reference to the whole."""
    if schema == {"$dynamicRef": "#meta"}:
        return {"$ref": "#"}
    if isinstance(schema, Mapping):
        return {name: _itself(member) for name, member in schema.items()}
    return [_itself(item) for item in schema] if isinstance(schema, list) else schema


def check_values(
    values: Mapping[str, JsonValue], spec: ActionSpec, *, defaults: Mapping[str, JsonValue] = NOTHING
) -> dict[str, JsonValue]:
    """Return the values and the defaults for missing ones, as they are after being written as JSON and read back.

    Args:
        values: the parameters that are given.
        spec: the action.
        defaults: values for missing parameters, which override the schema's own; one that does not fit is left out.

    Raises:
        Unfit: the values do not fit the schema.
    """
    compiled = _compile(spec)
    missing = {name: value for name, value in defaults.items() if name not in values}
    try:
        content = dumps({**compiled.defaults, **_fitting(missing, spec), **values})
        result: dict[str, JsonValue] = orjson.loads(content)
    except (TypeError, ValueError, RecursionError) as error:
        raise Unfit(f"The parameters of {spec.name} are no JSON that can be kept: {error}.") from error
    (_check_remembered if len(content) <= MAX_REMEMBERED else _check)(spec, content)
    return result


def _check(spec: ActionSpec, content: bytes) -> None:
    """Refuse values that do not fit the schema."""
    compiled, values = _compile(spec), orjson.loads(content)
    if count_values(values) * compiled.value_count > MAX_COST:
        raise Unfit(f"The parameters of {spec.name} have more values than can be checked.")
    if _fits(spec, values):
        return
    errors = compiled.checker.iter_errors(values)
    if messages := list(islice((message for error in errors for message in problems(error)), MAX_PROBLEMS)):
        raise Unfit(f"The parameters do not fit {spec.name}: {'; '.join(dict.fromkeys(messages))[:MAX_REASON]}.")


def _fits(spec: ActionSpec, values: Mapping[str, JsonValue]) -> bool:
    """Return whether the values fit: each by the checker of its parameter, and their names by that of the rest.

    A check of all values at once makes a new checker for each of them.
    """
    known = (name for name in values if name in spec.properties)
    return _compile(spec).names_checker.is_valid(values) and all(
        _checker_of(spec, name).is_valid(values[name]) for name in known
    )


_check_remembered = lru_cache(maxsize=256)(_check)
"""Values that fit are checked when the parameters are set, and not again before the action runs."""


@dataclass(frozen=True, slots=True)
class _Compiled:
    """The parts of a schema that every check of an action's parameters needs."""

    checker: Validator
    names_checker: Validator
    """Checks everything except the value of each parameter by itself."""
    value_count: int
    defaults: Mapping[str, JsonValue]  # the schema's own, as far as they fit


@lru_cache(maxsize=256)
def _compile(spec: ActionSpec) -> _Compiled:
    schemas = {name: schema for name, schema in spec.properties.items() if isinstance(schema, dict)}
    defaults = {name: schema["default"] for name, schema in schemas.items() if "default" in schema}
    any_values = {**spec.parameters, "properties": dict.fromkeys(spec.properties, True)}
    value_count = count_values(dict(spec.parameters))
    return _Compiled(_checker(spec.parameters), _checker(any_values), value_count, _fitting(defaults, spec))


def _fitting(defaults: Mapping[str, JsonValue], spec: ActionSpec) -> dict[str, JsonValue]:
    """The defaults that fit the parameter they are meant for."""
    return {
        name: value
        for name, value in defaults.items()
        if name in spec.properties and _checker_of(spec, name).is_valid(value)
    }


@lru_cache(maxsize=1_024)
def _checker_of(spec: ActionSpec, parameter: str) -> Validator:
    return _checker(spec.properties[parameter])


def _patterns(schema: Any) -> Iterator[str]:
    """Yield every pattern of the schema, including text in a default or an enum that only looks like one."""
    if isinstance(schema, dict):
        if isinstance(pattern := schema.get("pattern"), str):
            yield pattern
        inside: Iterable[Any] = schema.values()
    else:
        inside = schema if isinstance(schema, list) else ()
    for inner in inside:
        yield from _patterns(inner)


@lru_cache(maxsize=256)
def _matcher(pattern: str) -> TypeAdapter[str]:
    """Return a matcher whose time grows only with the text, since its engine never backtracks."""
    return TypeAdapter(Annotated[str, StringConstraints(pattern=pattern)])


def _pattern(_: Validator, pattern: str, instance: Any, __: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str):
        try:
            _matcher(pattern).validate_python(instance)
        except PydanticError:
            yield ValidationError("the text does not match the pattern")


def _unique_items(_: Validator, unique: bool, instance: Any, __: Any) -> Iterator[ValidationError]:
    if unique and isinstance(instance, list) and len(set(map(dumps, instance))) < len(instance):
        yield ValidationError("an entry comes twice")


def _type(checker: Validator, types: Any, instance: Any, schema: Any) -> Iterator[ValidationError] | None:
    """Answer at once if the schema names one type and the value has it, as nearly always."""
    fits = isinstance(types, str) and checker.is_type(instance, types)
    return None if fits else Draft202012Validator.VALIDATORS["type"](checker, types, instance, schema)


_Checker: Final[Any] = extend(  # type: ignore[no-untyped-call] # its stubs name no types
    Draft202012Validator, {"pattern": _pattern, "type": _type, "uniqueItems": _unique_items}
)


def _checker(schema: JsonSchema | bool) -> Validator:
    checker: Validator = _Checker(schema, registry=Registry())  # an empty registry, which fetches nothing
    return checker


def pattern_cost(pattern: str) -> int:
    """The number of atoms, each counted as often as it is repeated: the most that a matcher has to follow at once."""
    if len(pattern) > MAX_LENGTH:
        return ENDLESS
    totals, last = [0], 0  # the cost of each open group; that of the last item in the innermost one
    for token in _TOKEN.finditer(pattern):
        if _is_tricky(token) or (token["closes"] and len(totals) == 1):
            return ENDLESS
        if token["opens"]:
            totals.append(0)
            last = 0
        elif token["closes"]:
            last = totals.pop()
            totals[-1] += last
        elif token["least"]:
            times = max(int(token["most"] or token["least"]), 1)
            totals[-1] += last * (times - 1)
            last *= times
        elif not token["free"]:
            last = _width(token)
            totals[-1] += last
    return sum(totals)


def _width(token: re.Match[str]) -> int:
    character_class = token["class"] or ""
    return WIDE if token["wide"] or character_class.startswith("^") or "\\" in character_class else 1


def _is_tricky(token: re.Match[str]) -> bool:
    """Return whether the token would have to be parsed more closely to be counted."""
    return token["atom"] == "[" or "x" in (token["flags"] or "") or bool(_INNER_CLASS.search(token["class"] or ""))


MAX_CHOICES: Final = 20


_LIMITS: Final[Mapping[str, tuple[str, str]]] = {
    "minLength": ("string_too_short", "min_length"),
    "maxLength": ("string_too_long", "max_length"),
    "minItems": ("too_short", "min_length"),
    "maxItems": ("too_long", "max_length"),
    "minimum": ("greater_than_equal", "ge"),
    "maximum": ("less_than_equal", "le"),
}


_TYPES: Final[Mapping[str, str]] = {
    "string": "string_type",
    "integer": "int_type",
    "boolean": "bool_type",
    "array": "list_type",
    "object": "dict_type",
}


def problems(error: ValidationError) -> Iterator[str]:
    """Yield one or more sentences, each with the place but without the value."""
    place, keyword = tuple(error.absolute_path), str(error.validator)
    limit: Any = error.validator_value
    match keyword:
        case "anyOf" | "oneOf" if causes := _of_the_only_kind(error):
            for cause in causes:
                yield from problems(cause)
        case "required" if isinstance(error.instance, dict):
            yield from (_sentence((*place, name), "missing") for name in limit if name not in error.instance)
        case "additionalProperties" if limit is False and isinstance(error.instance, dict):
            known = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
            unknown = [name for name in error.instance if name not in known]
            yield from (_sentence((*place, name[:100]), "extra_forbidden") for name in unknown)
        case "type" if isinstance(error.schema, dict) and error.schema.keys() & {"enum", "const"}:
            return  # the list of allowed values says more
        case "pattern":
            yield f"{named(place)}: String should match pattern '{limit}'"
        case _:
            yield _plainly(place, keyword, limit)


def _plainly(place: Sequence[int | str], keyword: str, limit: Any) -> str:
    match keyword:
        case "enum" | "const":
            return _sentence(place, "literal_error", expected=_choice(limit if keyword == "enum" else [limit]))
        case "type" if isinstance(limit, str) and limit in _TYPES:
            return _sentence(place, _TYPES[limit])
        case "type":
            return f"{named(place)} must be {' or '.join(limit) if isinstance(limit, list) else f'a {limit}'}"
        case _ if keyword in _LIMITS:
            problem, name = _LIMITS[keyword]
            return _sentence(place, problem, **{name: limit})
        case "None":
            return f"{named(place)} holds what must not be there"
    return f"{named(place)} does not keep the rule {keyword!r} of its schema"


def _of_the_only_kind(error: ValidationError) -> list[ValidationError]:
    """The errors of the only alternative that is not null; empty if there are several."""
    alternatives: Any = error.validator_value
    kinds = [number for number, kind in enumerate(alternatives) if kind != {"type": "null"}]
    if len(kinds) != 1:
        return []
    return [cause for cause in error.context or () if list(cause.relative_schema_path)[:1] == kinds]


def _sentence(place: Sequence[int | str], problem: str, **limits: Any) -> str:
    return worded(place, problem, limits) or f"{named(place)} is wrong"


def _choice(allowed: Sequence[Any]) -> str:
    """Join the values as `'a', 'b' or 'c'`."""
    texts = [f"'{word}'" if isinstance(word, str) else dumps(word).decode() for word in allowed if word is not None]
    if len(texts) > MAX_CHOICES:
        texts = [*texts[:MAX_CHOICES], f"one of {len(texts) - MAX_CHOICES} more"]
    return " or ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)
