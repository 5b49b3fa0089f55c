"""The actions as a replay knows them: what they take, without any of them, and without a server of tools at work."""

import os
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from poweron_events.catalog import CATALOG, ActionSpec
from poweron_events.fold.state import Workflow
from poweron_services.action_connections import ActionConnections
from poweron_services.actions.action import Resources
from poweron_services.actions.connected_actions import offered
from poweron_services.actions.registry import actions
from poweron_services.config import Settings
from poweron_services.connectors.document_reader import DocumentReader
from poweron_services.connectors.report_renderer import ReportRenderer
from poweron_services.decider.validation import allowed_actions, plannable_actions
from poweron_services.replay.earlier_release import actions_of
from poweron_services.roles.named_addresses import ConfiguredPlaces

ShownActions = Mapping[str, tuple[str, ...]]
"""Actions as a prompt lists them: the names of their parameters by the action's name."""


@dataclass(frozen=True, slots=True)
class CatalogThen:
    """The actions that there were for a decision, as far as that can be known."""

    specs: Mapping[str, ActionSpec]
    guessed: frozenset[str] = frozenset()
    """Of these only names and parameters are known, from the prompt."""


@dataclass(frozen=True, slots=True)
class KnownActions:
    """The actions that are known here."""

    specs: Mapping[str, ActionSpec]
    configured_places: ConfiguredPlaces = field(default_factory=dict)

    def of_release(self, release: str) -> "KnownActions":
        """The same with our own actions as an earlier release had them."""
        others = {name: spec for name, spec in self.specs.items() if name not in CATALOG}
        return replace(self, specs={**actions_of(release), **others})

    def then(self, workflow: Workflow, shown: ShownActions) -> CatalogThen:
        """Those that a prompt lists, and those that it would not list anyway.

        Which actions a process has comes of its settings, which no event tells; the prompt tells it.
        """
        listable = (plannable_actions if workflow.phase == "plan" else allowed_actions)(workflow, self.specs)
        others = {name: spec for name, spec in self.specs.items() if name not in listable}
        there = {name: spec for name, spec in listable.items() if name in shown}
        guessed = {name: _guessed(name, takes) for name, takes in shown.items() if name not in self.specs}
        return CatalogThen({**others, **there, **guessed}, frozenset(guessed))


def _guessed(name: str, names: tuple[str, ...]) -> ActionSpec:
    """An action of which only this is known."""
    return ActionSpec(name, {"type": "object", "properties": {each: {} for each in names}}, "at_most_once", 0)


OURS: Final = KnownActions(CATALOG)
"""PowerOn's own actions."""


@asynccontextmanager
async def known_actions(settings: Settings) -> AsyncGenerator[KnownActions, None]:
    """The actions of PowerOn, of packages and of the servers of tools that the settings name; no server is asked."""
    resources = Resources(read_document=DocumentReader(1), render_report=ReportRenderer(), searches=True)
    linked = ActionConnections.read(settings.connections, os.environ)
    tools, places = _approved_tools(settings)
    async with actions(resources) as found:
        specs = {name: action.spec for name, action in offered(found, linked).items()}
        yield KnownActions({**CATALOG, **specs, **tools}, places)


def _approved_tools(settings: Settings) -> tuple[Mapping[str, ActionSpec], ConfiguredPlaces]:
    """The tools of servers, as they were approved."""
    if settings.mcp is None:
        return {}, {}
    from poweron_services.connectors.mcp.server_list import configured_places_of, read_servers  # noqa: PLC0415 - slow

    entries = read_servers(settings.mcp, os.environ)
    return dict(_specs(settings, entries)), configured_places_of(entries)


def _specs(settings: Settings, entries: Any) -> Iterator[tuple[str, ActionSpec]]:
    from poweron_services.connectors.mcp.action_names import with_own_names  # noqa: PLC0415 - likewise
    from poweron_services.connectors.mcp.known_tools import KnownTools  # noqa: PLC0415

    known = KnownTools.of_home(settings.home)
    for entry in entries:
        described = {each.name: each for each in known.of(entry.name) or ()}
        for action, tool in with_own_names(entry.name, described).items():
            of = described[tool]
            limit_ms = int(entry.timeout * 1000)
            yield action, ActionSpec(action, of.input_schema, of.effect_class, limit_ms, digest=of.digest)
