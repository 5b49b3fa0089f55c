"""The schema of a workflow's state, from the types of the fold."""

from collections.abc import Mapping
from functools import reduce
from operator import or_
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model
from pydantic.alias_generators import to_camel

from poweron_events.fold.state import Workflow

_models = dict[type, type[BaseModel]]()


def _schema_of(kind: Any) -> Any:
    """Return the type that `state_json.as_json` makes of a value of this type."""
    origin, parts = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and hasattr(kind, "_fields"):
        return _model_of(kind)
    if origin in (tuple, frozenset, set):
        return list[_schema_of(parts[0])]  # type: ignore[misc] # made at run time
    if origin in (Union, UnionType):
        return reduce(or_, map(_schema_of, parts))
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return dict[str, _schema_of(parts[1])]  # type: ignore[misc] # made at run time
    return kind


def _model_of(kind: Any) -> type[BaseModel]:
    if kind not in _models:
        fields: Any = {
            name.rstrip("_"): (_schema_of(hint), ...)
            for name, hint in get_type_hints(kind, include_extras=True).items()
        }
        config = ConfigDict(alias_generator=to_camel, extra="forbid")
        _models[kind] = create_model(f"{kind.__name__}State", __config__=config, __doc__=kind.__doc__, **fields)
    return _models[kind]


WorkflowState: Final = _model_of(Workflow)
"""The state of a workflow as JSON."""
