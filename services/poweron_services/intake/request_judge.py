"""Judging requests: queries the rows for what a judgement needs, and stores what the event will name."""

import mimetypes
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from poweron_events.codec import ReceivedRequest, is_uuid
from poweron_events.content import ContentStore
from poweron_events.errors import MissingContent, Unavailable
from poweron_events.event import DocumentRef
from poweron_events.execution import ApprovalDenied, ApprovalGranted
from poweron_events.fold.partial import Stub
from poweron_events.fold.state import ChatMessage, Opening
from poweron_events.request import (
    CancellationRequested,
    EarlierRounds,
    GivenDocument,
    InlineDocument,
    RequestApproval,
    RequestCancellation,
    RequestIdentity,
    RequestRound,
    RequestWorkflow,
    RoundRequested,
    Terms,
    WorkflowRequested,
)
from poweron_services.decider.action_lists import EVERYTHING, ActionLists
from poweron_services.intake import judgement
from poweron_services.intake.consistent_reads import ConsistentReads
from poweron_services.intake.earlier_rounds import summarise_rounds
from poweron_services.intake.intake_ports import IntakeQueries
from poweron_services.intake.judgement import IntakeEvent, Refusal
from poweron_services.intake.open_limit import NextCancellation, OpenLimit, no_cancellation

UNKNOWN_TYPE = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class RequestJudge:
    """Judge each request by the state of its workflow.

    Every method raises Unavailable while Postgres or the content store does not answer.
    """

    queries: IntakeQueries
    reads: ConsistentReads
    open_limit: OpenLimit
    content: ContentStore
    now_ms: Callable[[], int]
    actions: Collection[str]
    default_language: str | None
    marks: Collection[str]
    unpriced: Collection[str] = ()
    lists: ActionLists = EVERYTHING
    connections: Collection[str] = ()

    async def judge(
        self, workflow: str, received: ReceivedRequest, next_cancellation: NextCancellation = no_cancellation
    ) -> IntakeEvent:
        """Return the answer to the request; a refusal is an event, too. A cancelled opening does not wait for room."""
        try:
            return await self._judge(workflow, received, next_cancellation)
        except Refusal as refusal:
            return refusal.event(received.identity)

    async def _judge(
        self, workflow: str, received: ReceivedRequest, next_cancellation: NextCancellation
    ) -> IntakeEvent:
        request, identity = received.request, received.identity
        judgement.check(request, self.actions, self.connections)
        if isinstance(request, RequestWorkflow):
            return await self._open(workflow, identity, request, next_cancellation)
        if isinstance(request, RequestRound):
            return await self._open_round(workflow, identity, request, next_cancellation)
        if isinstance(request, RequestApproval):
            return await self._approve(identity, request)
        return await self.cancel(identity, request)

    async def cancel(self, identity: RequestIdentity, request: RequestCancellation) -> CancellationRequested:
        """The cancellation as an event.

        Raises:
            Refusal: there is nothing to cancel.
        """
        stub = await self._known(request.workflow_id)
        judgement.check_cancellation(request, stub)
        if await self.queries.closing(request.workflow_id):
            raise judgement.round_is_over(request)
        return judgement.cancellation(identity, request)

    async def _open(
        self, workflow: str, identity: RequestIdentity, request: RequestWorkflow, next_cancellation: NextCancellation
    ) -> WorkflowRequested:
        await self._check_fork(request)
        await self.open_limit.admit(identity.source, next_cancellation)
        return WorkflowRequested(
            round=1,
            forked_from=request.forked_from,
            workflow_mode=request.workflow_mode,
            documents=await store_documents(self.content, workflow, 1, request.documents),
            request=identity,
            **self._terms(request),
        )

    async def _open_round(
        self, workflow: str, identity: RequestIdentity, request: RequestRound, next_cancellation: NextCancellation
    ) -> RoundRequested:
        stub = await self._known(workflow)
        judgement.check_round(request, stub)
        last = len(stub.openings)
        await self._check_fork(request)
        await self.open_limit.admit(identity.source, next_cancellation)
        return RoundRequested(
            round=last + 1,
            forked_from=request.forked_from,
            workflow_mode=request.workflow_mode,
            documents=await store_documents(self.content, workflow, last + 1, request.documents),
            request=identity,
            earlier=await self._earlier(workflow, last),
            **self._terms(request, await self.queries.opening(workflow, last)),
        )

    async def _check_fork(self, request: RequestWorkflow | RequestRound) -> None:
        if (fork := request.forked_from) is None:
            return
        known = is_uuid(fork.workflow)
        judgement.check_fork(fork, await self.queries.accepted_hash(fork.workflow, fork.seq) if known else None)

    async def _approve(self, identity: RequestIdentity, request: RequestApproval) -> ApprovalGranted | ApprovalDenied:
        await self._known(request.workflow_id)
        place = (request.round, request.task, request.attempt, request.step)
        approval = await self.queries.approval(request.workflow_id, place)
        if (refusal := judgement.approval_refusal(request, approval, self.now_ms())) is not None:
            raise refusal
        return judgement.approval_answer(identity, request)

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

    def _terms(self, request: Terms, before: Opening | None = None) -> dict[str, Any]:
        language = self.default_language
        terms = judgement.terms(request, before, marks=self.marks, default_language=language, lists=self.lists)
        judgement.check_prices(terms["budgets"], self.unpriced)
        return terms


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
