"""Messages about invalid settings: what was given, what is allowed, and what to do."""

from typing import Any, Final, get_args

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from poweron_services.settings.config import PREFIX, Settings

_NUMBERS: Final = {
    "int_parsing",
    "int_parsing_size",
    "float_parsing",
    "greater_than",
    "greater_than_equal",
    "less_than_equal",
}


def explain_settings(error: ValidationError) -> str:
    """Explain what is wrong with settings, under the names that they have in the environment."""
    return "; ".join(map(_explain, error.errors(include_url=False)))


def number_range(least: float | None, most: float | None, *, above: float | None = None) -> str:
    """Describe the range of a number, with all digits of its bounds."""
    if above is not None:
        return f"of more than {above:,}" + ("" if most is None else f" and at most {most:,}")
    if most is None:
        return f"of at least {least:,}"
    return f"of at most {most:,}" if least is None else f"from {least:,} to {most:,}"


def _explain(problem: ErrorDetails) -> str:
    """Explain one problem; secrets never appear, since any text is valid for them."""
    place = "_".join(map(str, problem["loc"]))
    variable = place if place.isupper() else f"{PREFIX}{place.upper()}"
    if problem["type"] == "value_error":
        return f"{variable}: {str(problem['ctx']['error']).removesuffix('.')}"  # our own message says all three
    field = Settings.model_fields.get(place)
    if field is None:
        return f"{variable}: {problem['msg']}"
    return f"{variable}: {problem['input']!r} is {_wanted(problem, field)}, or leave it unset{_default(field)}"


def _wanted(problem: ErrorDetails, field: FieldInfo) -> str:
    if problem["type"] == "literal_error":
        return f"not one of {problem['ctx']['expected'].replace(' or ', ', ')}; set it to one of them"
    if problem["type"] == "bool_parsing":
        return "neither true nor false; set it to one of them"
    if problem["type"] in _NUMBERS:
        kind = "number" if float in {field.annotation, *get_args(field.annotation)} else "whole number"
        bounds = number_range(_bound(field, "ge"), _bound(field, "le"), above=_bound(field, "gt"))
        return f"not a {kind} {bounds}; set it to such a number"
    return f"not as it should be ({problem['msg']}); docs/settings.md lists the possible values"


def _bound(field: FieldInfo, name: str) -> Any:
    return next((getattr(each, name) for each in field.metadata if hasattr(each, name)), None)


def _default(field: FieldInfo) -> str:
    """Return the default value as the end of a sentence; empty if there is none."""
    if field.default is None:
        return ""
    return f" for {str(field.default).lower() if isinstance(field.default, bool) else repr(field.default)}"
