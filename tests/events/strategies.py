"""Hypothesis strategies for everything on the wire, made from the models themselves."""

import base64
import types
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types as bounds
from hypothesis import strategies as st
from pydantic import BaseModel, EncodedBytes, JsonValue
from pydantic.fields import FieldInfo

from poweron_events.stream import REQUESTS, WORKFLOW_EVENTS

TEXT = 12  # characters at most: long texts have tests of their own
LIST = 2

numbers = st.one_of(st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False, allow_infinity=False))
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, st.text(max_size=TEXT)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=LIST), st.dictionaries(st.text(max_size=TEXT), inner, max_size=LIST)
    ),
    max_leaves=5,
)
json_objects = st.dictionaries(st.text(max_size=TEXT), json_values, max_size=LIST)


@cache
def models(model: type[BaseModel]) -> st.SearchStrategy[Any]:
    """Any value of a model."""
    fields = model.model_fields
    required = {name: values(field.annotation, field.metadata) for name, field in fields.items() if field.is_required()}
    optional = {
        name: values(field.annotation, field.metadata) for name, field in fields.items() if not field.is_required()
    }
    return st.fixed_dictionaries(required, optional=optional).map(lambda given: model(**given))


def values(annotation: Any, metadata: list[Any]) -> st.SearchStrategy[Any]:  # noqa: PLR0911 - one case per type
    if annotation is JsonValue:
        return json_values
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        inner = [one for each in arguments[1:] for one in (each.metadata if isinstance(each, FieldInfo) else [each])]
        return values(arguments[0], [*inner, *metadata])
    if origin in (Union, types.UnionType):
        return st.one_of([values(each, metadata) for each in arguments])
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is tuple:
        least, most = _lengths(metadata, LIST)
        return st.lists(values(arguments[0], []), min_size=least, max_size=most).map(tuple)
    if origin is dict:
        return st.dictionaries(values(arguments[0], []), values(arguments[1], []), max_size=LIST)
    return _plain(annotation, metadata)


def _plain(annotation: Any, metadata: list[Any]) -> st.SearchStrategy[Any]:
    if annotation is type(None):
        return st.none()
    if annotation is bool:
        return st.booleans()
    if annotation is int:
        least = max(each.ge for each in metadata if isinstance(each, bounds.Ge))
        most = min(each.le for each in metadata if isinstance(each, bounds.Le))
        return st.integers(least, most)
    if annotation is bytes and any(isinstance(each, EncodedBytes) for each in metadata):
        return st.binary(max_size=TEXT).map(base64.b64encode)
    if annotation is str:
        return _texts(metadata)
    assert issubclass(annotation, BaseModel), annotation
    return models(annotation)


def _texts(metadata: list[Any]) -> st.SearchStrategy[str]:
    least, most = _lengths(metadata, 100)
    patterns = [each.pattern for each in metadata if getattr(each, "pattern", None)]
    if not patterns:
        return st.text(min_size=least, max_size=max(least, min(most, TEXT)))
    (pattern,) = patterns
    if pattern == r"\S":
        return st.text(max_size=TEXT).map(lambda text: f"{text}?")
    return st.from_regex(pattern, fullmatch=True).filter(lambda text: least <= len(text) <= most)


def _lengths(metadata: list[Any], most: int) -> tuple[int, int]:
    least = max((each.min_length for each in metadata if isinstance(each, bounds.MinLen)), default=0)
    limit = min((each.max_length for each in metadata if isinstance(each, bounds.MaxLen)), default=most)
    return least, max(least, min(limit, most))


workflow_events = st.one_of([models(event) for event in WORKFLOW_EVENTS.values()])
requests = st.one_of([models(event) for event in REQUESTS.values()])
