"""Messages that tell the sender of invalid data what to change, whether a person, a program or a model."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from poweron_events.event import ACTION_PATTERN, SHA256_PATTERN
from poweron_events.policy import PATTERNS_IN_WORDS

MAX_REASON = 2_000  # characters
MAX_PROBLEMS = 5  # reported for one error

Said = Callable[[Mapping[str, Any]], str]
"""Says what is wrong with a field, given the field's limits."""

_WORDS_OF_PATTERNS: Final[Mapping[str, str]] = {
    **PATTERNS_IN_WORDS,
    ACTION_PATTERN: "must be an action (`web.search`), a method (`web` or `web.*`) or `*` for every action",
    SHA256_PATTERN: "must be a SHA-256, as 64 digits from 0 to 9 and a to f",
    r"\S": "must not consist of spaces alone",
}


def problem_in_words(problem: ErrorDetails) -> str:
    """Describe one problem of a validation error, and where it is."""
    place = problem["loc"]
    return worded(place, problem["type"], problem.get("ctx", {})) or f"{named(place)}: {problem['msg']}"


def explain(error: ValidationError | RecursionError, describe: Callable[[ErrorDetails], str] = problem_in_words) -> str:
    """Describe a validation error in one sentence that a sender can act on."""
    if isinstance(error, RecursionError):
        return "the data is nested too deeply"
    problems = _without_consequences(error.errors(include_url=False, include_input=False))[:MAX_PROBLEMS]
    return "; ".join(map(describe, problems))[:MAX_REASON]


def _without_consequences(problems: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """Leave out that a list is too short if entries of it are wrong: pydantic does not count those."""
    wrong = {problem["loc"][:length] for problem in problems for length in range(len(problem["loc"]))}
    return [problem for problem in problems if problem["type"] != "too_short" or problem["loc"] not in wrong]


def named(place: Sequence[int | str]) -> str:
    """Return where in the data something is wrong."""
    return ".".join(map(str, place)) or "data"


def worded(place: Sequence[int | str], problem: str, limits: Mapping[str, Any]) -> str | None:
    """Describe the problem in plain words; None if there are no words for it."""
    plainly = _PLAINLY.get(problem)
    words = plainly and plainly(limits)
    return f"{named(place)} {words}" if words else None


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _entries(count: int) -> str:
    return _counted(count, "entry", "entries")


def _characters(count: int) -> str:
    return _counted(count, "character", "characters")


def _says(words: str) -> Said:
    return lambda _: words


_PLAINLY: Final[Mapping[str, Said]] = {
    "missing": _says("is missing"),
    "string_pattern_mismatch": lambda limits: _WORDS_OF_PATTERNS.get(limits["pattern"], ""),
    "extra_forbidden": _says("is not a known field"),
    "string_unicode": _says("must be a text in UTF-8, which some of its bytes are not"),
    "string_type": _says("must be a text"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), _says("must be a whole number")),
    **dict.fromkeys(("float_type", "float_parsing"), _says("must be a number")),
    **dict.fromkeys(("bool_type", "bool_parsing"), _says("must be true or false")),
    **dict.fromkeys(("list_type", "tuple_type"), _says("must be a list")),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), _says("must be an object")),
    "literal_error": lambda limits: f"must be {limits['expected']}",
    "too_short": lambda limits: f"must have at least {_entries(limits['min_length'])}",
    "too_long": lambda limits: f"must have at most {_entries(limits['max_length'])}",
    "string_too_short": lambda limits: f"must have at least {_characters(limits['min_length'])}",
    "string_too_long": lambda limits: f"must have at most {_characters(limits['max_length'])}",
    "greater_than_equal": lambda limits: f"must be at least {limits['ge']}",
    "less_than_equal": lambda limits: f"must be at most {limits['le']}",
}
