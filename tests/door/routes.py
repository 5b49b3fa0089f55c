"""The routes of a door: their paths, methods and parameters, and what is called before each."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from fastapi.routing import _IncludedRouter

from poweron_services.door.application import build
from poweron_services.door.door_state import DoorState
from poweron_services.settings.config import Settings


class Route(NamedTuple):
    """A path with its methods and parameters, and the dependencies that are called before it."""

    path: str
    methods: frozenset[str]
    calls: list[Any]
    path_parameters: list[str]
    query_parameters: list[str]


def _routes() -> Iterator[Route]:
    app: Any = build(DoorState(Settings(), frozenset(), is_local=False))
    while not hasattr(app, "routes"):
        app = app._app
    for route in app.routes:
        for each in route.effective_route_contexts() if isinstance(route, _IncludedRouter) else [route]:
            dependant = getattr(each, "dependant", None)
            called = [*_calls(dependant)] if dependant else []
            path, query = (
                ([field.alias for field in fields] for fields in (dependant.path_params, dependant.query_params))
                if dependant
                else ([], [])
            )
            yield Route(each.path, frozenset(getattr(each, "methods", None) or ()), called, path, query)


def _calls(dependant: Any) -> Iterator[Any]:
    for dependency in dependant.dependencies:
        yield dependency.call
        yield from _calls(dependency)


ROUTES = list(_routes())
