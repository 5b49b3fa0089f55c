"""Third-party actions: of installed packages, by their entry points in the group `poweron.actions`, and of servers.

An action that cannot be used is logged and left out; the others work.
"""

from asyncio import CancelledError
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

import structlog

from poweron_events.errors import PowerOnError, Refused
from poweron_services.actions.action import Action, Resources
from poweron_services.actions.server_tool import ServerTool
from poweron_services.connectors.mcp.tool_catalog import ApprovedTool
from poweron_services.decider.schema_check import check_description

log = structlog.get_logger()

GROUP: Final = "poweron.actions"


def others(own_names: Collection[str], resources: Resources) -> dict[str, Action]:
    """Return the third-party actions by name: those of packages, then the tools of servers."""
    actions: dict[str, Action] = {}
    for source, opening in (*_of_packages(resources), *_of_servers(resources)):
        try:
            for action in opening():
                _add(action, actions, own_names)
        except (KeyboardInterrupt, CancelledError):
            raise
        except BaseException as error:  # noqa: BLE001 - third-party code may even call `sys.exit()`, and ours must work
            message = str(error) if isinstance(error, PowerOnError) else f"{type(error).__name__}: {error}"
            log.warning("action_left_out", source=source, error=message)
    return actions


def _add(action: Action, actions: dict[str, Action], own_names: Collection[str]) -> None:
    name = action.spec.name
    method = name.partition(".")[0]
    if method in {own_name.partition(".")[0] for own_name in own_names}:
        raise Refused(f"{name!r} would be one of PowerOn's own actions; give it another method than {method!r}.")
    if name in actions:
        raise Refused(f"There is another action of the name {name!r}.")
    check_description(action.spec)
    if not callable(action):
        raise Refused(f"The action {name!r} cannot be called.")
    actions[name] = action


def _of_packages(resources: Resources) -> Iterator[tuple[str, Callable[[], Iterable[Action]]]]:
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        package = point.dist.name if point.dist else "an unknown package"
        yield f"{point.name} of {package}", partial(_load, point, resources)


def _load(point: EntryPoint, resources: Resources) -> Iterable[Action]:
    """Return the actions of an entry point, which names an action or makes one or several from the resources."""
    target: Any = point.load()
    result = target if _is_action(target) else target(resources)
    return (result,) if _is_action(result) else tuple(result)


def _is_action(candidate: Any) -> bool:
    return not isinstance(candidate, type) and hasattr(candidate, "spec")


def _of_servers(resources: Resources) -> Iterator[tuple[str, Callable[[], Iterable[Action]]]]:
    for tool in resources.tools:
        yield f"{tool.description.name} of {tool.server.entry.name}", partial(_tool_action, tool)


def _tool_action(tool: ApprovedTool) -> tuple[Action]:
    return (ServerTool.of(tool),)
