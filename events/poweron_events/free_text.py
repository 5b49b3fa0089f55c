"""The text of people and models in an event: what stays when the content of its workflow is erased."""

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

from pydantic.fields import FieldInfo

from poweron_events.codec import dumps
from poweron_events.event import FREE_TEXT, Model


class TextField(NamedTuple):
    """A field that holds text, as its place in the JSON of the event, and how much."""

    name: str
    characters: int


def text_fields(model: Model, place: str = "") -> Iterator[TextField]:
    """Yield the fields of an event that are marked as free text and are not empty, and bytes that are part of it."""
    for field, info in type(model).model_fields.items():
        value, name = getattr(model, field), f"{place}{info.alias or field}"
        if isinstance(value, bytes):
            yield TextField(name, len(value))
        elif field in _marked(type(model)):
            if characters := _characters(value):
                yield TextField(name, characters)
        elif isinstance(value, Model):
            yield from text_fields(value, f"{name}.")
        elif isinstance(value, tuple):
            for position, part in enumerate(value):
                if isinstance(part, Model):
                    yield from text_fields(part, f"{name}[{position}].")


@cache
def _marked(kind: type[Model]) -> frozenset[str]:
    """Return the names of a model's fields that are marked, or whose parts are."""
    hints = get_type_hints(kind, include_extras=True)
    return frozenset(field for field in kind.model_fields if _is_marked(hints[field]))


def _is_marked(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        kind, *marks = get_args(hint)
        return any(isinstance(mark, FieldInfo) and mark.json_schema_extra == FREE_TEXT for mark in marks) or _is_marked(
            kind
        )
    return any(map(_is_marked, get_args(hint)))


def _characters(value: Any) -> int:
    """Return how much text a marked field holds: of several texts all together, of other values that of their JSON."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, tuple):
        return sum(map(_characters, value))
    return len(dumps(value).decode()) if value else 0
