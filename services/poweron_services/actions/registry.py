"""The registry: the actions that this release can run, one line each, and those of third parties.

Third parties are installed packages, with entry points in the group `poweron.actions`, and servers of tools. An action
that cannot be used is logged and left out; the others work.
"""

from asyncio import CancelledError
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, TypeAlias

import structlog

from poweron_events.catalog import CATALOG, ActionSpec
from poweron_events.errors import PowerOnError, Refused
from poweron_services.actions.action import Action, Done, Order, Resources
from poweron_services.actions.ai_process import AiProcess
from poweron_services.actions.document_extract import DocumentExtract
from poweron_services.actions.document_generate_report import DocumentGenerateReport
from poweron_services.actions.server_tool import ServerTool
from poweron_services.actions.web_actions import WebCrawl, WebScrape, WebSearch
from poweron_services.connectors.mcp.tool_catalog import ApprovedTool
from poweron_services.decider.schema_check import check_description
from poweron_services.decider.validation import CONNECTION, CONNECTION_KIND
from poweron_services.settings.action_connections import ActionConnections


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


OpenActions: TypeAlias = Callable[[Resources], AbstractAsyncContextManager[Mapping[str, Action]]]
"""Provides every action by its name while the context is open; when it exits, it closes what the actions opened."""


@asynccontextmanager
async def actions(resources: Resources) -> AsyncGenerator[Mapping[str, Action], None]:
    """Provide our own and third-party actions. One of ours that opens something does it here, around the `yield`."""
    own_actions = by_name(
        AiProcess(resources.read_document, resources.window),
        DocumentExtract(resources.read_document, resources.window),
        DocumentGenerateReport(resources.read_document, resources.render_report),
        *_of_the_web(resources),
    )
    yield {**own_actions, **others({**CATALOG, **own_actions}, resources)}


def _of_the_web(resources: Resources) -> Iterator[Action]:
    """Yield the web actions for which there is a search engine, or a way to read pages."""
    if resources.searches:
        yield WebSearch()
    if resources.open_pages is not None:
        if resources.searches:
            yield WebScrape(resources.open_pages, resources.enrich)
        yield WebCrawl(resources.read_document, resources.open_pages, resources.enrich)


def only(*known: Action) -> OpenActions:
    """Provide just these actions, which open nothing that must be closed."""

    @asynccontextmanager
    async def opened(_: Resources) -> AsyncGenerator[Mapping[str, Action], None]:
        yield by_name(*known)

    return opened


def by_name(*known: Action) -> Mapping[str, Action]:
    """Map names to actions.

    Raises:
        Refused: two have the same name, or the parameters of one have no usable schema.
    """
    result: dict[str, Action] = {}
    for action in known:
        if action.spec.name in result:
            raise Refused(f"There are two actions of the name {action.spec.name!r}.")
        check_description(action.spec)
        result[action.spec.name] = action
    return result


def offered(actions: Mapping[str, Action], connections: ActionConnections) -> dict[str, Action]:
    """Return the actions to offer; those that need a connection only if one of their kind is configured."""
    return {name: offer for name, action in actions.items() if (offer := _offer(action, connections)) is not None}


def _offer(action: Action, connections: ActionConnections) -> Action | None:
    spec = action.spec
    if CONNECTION not in spec.parameter_names:
        return action
    schema = spec.properties[CONNECTION]
    labels = connections.labels(schema.get(CONNECTION_KIND) if isinstance(schema, dict) else None)
    if not labels and CONNECTION in spec.required:
        return None
    return ConnectedAction(action, labels)


def _naming(spec: ActionSpec, labels: tuple[str, ...]) -> ActionSpec:
    connection: dict[str, Any] = {CONNECTION: {"type": "string", "enum": list(labels)}} if labels else {}
    others = {name: schema for name, schema in spec.properties.items() if name != CONNECTION}
    return replace(spec, parameters={**spec.parameters, "properties": {**others, **connection}})


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
