"""Error messages for values that do not fit a JSON Schema, in the wording used for all external data."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from jsonschema import ValidationError

from poweron_events.codec import dumps
from poweron_events.validation_messages import named, worded

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
