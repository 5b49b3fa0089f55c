"""The addresses and paths that a workflow knows from this round and earlier ones; others are refused (S4, X-01)."""

import asyncio
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from pydantic import JsonValue

from poweron_events.catalog import CATALOG, WEB, ActionSpec
from poweron_events.content import ContentStore
from poweron_events.errors import MissingContent
from poweron_events.fold.state import ChatMessage, Workflow
from poweron_events.step_events import ActionSelected, ActionSelection
from poweron_services.decider.address_provenance import MAX_PLACES, KnownPlaces, check_places, places, takes_addresses
from poweron_services.decider.validation import NotAllowed
from poweron_services.decider.web_addresses import check_addresses, known_addresses, selected_texts, texts_of
from poweron_services.roles.document_lookup import earlier_messages

MAX_RESULTS = 100  # documents of results whose text is searched, newest first
MAX_RESULT = 1_000_000  # bytes of one of them

ConfiguredPlaces = Mapping[str, AbstractSet[str]]
"""The addresses and paths that the settings give to third-party servers, by the method of their actions."""


async def addresses_known(workflow: Workflow, content: ContentStore) -> frozenset[str]:
    """The addresses in the requests of the workflow, and those that its results gave.

    Raises:
        Unavailable: the content store cannot be reached.
    """
    return known_addresses(await _messages(workflow, content))


def names_places(parameters: Mapping[str, JsonValue], spec: ActionSpec) -> bool:
    """Return whether the parameters contain, or may contain, an address or a path that must be checked."""
    return spec.name in WEB or bool(places(parameters, spec))


@dataclass(frozen=True, slots=True)
class PlaceCheck:
    """Refuse addresses and paths that a model invented, for any action."""

    content: ContentStore
    configured_places: ConfiguredPlaces = field(default_factory=dict)

    async def selected(self, selection: ActionSelected, spec: ActionSpec, workflow: Workflow) -> None:
        """Refuse a selection that names an address known only from the model, if its action takes addresses.

        Raises:
            NotAllowed: names the host.
            Unavailable: the content store cannot be reached.
        """
        if selection.action in WEB or takes_addresses(spec):
            check_addresses(selected_texts(selection), await addresses_known(workflow, self.content))

    async def given(self, parameters: Mapping[str, JsonValue], spec: ActionSpec, workflow: Workflow) -> None:
        """Refuse parameters of a web action with such an address, and of any action with an unknown address or path.

        Raises the same errors as `selected`.
        """
        if spec.name in WEB:
            check_addresses(texts_of(dict(parameters)), await addresses_known(workflow, self.content))
        if not (named_places := places(parameters, spec)):
            return
        if len(named_places) > MAX_PLACES:
            too_many = f"{spec.name} is given {len(named_places)} addresses and paths; give it at most {MAX_PLACES}."
            raise NotAllowed(too_many, code="parameter_invalid")
        method = _method(spec.name)
        messages = await _messages(workflow, self.content)
        known = KnownPlaces.of(messages, self.configured_places.get(method, frozenset()))
        if all(map(known.holds, named_places)):
            return
        texts = await self._texts(workflow.id, messages, method)
        await asyncio.to_thread(check_places, named_places, replace(known, results=texts))  # searches megabytes

    async def _texts(self, workflow_id: str, messages: Iterable[ChatMessage], method: str) -> tuple[str, ...]:
        """The texts of the results of the method's actions, newest first; erased ones are left out."""
        documents = [
            document
            for message in messages
            if message.action and message.action not in CATALOG and _method(message.action) == method
            for document in message.documents
            if document.size <= MAX_RESULT
        ]
        texts = [await self._text(workflow_id, document.content) for document in documents[:MAX_RESULTS]]
        return tuple(text for text in texts if text)

    async def _text(self, workflow_id: str, content: str) -> str:
        try:
            return (await self.content.get(workflow_id, content)).decode("utf-8", errors="replace")
        except MissingContent:
            return ""


def _method(action: str) -> str:
    return ActionSelection.of(action).method


async def _messages(workflow: Workflow, content: ContentStore) -> tuple[ChatMessage, ...]:
    """All messages, newest first."""
    return (*reversed(workflow.current.messages), *await earlier_messages(workflow, content))
