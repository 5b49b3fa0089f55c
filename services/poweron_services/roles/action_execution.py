"""Execution: runs a claimed action and reports the result; any error becomes part of the result.

A web action gets access to the web; a repeated try gets the answers that models gave to an earlier try.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import orjson
import structlog
from pydantic import BaseModel, ConfigDict, ValidationError

from poweron_events.catalog import WEB, ActionSpec
from poweron_events.content import ContentStore
from poweron_events.envelope import idempotency_key
from poweron_events.errors import MissingContent, PowerOnError, Refused, Unavailable
from poweron_events.event import DocumentRef, FailedCalls, ModelCall
from poweron_events.fold.history import item_reference
from poweron_events.fold.state import Workflow, with_step
from poweron_events.step_events import MAX_PREVIEWS, ActionCompleted, ObservationRecorded, Outcome
from poweron_events.stream import WorkflowEvent
from poweron_services import telemetry
from poweron_services.actions.action import Action, Done, Failed, InputDocument, Order, TellProgress
from poweron_services.connectors.search.search_provider import SearchQuery, SearchResults
from poweron_services.connectors.web.page_cache import FetchedPage, Reader
from poweron_services.connectors.web_access import Web
from poweron_services.decider.approval import EVERYTHING, NEVER, ActionLists, Approval
from poweron_services.decider.authorship import written_by_model
from poweron_services.decider.defaults import language
from poweron_services.decider.references import documents_at_hand
from poweron_services.decider.result_files import known_unreadable
from poweron_services.decider.rules import allowance
from poweron_services.decider.schema_check import check_values
from poweron_services.decider.validation import CONNECTION, NotAllowed, check_action, check_connection
from poweron_services.decider.web_addresses import (
    addresses_in,
    canonical,
    check_addresses,
    is_known,
    selected_texts,
    texts_of,
    unknown_address,
)
from poweron_services.models.call import Called, Caller
from poweron_services.models.prompts import Prompt
from poweron_services.models.time_limit import TimeLimit
from poweron_services.roles.action_results import (
    Stored,
    completed,
    content_time_limit,
    failed,
    retry_content,
    store_result,
)
from poweron_services.roles.action_secrets import NO_ACTION_SECRETS, ActionSecrets, HeldSecrets
from poweron_services.roles.address_check import ConfiguredPlaces, PlaceCheck, addresses_known, names_places
from poweron_services.roles.document_lookup import documents_named
from poweron_services.roles.file_provenance import FileProvenance
from poweron_services.roles.observation_builder import observe_build, text_of
from poweron_services.roles.progress_sender import StepTeller, no_message
from poweron_services.text.provenance import without_mark

log = structlog.get_logger()

MODEL_OUTAGE = 180.0  # seconds during which a failing model is retried, even if the action has more time
SHORT: Final = 10_000  # characters of a result without documents
KIND: Final = "answers"
FENCE: Final = "fence"
"""Replaces the delimiter, which is different in every prompt, so that equal prompts have the same digest."""


@dataclass(slots=True)
class WebAccess:
    """The functions behind `Order.fetch` and `Order.search`.

    The selection and the parameters were checked before. This class checks addresses from documents of the step that a
    model wrote: such an address is valid only if the workflow knows it or another document of the step contains it.
    """

    web: Web
    reader: Reader
    known: frozenset[str]
    documents: Sequence[InputDocument]
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _made_up: frozenset[str | None] | None = None

    async def fetch(self, url: str, /) -> FetchedPage:
        if not is_known(url, self.known) and canonical(url) in await self._invented():
            raise unknown_address(url)
        try:
            return await self.web.fetch(self.reader, url)
        except Refused as error:
            workflow_id, detail = self.reader.workflow_id, error.detail
            log.warning("page_refused", workflow_id=workflow_id, code=error.code, error=str(error), detail=detail)
            raise

    async def search(self, query: SearchQuery, /) -> SearchResults:
        return await self.web.search(self.reader, query)

    async def _invented(self) -> frozenset[str | None]:
        async with self._turn:
            if self._made_up is None:
                model_documents = [document for document in self.documents if document.written_by_model]
                other_documents = [
                    document for document in self.documents if model_documents and not document.written_by_model
                ]
                self._made_up = await _addresses(model_documents) - await _addresses(other_documents)
            return self._made_up


class _Kept(BaseModel):
    """An answer as it is stored."""

    model_config = ConfigDict(frozen=True)

    text: str
    call: ModelCall


@dataclass(frozen=True, slots=True)
class KeptCalls:
    """The answers that a step of a workflow received from models."""

    content: ContentStore
    workflow_id: str
    step: str
    """The step's idempotency key, the same for every try."""

    async def recall(self, prompt: Prompt) -> Called | None:
        """The answer from an earlier try of the step; None if there is none, or none in this format.

        Raises:
            Unavailable: the content store does not answer.
        """
        question = self._question(prompt)
        recall = partial(self.content.recall, self.workflow_id, KIND, question)
        async with content_time_limit():
            data = await retry_content(self.workflow_id, recall)
        try:
            entry = None if data is None else _Kept.model_validate_json(data)
        except ValidationError:  # from another release
            return None
        return None if entry is None else Called(entry.text, entry.call)

    async def keep(self, prompt: Prompt, reply: Called) -> None:
        """Store an answer before it is used; if storing takes too long, the answer is used anyway."""
        entry = {"text": reply.text, "call": reply.call.model_dump(mode="json", by_alias=True)}
        question, data = self._question(prompt), orjson.dumps(entry)
        remember = partial(self.content.remember, self.workflow_id, KIND, question, data)
        try:
            async with content_time_limit(len(data)):
                await retry_content(self.workflow_id, remember)
        except Unavailable as error:
            log.warning("content_store_unavailable", error=str(error), workflow_id=self.workflow_id)

    def _question(self, prompt: Prompt) -> bytes:
        digest = hashlib.sha256(str(prompt.render(FENCE)).encode()).hexdigest()
        return f"{self.step} {prompt.template.sha256} {digest}".encode()


@dataclass(slots=True)
class _Calls:
    """The model calls that an action has made."""

    answered: list[ModelCall] = field(default_factory=list)
    failed: tuple[FailedCalls, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """Run actions. If the process also plays the observer, result and observation are one append."""

    actions: Mapping[str, Action]
    caller: Caller
    content: ContentStore
    observes: bool
    now_ms: Callable[[], int]
    approval: Approval = NEVER
    web: Web | None = None
    lists: ActionLists = EVERYTHING
    configured_places: ConfiguredPlaces = field(default_factory=dict)
    progress: StepTeller = no_message
    secrets: ActionSecrets = NO_ACTION_SECRETS

    @property
    def specs(self) -> Mapping[str, ActionSpec]:
        return {name: action.spec for name, action in self.actions.items()}

    async def run(self, workflow: Workflow) -> Sequence[WorkflowEvent]:
        """Run the action and return its result as events."""
        calls = _Calls()
        began = time.monotonic_ns()
        selection = workflow.step.selection
        assert selection is not None
        with telemetry.action_span(selection.action) as span:
            secrets = await self.secrets.read()
            with self.progress(workflow) as tell:
                outcome, done = await self._outcome(workflow, calls, secrets, tell)
            outcome, done = await _without_secrets(workflow, secrets, outcome, done)
            span.ended(outcome)
        try:
            stored = await store_result(self.content, workflow, done, calls.answered)
        except Exception as error:
            log.exception("result_not_stored", workflow_id=workflow.id)
            reason = error if isinstance(error, PowerOnError) else "an unexpected error, which the service's log has"
            message = f"The action ended, but its result could not be stored: {reason}"
            outcome, done = "failed", failed(message, "result_not_stored")
            stored = Stored((), ())
        result = completed(
            workflow,
            done,
            outcome=outcome,
            documents=stored.documents,
            notes=stored.notes,
            documents_left_out=stored.documents_left_out,
            duration_ms=(time.monotonic_ns() - began) // 1_000_000,
            model_calls=tuple(calls.answered),
            all_calls=stored.all_calls,
            failed_calls=calls.failed,
        )
        return [result, self._observe(workflow, result, done)] if self.observes else [result]

    def _observe(self, workflow: Workflow, result: ActionCompleted, done: Done) -> ObservationRecorded:
        documents = done.result.documents[:MAX_PREVIEWS]
        texts = [text_of(document.mime_type, document.document_data) for document in documents]
        return observe_build(with_step(workflow, workflow.step._replace(completed=result)), result, texts, self.specs)

    async def _outcome(
        self, workflow: Workflow, calls: "_Calls", secrets: HeldSecrets, tell: TellProgress
    ) -> tuple[Outcome, Done]:
        """The outcome of the action; a refusal is an outcome, too."""
        selection = workflow.step.selection
        assert selection is not None
        try:
            spec = check_action(selection.action, workflow, self.specs)
            self.lists.check(spec.name, workflow)
            if (denial := self.approval.why_not(workflow)) is not None:
                return "denied", failed(str(denial), denial.code)
            check_connection(_connection(workflow), workflow, spec)
            order = await self._order(workflow, calls, secrets, tell)
        except NotAllowed as error:
            return "denied", failed(str(error), error.code, detail=error.detail)
        except PowerOnError as error:
            return "failed", failed(str(error), error.code, detail=error.detail)
        return await self._perform(workflow, self.actions[spec.name], order, calls)

    async def _perform(self, workflow: Workflow, action: Action, order: Order, calls: "_Calls") -> tuple[Outcome, Done]:
        """Run the action within its time limit and before its claim expires."""
        start, spec = workflow.step.starts[-1], action.spec
        interruption: Outcome = "unknown" if start.effect_class == "at_most_once" else "failed"
        seconds = min(spec.limit_ms, start.due_ms - self.now_ms()) / 1000
        limit = TimeLimit(seconds, spec.name, outage_seconds=MODEL_OUTAGE)
        try:
            async with limit:
                done = await action(order)
        except Refused as error:
            failure = error if isinstance(error, Failed) else Failed("")
            return "failed", failed(str(error), error.code, notes=failure.notes, unread=failure.unread)
        except PowerOnError as error:
            return interruption, failed(str(error), error.code)
        except Exception:
            if limit.is_over:
                too_long = f"{spec.name} was stopped after {seconds:.3g} s, its time limit."
                return interruption, failed(too_long, "action_timeout")
            log.exception("action_error", workflow_id=workflow.id, action=spec.name)
            message = f"{spec.name} met an unexpected error; the service's log has it."
            return interruption, failed(message, "unexpected_error")
        finally:
            calls.answered.extend(limit.lost_calls)
            calls.failed = limit.failed_calls
        return ("done" if done.result.success else "failed"), done

    async def _order(self, workflow: Workflow, calls: "_Calls", secrets: HeldSecrets, tell: TellProgress) -> Order:
        selection, parameters = workflow.step.selection, workflow.step.parameters
        assert selection is not None
        assert parameters is not None

        await self._check_places(workflow)
        turn, key = asyncio.Lock(), idempotency_key(workflow.id, workflow.place)
        memory = KeptCalls(self.content, workflow.id, key)

        async def ask(prompt: Prompt) -> Called:
            prompt = await secrets.hidden_in_prompt(prompt)
            if len(workflow.step.starts) > 1 and (before := await memory.recall(prompt)) is not None:
                calls.answered.append(before.call)
                return before
            async with turn if allowance(workflow) else nullcontext():  # each call gets what the others left
                reply = await self.caller.call(workflow, prompt, calls.answered)
                calls.answered.append(reply.call)
            if reply.refusal is not None:
                raise reply.refusal
            await memory.keep(prompt, reply)
            return reply

        order = Order(
            parameters=check_values(parameters.parameters, self.actions[selection.action].spec),
            documents=await self._documents(workflow, selection.required_input_documents),
            language=language(workflow),
            idempotency_key=key,
            ask=ask,
            objective=selection.action_objective,
            request=workflow.current.opening.prompt,
            tell_progress=tell,
            find_provenance=FileProvenance(workflow, self.content, selection.required_input_documents),
            requester=workflow.current.opening.requester.name,
            asked_ms=workflow.current.opened_ms,
            connection=secrets.connection(_connection(workflow)),
        )
        return await self._with_web(workflow, order) if selection.action in WEB else order

    async def _check_places(self, workflow: Workflow) -> None:
        """Refuse addresses and paths that a model invented, even if they passed when the parameters were set.

        Parameters that people changed and approved may name others.
        """
        selection, parameters = workflow.step.selection, workflow.step.parameters
        assert selection is not None
        assert parameters is not None
        spec = self.actions[selection.action].spec
        if workflow.step.proposed_by is not None or not names_places(parameters.parameters, spec):
            return
        check = partial(PlaceCheck(self.content, self.configured_places).given, parameters.parameters, spec, workflow)
        async with content_time_limit():
            await retry_content(workflow.id, check)

    async def _with_web(self, workflow: Workflow, order: Order) -> Order:
        """The order of a web action, with access to the web and the addresses that it may fetch.

        Raises:
            NotAllowed: the selection or its parameters name an address that a model invented.
        """
        selection, parameters = workflow.step.selection, workflow.step.parameters
        assert selection is not None
        assert parameters is not None
        async with content_time_limit():
            find = partial(addresses_known, workflow, self.content)
            known = await retry_content(workflow.id, find)
        if workflow.step.proposed_by is not None:
            known |= {address for text in texts_of(parameters.parameters) for address in addresses_in(text)}
        check_addresses(selected_texts(selection), known)
        if self.web is None:
            return replace(order, known_addresses=known)
        access = WebAccess(self.web, Reader(workflow.id, order.idempotency_key), known, order.documents)
        most = self.web.max_pages
        return replace(order, known_addresses=known, fetch=access.fetch, search=access.search, max_pages=most)

    async def _documents(self, workflow: Workflow, references: Sequence[str]) -> list[InputDocument]:
        """The documents that the action reads."""
        if not references:
            return []
        unreadable, labelled = known_unreadable(workflow), documents_at_hand(workflow)
        async with content_time_limit():
            look_up = partial(documents_named, references, workflow, self.content)
            return [
                InputDocument(
                    reference=item_reference(document.document_id, document.document_name),
                    name=document.document_name,
                    mime_type=document.mime_type,
                    size=await self._size(workflow.id, document),
                    content=document.content,
                    load=partial(self._load, workflow.id, document.content, document.size),
                    unread=unreadable.get((document.document_name, document.content)),
                    page=document.page,
                    sources=document.sources,
                    written_by_model=written_by_model(document, labelled),
                )
                for document in await retry_content(workflow.id, look_up)
            ]

    async def _size(self, workflow_id: str, document: DocumentRef) -> int:
        try:
            return await retry_content(workflow_id, partial(self.content.size, workflow_id, document.content))
        except MissingContent as error:
            missing = f"{document.document_name!r} is not in the content store any more."
            raise Refused(missing, code=error.code) from error

    async def _load(self, workflow_id: str, content: str, size: int) -> bytes:
        async with content_time_limit(size):
            return await retry_content(workflow_id, partial(self.content.get, workflow_id, content))


async def _without_secrets(
    workflow: Workflow, secrets: HeldSecrets, outcome: Outcome, done: Done
) -> tuple[Outcome, Done]:
    """Remove secrets from the action's outcome before any of it is stored or reported."""
    try:
        return outcome, await secrets.hidden_in(done, is_short=_is_short(done))
    except ValueError:
        log.error("result_held_secret", workflow_id=workflow.id)  # noqa: TRY400 - the error may repeat it
        message = (
            "The action ended, but its result, which held a secret in a field that cannot be redacted, was not stored."
        )
        return "unknown" if outcome == "unknown" else "failed", failed(message, "result_not_stored")


def _is_short(done: Done) -> bool:
    """Return whether secrets are found in the result before a thread could start."""
    texts = (*done.notes, done.result.error or "", done.detail)
    others = (done.result.documents, done.unread, done.links, done.origins, done.coverage)
    return not any(others) and sum(map(len, texts)) <= SHORT


def _connection(workflow: Workflow) -> str | None:
    """The label of the connection that the action should use."""
    parameters = workflow.step.parameters
    label = parameters.parameters.get(CONNECTION) if parameters else None
    return label if isinstance(label, str) else None


async def _addresses(documents: Iterable[InputDocument]) -> frozenset[str | None]:
    texts = [without_mark((await document.load()).decode("utf-8", errors="replace")) for document in documents]
    return frozenset(canonical(address) for text in texts for address in addresses_in(text)) - {None}
