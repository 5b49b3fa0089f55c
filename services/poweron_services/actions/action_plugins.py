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


def others(ours: Collection[str], given: Resources) -> dict[str, Action]:
    """Return the third-party actions by name: those of packages, then the tools of servers."""
    found: dict[str, Action] = {}
    for source, opening in (*_of_packages(given), *_of_servers(given)):
        try:
            for action in opening():
                _add(action, found, ours)
        except (KeyboardInterrupt, CancelledError):
            raise
        except BaseException as error:  # noqa: BLE001 - third-party code may even call `sys.exit()`, and ours must work
            said = str(error) if isinstance(error, PowerOnError) else f"{type(error).__name__}: {error}"
            log.warning("action_left_out", source=source, error=said)
    return found


def _add(action: Action, found: dict[str, Action], ours: Collection[str]) -> None:
    name = action.spec.name
    method = name.partition(".")[0]
    if method in {each.partition(".")[0] for each in ours}:
        raise Refused(f"{name!r} would be one of PowerOn's own actions; give it another method than {method!r}.")
    if name in found:
        raise Refused(f"There is another action of the name {name!r}.")
    check_description(action.spec)
    if not callable(action):
        raise Refused(f"The action {name!r} cannot be called.")
    found[name] = action


def _of_packages(given: Resources) -> Iterator[tuple[str, Callable[[], Iterable[Action]]]]:
    for point in sorted(entry_points(group=GROUP), key=lambda each: (each.name, each.value)):
        package = point.dist.name if point.dist else "an unknown package"
        yield f"{point.name} of {package}", partial(_loaded, point, given)


def _loaded(point: EntryPoint, given: Resources) -> Iterable[Action]:
    """Return the actions of an entry point, which names an action or makes one or several from the resources."""
    named: Any = point.load()
    made = named if _is_action(named) else named(given)
    return (made,) if _is_action(made) else tuple(made)


def _is_action(named: Any) -> bool:
    return not isinstance(named, type) and hasattr(named, "spec")


def _of_servers(given: Resources) -> Iterator[tuple[str, Callable[[], Iterable[Action]]]]:
    for tool in given.tools:
        yield f"{tool.description.name} of {tool.server.entry.name}", partial(_made, tool)


def _made(tool: ApprovedTool) -> tuple[Action]:
    return (ServerTool.of(tool),)
