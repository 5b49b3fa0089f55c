"""Settle a request: append its answer until the rows hold one; an answer is final (E-15)."""

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial

from poweron_events import topics
from poweron_events.codec import MAX_EVENT, ReceivedRequest, encode
from poweron_events.envelope import envelop, rfc3339, source
from poweron_events.errors import Refused
from poweron_events.log import EventLog, Message
from poweron_events.request import RequestIdentity, RequestRefused
from poweron_services import telemetry
from poweron_services.intake.consistent_reads import ConsistentReads
from poweron_services.intake.intake_ports import IntakeQueries
from poweron_services.intake.judgement import IntakeEvent, Refusal, cancellation_of
from poweron_services.intake.round_limits import NextCancellation, no_cancellation

Judge = Callable[[], Awaitable[IntakeEvent]]
"""Judges a request by the state of its workflow at the time of the call."""


class Settlement:
    """Give each request one answer."""

    def __init__(
        self,
        event_log: EventLog,
        queries: IntakeQueries,
        reads: ConsistentReads,
        *,
        instance: str,
        now_ms: Callable[[], int],
        spans: telemetry.Sink | None,
    ) -> None:
        self._log = event_log
        self._queries = queries
        self._reads = reads
        self._source = source("intake", instance)
        self._now_ms = now_ms
        self._spans = spans

    async def settle(
        self,
        workflow: str,
        identity: RequestIdentity,
        judge: Judge,
        *,
        is_new: bool = False,
        next_cancellation: NextCancellation = no_cancellation,
    ) -> None:
        """Append until Postgres holds an answer to this request.

        The cancellation of a round that is only now opened is appended together with the opening, so that no work
        begins.

        For an opening that `is_new`, the rows need only be as recent as those relied on before: it cannot have an
        answer yet, and if it was sent twice under two keys, the fold accepts only one.

        A request may be impossible because another queue or process has meanwhile answered it, so before a refusal is
        appended, the rows are queried again. If an answer is superseded, another event came first, and the workflow is
        judged again in its current state. If that answer is superseded, too, the request is refused.

        Raises:
            Refused: the rows do not hold the refusal either; nothing more is appended.
        """
        if await self._is_answered_again(workflow, identity) if is_new else await self.is_answered(workflow, identity):
            return
        for judge_ in (judge, judge, partial(_refuse_as_superseded, identity)):
            event = await judge_()
            if isinstance(event, RequestRefused) and await self.is_answered(workflow, identity):
                return
            offset = await self.append(workflow, identity, event, await next_cancellation())
            await self._reads.reach(workflow, offset + 1)
            if await self._queries.answered(identity.source, identity.id):
                return
        raise Refused("the log did not take the answer: what intake wrote was superseded, a refusal, too")

    async def is_answered(self, workflow: str, identity: RequestIdentity) -> bool:
        """Return whether the request was answered by the time of the call.

        An answer in the rows is final, however old it is.
        """
        if await self._queries.answered(identity.source, identity.id):
            return True
        await self._reads.reach_end(workflow)
        return await self._queries.answered(identity.source, identity.id)

    async def _is_answered_again(self, workflow: str, identity: RequestIdentity) -> bool:
        """Return whether a new request has an answer in rows that are as recent as those relied on before."""
        await self._reads.reach_again(workflow)
        return await self._queries.answered(identity.source, identity.id)

    async def append(
        self, workflow: str, identity: RequestIdentity, event: IntakeEvent, cancelling: ReceivedRequest | None = None
    ) -> int:
        """Append the answer, with the cancellation of the round that it opens, and return its offset."""
        with ExitStack() as spans:
            answer = spans.enter_context(telemetry.answer_span(workflow, identity, event, self._spans))
            values = [self._encode(workflow, identity, answer)]
            if cancelling is not None and (cancellation := cancellation_of(answer.event, cancelling)) is not None:
                span = telemetry.answer_span(workflow, cancelling.identity, cancellation, self._spans)
                values.append(self._record_value(workflow, spans.enter_context(span)))
            offsets = await self._log.append(
                topics.EVENTS.name, [Message(workflow.encode(), value) for value in values]
            )
        return offsets[0]

    def _encode(self, workflow: str, identity: RequestIdentity, answer: telemetry.AnswerSpan) -> bytes:
        """Encode the answer as a record value; refuse a request that is too large to become an event."""
        try:
            return self._record_value(workflow, answer)
        except Refused:
            detail = f"The prompt and the other fields take more than {MAX_EVENT} bytes together; shorten the prompt."
            answer.event = RequestRefused(request=identity, reason="invalid", code="request_too_large", detail=detail)
            return self._record_value(workflow, answer)

    def _record_value(self, workflow: str, answer: telemetry.AnswerSpan) -> bytes:
        time = rfc3339(datetime.fromtimestamp(self._now_ms() / 1000, UTC))
        of = answer.traceparent
        return encode(envelop(answer.event, workflow_id=workflow, source=self._source, time=time, traceparent=of))


async def _refuse_as_superseded(identity: RequestIdentity) -> RequestRefused:
    detail = "What this request was answered with had no effect, twice: other events came before it."
    return Refusal("answer_superseded", detail).event(identity)
