"""The registry: the actions that this release can run, one line each."""

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from poweron_events.catalog import CATALOG, ActionSpec
from poweron_events.errors import Refused
from poweron_services.actions.action import Action, Done, Order, Resources
from poweron_services.actions.action_plugins import others
from poweron_services.actions.ai_process import AiProcess
from poweron_services.actions.document_extract import DocumentExtract
from poweron_services.actions.document_generate_report import DocumentGenerateReport
from poweron_services.actions.web_crawl import WebCrawl
from poweron_services.actions.web_scrape import WebScrape
from poweron_services.actions.web_search import WebSearch
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
"""Provides every action by its name while the context is open; what they opened is closed when it exits."""


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
