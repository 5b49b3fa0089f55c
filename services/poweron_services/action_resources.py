"""The actions of one process: those available, the resources that they use, and the rules that restrict them."""

import os
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from poweron_events.catalog import CATALOG, ActionSpec, meaningless
from poweron_events.errors import Refused
from poweron_services.actions.action import Action, Resources
from poweron_services.actions.registry import OpenActions, offered
from poweron_services.client.connect import Connections
from poweron_services.connectors.document_reader import DocumentReader, affordable_readers
from poweron_services.connectors.mcp.tool_catalog import ApprovedTool
from poweron_services.connectors.page_reader import PageReader
from poweron_services.connectors.report_renderer import ReportRenderer
from poweron_services.connectors.text_recognition import TextRecognition
from poweron_services.connectors.web.web_rules import WebSettings
from poweron_services.connectors.web_access import Web, no_search, open_web
from poweron_services.decider.approval import ActionLists, Approval
from poweron_services.log_redaction import own_secrets
from poweron_services.models.document_window import window_characters
from poweron_services.roles.action_secrets import ActionSecrets
from poweron_services.roles.address_check import ConfiguredPlaces
from poweron_services.settings.action_connections import ActionConnections
from poweron_services.settings.config import Settings

if TYPE_CHECKING:
    from poweron_services.connectors.mcp.tool_catalog import OpenedTools
    from poweron_services.connectors.search.search_engine import SearchEngine


@dataclass(frozen=True, slots=True)
class OpenedActions:
    """The actions of a process, and the web as they can access it."""

    settings: Settings
    actions: Mapping[str, Action]
    web: Web | None
    connections: ActionConnections
    tools: "OpenedTools | None"

    @property
    def specs(self) -> Mapping[str, ActionSpec]:
        return {name: action.spec for name, action in self.actions.items()}

    @property
    def names(self) -> frozenset[str]:
        """The actions that a pattern can match: those available, and also PowerOn's own that do not run here."""
        return frozenset({*CATALOG, *self.actions})

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods of the configured tool servers, whose tools may be unknown."""
        return self.tools.methods if self.tools else ()

    @property
    def configured_places(self) -> ConfiguredPlaces:
        """The places named in the settings of tool servers."""
        return self.tools.configured_places if self.tools else {}

    @property
    def lists(self) -> ActionLists:
        """The actions that tasks may use."""
        return ActionLists(self.settings.allowed_with(self.methods), self.settings.denied_patterns)

    @property
    def approval(self) -> Approval:
        """The actions to approve: those marked in the settings, and those whose spec requires it."""
        marked_actions = {name for name, spec in self.specs.items() if spec.needs_approval}
        return Approval(self.settings.approve_patterns | marked_actions, self.settings.approval_expires_ms)

    @property
    def secrets(self) -> ActionSecrets:
        """The secrets to hide in everything that an action returns."""
        tools = self.tools.secrets if self.tools else ()
        return ActionSecrets.of(self.connections, (*own_secrets(self.settings), *tools))

    def check_patterns(self) -> None:
        """Refuse a setting with a pattern that matches no action: after a typo, the action to restrict would run.

        Raises:
            Refused: the message names the setting and the pattern.
        """
        settings = self.settings
        lists = {"POWERON_APPROVE": sorted(settings.approve_patterns), "POWERON_DENY": settings.denied_patterns}
        allowances = {f"POWERON_ALLOW_{kind.upper()}": patterns for kind, patterns in settings.allowed_patterns.items()}
        for setting, patterns in {**lists, **allowances}.items():
            unclear = [pattern for pattern in patterns if pattern.partition(".")[0] not in self.methods]
            for wrong in filter(None, (meaningless(pattern, self.names) for pattern in unclear)):
                raise Refused(f"{setting}: {wrong}.")


WITHOUT_ACTIONS: Final = frozenset({"projector", "ledger"})
"""The roles that need no actions, and no right to append events."""


@asynccontextmanager
async def opened_actions(
    open_actions: OpenActions, connections: Connections, roles: Collection[str]
) -> AsyncGenerator[OpenedActions, None]:
    """Open the actions with their resources while the context lasts; a process that needs none has none.

    Raises:
        Refused: the settings or the actions must be fixed first; the message says what.
    """
    settings = connections.settings
    action_connections = ActionConnections.read(settings.connections, os.environ)
    if {*roles} <= WITHOUT_ACTIONS:
        yield OpenedActions(settings, {}, None, action_connections, None)
        return
    if "executor" in roles:  # where actions run, a missing secret is reported at once
        action_connections.check()
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(_search_engine(settings))
        tools = await stack.enter_async_context(_tools(settings))
        window = await window_characters(settings)
        known = await stack.enter_async_context(open_actions(_resources(settings, engine, tools, window)))
        web = await stack.enter_async_context(_web(connections, engine)) if "executor" in roles else None
        actions = OpenedActions(settings, offered(known, action_connections), web, action_connections, tools)
        actions.check_patterns()
        yield actions


def _resources(
    settings: Settings, engine: "SearchEngine | None", tools: "OpenedTools | None", window: int
) -> Resources:
    recognition = TextRecognition(settings.ocr_command) if settings.ocr_command else None
    read_document = DocumentReader(settings.document_readers or affordable_readers(), recognition)
    approved_tools: tuple[ApprovedTool, ...] = tuple(tools.approved) if tools else ()
    return Resources(
        read_document=read_document,
        render_report=ReportRenderer(),
        window=window,
        open_pages=PageReader(read_document),
        searches=engine is not None,
        enrich=settings.web_enrich,
        tools=approved_tools,
    )


@asynccontextmanager
async def _tools(settings: Settings) -> AsyncGenerator["OpenedTools | None", None]:
    """Open the tools of the servers in the settings."""
    if settings.mcp is None:
        yield None
        return
    from poweron_services.connectors.mcp.tool_catalog import open_tools  # noqa: PLC0415 - only where it is asked for

    async with open_tools(settings.mcp, settings, os.environ) as tools:
        yield tools


def _search_engine(settings: Settings) -> AbstractAsyncContextManager["SearchEngine | None"]:
    from poweron_services.connectors.search.search_engine import open_search  # noqa: PLC0415 - takes time to import
    from poweron_services.settings.action_variables import SearchKeys  # noqa: PLC0415

    return open_search(settings, SearchKeys())


def _web(connections: Connections, engine: "SearchEngine | None") -> AbstractAsyncContextManager[Web]:
    return open_web(
        WebSettings.of(connections.settings),
        connections.content,
        search=engine.search if engine else no_search,
        local_pages=engine.folder_page if engine else None,
    )
