"""The actions that a replay knows: their specifications only, without running an action or a tool server."""

import os
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from poweron_events.catalog import CATALOG, ActionSpec
from poweron_events.fold.state import Workflow
from poweron_services.actions.action import Resources
from poweron_services.actions.registry import actions, offered
from poweron_services.connectors.document_reader import DocumentReader
from poweron_services.connectors.report_renderer import ReportRenderer
from poweron_services.decider.validation import allowed_actions, plannable_actions
from poweron_services.replay.earlier_release import actions_of
from poweron_services.roles.address_check import ConfiguredPlaces
from poweron_services.settings.action_connections import ActionConnections
from poweron_services.settings.config import Settings

ShownActions = Mapping[str, tuple[str, ...]]
"""Actions as listed in a prompt: the names of their parameters by the action's name."""


@dataclass(frozen=True, slots=True)
class CatalogThen:
    """The actions that were available for a decision, as far as is known."""

    specs: Mapping[str, ActionSpec]
    guessed: frozenset[str] = frozenset()
    """The actions of which only the names and parameters are known, from the prompt."""


@dataclass(frozen=True, slots=True)
class KnownActions:
    """The actions that are known here."""

    specs: Mapping[str, ActionSpec]
    configured_places: ConfiguredPlaces = field(default_factory=dict)

    def of_release(self, release: str) -> "KnownActions":
        """Return the same actions, with PowerOn's own as of an earlier release."""
        others = {name: spec for name, spec in self.specs.items() if name not in CATALOG}
        return replace(self, specs={**actions_of(release), **others})

    def then(self, workflow: Workflow, listing: ShownActions) -> CatalogThen:
        """Return the actions that a prompt lists, and those that it would not list in any case.

        Which actions a process has depends on its settings, which no event records; the prompt shows it.
        """
        listable = (plannable_actions if workflow.phase == "plan" else allowed_actions)(workflow, self.specs)
        others = {name: spec for name, spec in self.specs.items() if name not in listable}
        there = {name: spec for name, spec in listable.items() if name in listing}
        guesses = {name: _guess(name, takes) for name, takes in listing.items() if name not in self.specs}
        return CatalogThen({**others, **there, **guesses}, frozenset(guesses))


def _guess(name: str, names: tuple[str, ...]) -> ActionSpec:
    """Return the specification of an action of which only this is known."""
    return ActionSpec(name, {"type": "object", "properties": {parameter: {} for parameter in names}}, "at_most_once", 0)


OURS: Final = KnownActions(CATALOG)
"""PowerOn's own actions."""


@asynccontextmanager
async def known_actions(settings: Settings) -> AsyncGenerator[KnownActions, None]:
    """Return the actions of PowerOn, of packages and of the tool servers in the settings; no server is contacted."""
    resources = Resources(read_document=DocumentReader(1), render_report=ReportRenderer(), searches=True)
    connections = ActionConnections.read(settings.connections, os.environ)
    tools, places = _approved_tools(settings)
    async with actions(resources) as loaded_actions:
        specs = {name: action.spec for name, action in offered(loaded_actions, connections).items()}
        yield KnownActions({**CATALOG, **specs, **tools}, places)


def _approved_tools(settings: Settings) -> tuple[Mapping[str, ActionSpec], ConfiguredPlaces]:
    """Return the tools of servers as they were approved."""
    if settings.mcp is None:
        return {}, {}
    from poweron_services.connectors.mcp.server_list import configured_places_of, read_servers  # noqa: PLC0415 - slow

    entries = read_servers(settings.mcp, os.environ)
    return dict(_specs(settings, entries)), configured_places_of(entries)


def _specs(settings: Settings, entries: Any) -> Iterator[tuple[str, ActionSpec]]:
    from poweron_services.connectors.mcp.tool_description import KnownTools, with_own_names  # noqa: PLC0415 - slow

    known = KnownTools.of_home(settings.home)
    for entry in entries:
        descriptions = {description.name: description for description in known.of(entry.name) or ()}
        for action, tool in with_own_names(entry.name, descriptions).items():
            of = descriptions[tool]
            limit_ms = int(entry.timeout * 1000)
            yield action, ActionSpec(action, of.input_schema, of.effect_class, limit_ms, digest=of.digest)
