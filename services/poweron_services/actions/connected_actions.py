"""Actions that work on a connection: offered only if such a connection is configured, and only for its labels."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from poweron_events.catalog import ActionSpec
from poweron_services.action_connections import ActionConnections
from poweron_services.actions.action import Action, Done, Order
from poweron_services.decider.validation import CONNECTION, CONNECTION_KIND


@dataclass(frozen=True, slots=True)
class ConnectedAction:
    """An action whose schema lists the connections that it accepts."""

    action: Action
    labels: tuple[str, ...]

    @property
    def spec(self) -> ActionSpec:
        return _naming(self.action.spec, self.labels)

    async def __call__(self, order: Order) -> Done:
        return await self.action(order)


def offered(actions: Mapping[str, Action], connections: ActionConnections) -> dict[str, Action]:
    """Return the actions to offer; those that need a connection only if one of their kind is configured."""
    return {name: each for name, action in actions.items() if (each := _offered(action, connections)) is not None}


def _offered(action: Action, connections: ActionConnections) -> Action | None:
    spec = action.spec
    if CONNECTION not in spec.parameter_names:
        return action
    described = spec.properties[CONNECTION]
    labels = connections.labels(described.get(CONNECTION_KIND) if isinstance(described, dict) else None)
    if not labels and CONNECTION in spec.required:
        return None
    return ConnectedAction(action, labels)


def _naming(spec: ActionSpec, labels: tuple[str, ...]) -> ActionSpec:
    described: dict[str, Any] = {CONNECTION: {"type": "string", "enum": list(labels)}} if labels else {}
    others = {name: each for name, each in spec.properties.items() if name != CONNECTION}
    return replace(spec, parameters={**spec.parameters, "properties": {**others, **described}})
