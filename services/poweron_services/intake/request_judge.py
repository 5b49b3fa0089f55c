"""Judge requests: query the rows for what a judgement needs, and store what the event will name.

The opening of a round carries the newest documents of earlier rounds and a compact history; the complete history is in
the content store.
"""

import mimetypes
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from poweron_events.archive_events import ArchiveRequest, ContentErased, RequestErasure, RequestExport, RequestRetention
from poweron_events.catalog import ActionSpec
from poweron_events.codec import ReceivedRequest, dumps, is_uuid
from poweron_events.content import ContentStore
from poweron_events.errors import MissingContent, Refused, Unavailable
from poweron_events.event import DocumentRef
from poweron_events.fold.history import render
from poweron_events.fold.partial import Stub
from poweron_events.fold.state import ChatMessage, Opening, is_request_label
from poweron_events.policy import AppliedPolicy
from poweron_events.request import (
    MAX_DOCUMENTS,
    CancellationRequested,
    EarlierRounds,
    GivenDocument,
    InlineDocument,
    LabelledDocuments,
    LeftOutList,
    PolicyApplied,
    RequestApproval,
    RequestBudget,
    RequestCancellation,
    RequestIdentity,
    RequestPause,
    RequestPolicy,
    RequestResume,
    RequestRound,
    RequestRules,
    RequestWorkflow,
    RoundPaused,
    RoundRequested,
    RoundResumed,
    RulesChanged,
    Spent,
    Terms,
    WorkflowRequested,
)
from poweron_events.round_events import BudgetDenied, BudgetGranted
from poweron_events.step_events import ApprovalDenied, ApprovalGranted, ParametersChanged
from poweron_events.stream import claimed_actor
from poweron_services.decider.approval import EVERYTHING, ActionLists
from poweron_services.decider.references import labelled_documents
from poweron_services.decider.result_files import with_unique_names
from poweron_services.decider.rules import price_unknown
from poweron_services.decider.size_limits import fitting, fitting_text
from poweron_services.decider.web_addresses import known_addresses
from poweron_services.intake import judgement, policy_judgement
from poweron_services.intake.archive_judgement import archive_event, check_erasure, check_not_erased, with_contents
from poweron_services.intake.consistent_reads import ConsistentReads
from poweron_services.intake.content_erasure import has_content, is_stored, listed_documents
from poweron_services.intake.intake_ports import IntakeQueries
from poweron_services.intake.judgement import IntakeEvent, Refusal
from poweron_services.intake.round_limits import AT_ONCE, OpenLimit, QuotaLimit, Waiting
from poweron_services.models.chat_model import NamedModels

UNKNOWN_TYPE = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class RequestJudge:
    """Judge each request by the state of its workflow.

    Every method raises Unavailable while Postgres or the content store does not answer.
    """

    queries: IntakeQueries
    reads: ConsistentReads
    open_limit: OpenLimit
    quota_limit: QuotaLimit
    content: ContentStore
    now_ms: Callable[[], int]
    actions: Collection[str]
    default_language: str | None
    marks: Collection[str]
    specs: Mapping[str, ActionSpec]
    unpriced: Collection[str] = ()
    named_models: NamedModels | None = None
    """The models that a fork may name; None if it may name none."""
    lists: ActionLists = EVERYTHING
    connections: Collection[str] = ()

    async def judge(self, workflow: str, received: ReceivedRequest, waiting: Waiting = AT_ONCE) -> IntakeEvent:
        """Return the answer to the request; a refusal is an event, too. A cancelled opening is not held back."""
        try:
            return await self._judge(workflow, received, waiting)
        except Refusal as refusal:
            return refusal.event(received.identity, claimed_actor(received.request, received.identity.source))

    async def _judge(self, workflow: str, received: ReceivedRequest, waiting: Waiting) -> IntakeEvent:
        request, identity = received.request, received.identity
        judgement.check(request, self.actions, self.connections)
        match request:
            case RequestWorkflow():
                event: IntakeEvent = await self._open(workflow, identity, request, waiting)
            case RequestRound():
                event = await self._open_round(workflow, identity, request, waiting)
            case RequestApproval():
                event = await self._approve(identity, request)
            case RequestPause() | RequestResume():
                event = await self._pause_or_resume(identity, request)
            case RequestBudget():
                event = await self._answer_budget(identity, request)
            case RequestPolicy():
                event = await self._apply_policy(identity, request)
            case RequestRules():
                event = await self._change_rules(identity, request)
            case RequestCancellation():
                event = await self.cancel(identity, request)
            case RequestExport() | RequestErasure() | RequestRetention():
                event = await self._archive(identity, request)
        return event

    async def cancel(self, identity: RequestIdentity, request: RequestCancellation) -> CancellationRequested:
        """The cancellation as an event.

        Raises:
            Refusal: there is nothing to cancel.
        """
        stub = await self._known(request.workflow_id)
        judgement.check_open(request, stub)
        round_ = await self.reads.checked(self.queries.open_round(request.workflow_id))
        if round_ is not None and round_.closing and not round_.paused:
            raise judgement.round_is_over(request)
        return judgement.cancellation(identity, request)

    async def _open(
        self, workflow: str, identity: RequestIdentity, request: RequestWorkflow, waiting: Waiting
    ) -> WorkflowRequested:
        await self._check_fork(request)
        if request.restarted_from is not None:
            await self._known(judgement.checked_id(request.restarted_from))
        policy = await self._admit(request, identity, waiting)
        return WorkflowRequested(
            round=1,
            forked_from=request.forked_from,
            restarted_from=request.restarted_from,
            workflow_mode=request.workflow_mode,
            documents=await self._documents(workflow, 1, request),
            request=identity,
            **self._terms(request, identity, policy),
        )

    async def _open_round(
        self, workflow: str, identity: RequestIdentity, request: RequestRound, waiting: Waiting
    ) -> RoundRequested:
        stub = await self._known(workflow)
        judgement.check_round(request, stub)
        last = len(stub.openings)
        await self._check_fork(request)
        policy = await self._admit(request, identity, waiting)
        check_not_erased(workflow, await self.reads.checked(self.queries.retention(workflow)))
        earlier = await self._earlier(workflow, last)
        return RoundRequested(
            round=last + 1,
            forked_from=request.forked_from,
            workflow_mode=request.workflow_mode,
            documents=await self._documents(workflow, last + 1, request, earlier),
            request=identity,
            earlier=earlier,
            **self._terms(request, identity, policy, await self.queries.opening(workflow, last)),
        )

    async def _documents(
        self, workflow: str, number: int, request: RequestWorkflow | RequestRound, earlier: EarlierRounds | None = None
    ) -> tuple[DocumentRef, ...]:
        """Store the documents of a round, and number names that another document of the workflow has.

        A fork keeps the names, since the events that it takes over repeat them.
        """
        documents = await store_documents(self.content, workflow, number, request.documents)
        if request.forked_from is not None:
            return documents
        known = [document for listed in (earlier.documents if earlier else ()) for document in listed.documents]
        return with_unique_names([*known, *documents])[len(known) :]

    async def _admit(
        self, request: RequestWorkflow | RequestRound, identity: RequestIdentity, waiting: Waiting
    ) -> AppliedPolicy | None:
        """Wait until the round may be opened, and return the policy that applies then."""
        actor, weight = claimed_actor(request, identity.source), self.reads.weight(identity.source)
        try:
            while True:
                await self.open_limit.admit(identity, weight, waiting.next_cancellation)
                policy = await self.reads.policy()
                if await self.quota_limit.admits(identity, actor, policy):
                    return policy
                self.open_limit.release(identity)  # others may take its place while it waits
                waiting.step_aside()
                if not await self.quota_limit.wait(identity, actor, waiting):
                    return await self.reads.policy()
        finally:
            waiting.step_back()

    def release(self, identity: RequestIdentity) -> None:
        """Stop counting an opening for the limits beside the rows: they hold it, or it was not opened."""
        self.open_limit.release(identity)
        self.quota_limit.release(identity)

    async def _check_fork(self, request: RequestWorkflow | RequestRound) -> None:
        if (fork := request.forked_from) is None:
            return
        known = is_uuid(fork.workflow)
        judgement.check_fork(fork, await self.queries.accepted_hash(fork.workflow, fork.seq) if known else None)
        check_not_erased(fork.workflow, await self.queries.retention(fork.workflow))
        if fork.model is not None:
            await self._check_model(fork.model)

    async def _check_model(self, name: str) -> None:
        """Refuse a model that a fork may not name."""
        if self.named_models is None:
            raise Refusal("unknown_model", "A fork may name no model here.")
        try:
            await self.named_models.check(name)
        except Refused as error:
            raise Refusal("unknown_model", f"{error}".rstrip(".") + ".") from error

    async def _approve(
        self, identity: RequestIdentity, request: RequestApproval
    ) -> ApprovalGranted | ApprovalDenied | ParametersChanged:
        await self._known(request.workflow_id)
        place = (request.round, request.task, request.attempt, request.step)
        approval = await self.reads.checked(self.queries.approval(request.workflow_id, place))
        if (refusal := judgement.approval_refusal(request, identity, approval, self.now_ms())) is not None:
            raise refusal
        if request.changed_parameters is None or approval is None:
            return judgement.approval_answer(identity, request)
        parameters = judgement.checked_change(request, approval, self.specs)
        return judgement.changed_parameters(identity, request, parameters)

    async def _archive(self, identity: RequestIdentity, request: ArchiveRequest) -> IntakeEvent:
        workflow = request.workflow_id
        stub = await self._known(workflow)
        retention = await self.reads.checked(self.queries.retention(workflow))
        if isinstance(request, RequestErasure):
            check_erasure(stub, retention, self.now_ms(), is_stored=await has_content(self.content, workflow))
        event = archive_event(identity, request, retention)
        if not isinstance(event, ContentErased) or not event.documents:
            return event
        events = [event for *_, event in await self.reads.checked(self.queries.accepted_events(workflow))]
        listed = [document async for document in listed_documents(self.content, workflow, events)]
        gone = [name for name in retention.erased if not await is_stored(self.content, workflow, name)]
        return with_contents(event, events, listed, gone)

    async def _apply_policy(self, identity: RequestIdentity, request: RequestPolicy) -> PolicyApplied:
        current = await self.reads.policy()
        policy_judgement.check_policy(request, identity, current)
        if (field := request.policy.first_cost_field) is not None and self.unpriced:
            raise judgement.Refusal("price_unknown", f"{field}: {price_unknown(self.unpriced)}")
        return policy_judgement.applied_policy(identity, request, current)

    async def _change_rules(self, identity: RequestIdentity, request: RequestRules) -> RulesChanged:
        judgement.check_open(request, await self._known(request.workflow_id))
        round_ = await self.reads.checked(self.queries.open_round(request.workflow_id))
        return policy_judgement.changed_rules(identity, request, round_, await self.reads.policy())

    async def _pause_or_resume(
        self, identity: RequestIdentity, request: RequestPause | RequestResume
    ) -> RoundPaused | RoundResumed:
        judgement.check_open(request, await self._known(request.workflow_id))
        judgement.check_pause(request, await self.reads.checked(self.queries.open_round(request.workflow_id)))
        return judgement.pause_or_resumption(identity, request)

    async def _answer_budget(self, identity: RequestIdentity, request: RequestBudget) -> BudgetGranted | BudgetDenied:
        judgement.check_open(request, await self._known(request.workflow_id))
        round_ = await self.reads.checked(self.queries.open_round(request.workflow_id))
        judgement.check_budget_answer(request, identity, round_, self.now_ms())
        return judgement.budget_answer(identity, request)

    async def _known(self, workflow: str) -> Stub:
        return judgement.known(workflow, await self.reads.stub(workflow))

    async def _earlier(self, workflow: str, last_round: int) -> EarlierRounds:
        """Summarise the rounds so far; what does not fit is put into the content store before it is named."""
        messages = list[ChatMessage]()
        while page := await self.queries.messages(workflow, messages[-1].seq if messages else None):
            messages += page
        has_end = bool(messages) and (messages[0].round, messages[0].kind) == (last_round, "round_end")
        if not has_end or messages[-1].kind != "workflow_start":
            raise Unavailable(f"Postgres was rebuilt and does not hold all {last_round} rounds of {workflow} yet")
        spent = await self.queries.spent(workflow, last_round)
        return await summarise_rounds(last_round, messages, spent, partial(self.content.put, workflow))

    def _terms(
        self, request: Terms, identity: RequestIdentity, policy: AppliedPolicy | None, before: Opening | None = None
    ) -> dict[str, Any]:
        terms = judgement.terms(
            request,
            identity,
            before,
            marks=self.marks,
            default_language=self.default_language,
            lists=self.lists,
            policy=policy,
        )
        judgement.check_prices(terms["budgets"], self._unpriced_for(request))
        return terms

    def _unpriced_for(self, request: Terms) -> Collection[str]:
        """Return the models without a price that may work on the round."""
        fork = request.forked_from if isinstance(request, RequestWorkflow | RequestRound) else None
        if fork is None or fork.model is None or self.named_models is None:
            return self.unpriced
        return self.named_models.unpriced(fork.model)


async def store_documents(
    content: ContentStore, workflow: str, round_number: int, documents: Sequence[GivenDocument]
) -> tuple[DocumentRef, ...]:
    """Store the documents of a round and return them as its opening names them.

    Raises:
        Refusal: a document that is named by its content is not in the content store.
    """
    return tuple(
        [
            await _store(content, workflow, f"r{round_number}d{position}", document)
            for position, document in enumerate(documents, start=1)
        ]
    )


async def _store(content: ContentStore, workflow: str, document_id: str, document: GivenDocument) -> DocumentRef:
    if isinstance(document, InlineDocument):
        name, size = await content.put(workflow, document.data), len(document.data)
    else:
        try:
            name, size = document.content, await content.size(workflow, document.content)
        except MissingContent as error:
            missing = f"Document {document.document_name!r} is not in the content store."
            raise Refusal("document_missing", missing) from error
    media_type = mimetypes.guess_type(document.document_name)[0] or UNKNOWN_TYPE
    return DocumentRef(
        document_id=document_id,
        document_name=document.document_name,
        mime_type=media_type if document.mime_type == UNKNOWN_TYPE else document.mime_type,
        size=size,
        content=name,
    )


HISTORY_BUDGET = 8_000  # bytes, as JSON


ENTRY_BUDGET = 2_000  # bytes, as JSON, of one message in it


DOCUMENTS_BUDGET = 16_000  # bytes, as JSON


LISTS_BUDGET = 3_000  # bytes, as JSON, of the labels whose documents are left out


_MESSAGES = TypeAdapter(tuple[ChatMessage, ...])


async def summarise_rounds(
    last_round: int, messages: Sequence[ChatMessage], spent: Spent, put: Callable[[bytes], Awaitable[str]]
) -> EarlierRounds:
    """Summarise the rounds so far for the opening of the next one.

    Args:
        last_round: the number of the last of them.
        messages: all their messages, newest first.
        spent: their total usage.
        put: stores bytes and returns their commitment; called if something is left out or an address must remain known.
    """
    summary = compact(messages)
    lists = [
        LabelledDocuments(label=label, documents=documents) for label, documents in labelled_documents(messages).items()
    ]
    fitting_lists = _newest_that_fit(lists)
    other_lists = [entry for entry in lists if entry not in fitting_lists]
    left_out = sum(len(entry.documents) for entry in other_lists)
    is_needed_later = left_out or not summary.is_whole or bool(known_addresses(messages))
    everything = _MESSAGES.dump_python(tuple(messages), mode="json", by_alias=True)
    return EarlierRounds(
        last_round=last_round,
        history=summary.text,
        history_left_out=summary.left_out,
        history_ref=await put(dumps(everything)) if is_needed_later else None,
        documents=fitting_lists,
        documents_left_out=left_out,
        lists_left_out=_labels_that_fit(other_lists),
        spent=spent,
    )


class Compact(NamedTuple):
    """The part of a history that an opening has room for."""

    text: str
    left_out: int
    """The number of older messages that are not in the text."""
    is_whole: bool


def compact(messages: Sequence[ChatMessage]) -> Compact:
    """The history as prompts show it, newest first, in at most 8 kB."""
    texts = list(map(render, messages))
    entries = [fitting_text(entry, ENTRY_BUDGET) for entry in texts]
    first_entries = fitting(entries, HISTORY_BUDGET)
    return Compact("\n".join(first_entries), len(entries) - len(first_entries), list(first_entries) == texts)


def _newest_that_fit(lists: Sequence[LabelledDocuments]) -> tuple[LabelledDocuments, ...]:
    """The newest lists that fit as a whole, since a label must not name fewer documents than before; skip others."""
    result, budget = list[LabelledDocuments](), DOCUMENTS_BUDGET
    for entry in lists[:MAX_DOCUMENTS]:
        size = len(dumps(entry.model_dump(mode="json", by_alias=True))) + 1
        if size <= budget:
            result.append(entry)
            budget -= size
    return tuple(result)


def _labels_that_fit(lists: Sequence[LabelledDocuments]) -> tuple[LeftOutList, ...]:
    """The labels of lists that do not fit, with their lengths: first lists of users' documents, then the newest."""
    in_order = sorted(lists, key=lambda entry: not is_request_label(entry.label))
    left_out = [LeftOutList(label=entry.label, count=len(entry.documents)) for entry in in_order]
    return fitting(left_out[:MAX_DOCUMENTS], LISTS_BUDGET)
