"""The state of a workflow as JSON: its fields by their names on the wire, as events have them."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.alias_generators import to_camel


def as_json(state: Any) -> Any:
    """Return a state, or a part of one, as values of JSON; the members of a set are sorted."""
    match state:
        case BaseModel():
            return state.model_dump(mode="json", by_alias=True)
        case tuple() if hasattr(state, "_fields"):
            pairs = zip(state._fields, state, strict=True)
            return {to_camel(name.rstrip("_")): as_json(value) for name, value in pairs}
        case Mapping():
            return {str(key): as_json(value) for key, value in state.items()}
        case set() | frozenset():
            return sorted(map(as_json, state))
        case tuple() | list():
            return [as_json(value) for value in state]
        case _:
            return state
