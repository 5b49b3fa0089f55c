"""The client's side: send a request over any `EventLog` and receive every event of its workflow until the answer."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import assert_never

from poweron_events import topics
from poweron_events.archive_events import ArchiveEvent
from poweron_events.codec import Undecodable, encode_request, read_record
from poweron_events.envelope import Recorded, rfc3339
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Verdict, Workflow
from poweron_events.instance_events import InstanceEnded, InstanceStarted
from poweron_events.log import EventLog, Message
from poweron_events.request import (
    CancellationRequested,
    DocumentErased,
    PolicyApplied,
    RequestCancellation,
    RequestIdentity,
    RequestRefused,
    RequestWorkflow,
    RoundPaused,
    RoundRequested,
    RoundResumed,
    RulesChanged,
    WorkflowRequested,
    workflow_id,
)
from poweron_events.round_events import (
    ActionsPlanned,
    AnswerRejected,
    BudgetDenied,
    BudgetGranted,
    BudgetRequested,
    DeadlinePassed,
    RoundCancelled,
    RoundCompleted,
    RoundFailed,
    StageFailed,
    TaskReviewed,
    TasksPlanned,
)
from poweron_events.step_events import (
    ActionCompleted,
    ActionSelected,
    ActionStarted,
    ApprovalDenied,
    ApprovalEscalated,
    ApprovalGranted,
    ApprovalRequested,
    CallReserved,
    ObservationRecorded,
    ParametersChanged,
    ParametersRejected,
    ParametersSet,
    RefinementDecided,
    SelectionRejected,
)
from poweron_events.stream import Request, WorkflowEvent


@dataclass(frozen=True, slots=True)
class Heard:
    """A record of the workflow, whether it was accepted, and the state of the workflow after it."""

    recorded: Recorded
    verdict: Verdict
    workflow: Workflow

    @property
    def event(self) -> WorkflowEvent | None:
        """The event; None if its type was introduced by a newer release."""
        return self.recorded.envelope.event


@dataclass(frozen=True, slots=True)
class Sent:
    """A request that is in the log, and where its answer will appear."""

    workflow_id: str
    identity: RequestIdentity
    partition: int
    start: int
    round: int | None
    """The round whose end answers the request; None if the request opens a round, or is answered before one ends."""


async def ask(
    log: EventLog, request: Request, *, source: str, request_id: str, start: int | None = None
) -> AsyncGenerator[Heard, None]:
    """Send a request and yield every record of its workflow until the round ends or the request is refused.

    Sending the same (source, id) again repeats the same request and has no further effect.

    Args:
        log: the log that takes the request and holds the events.
        request: the request to send.
        source: the sender, as a URI reference such as `/crm/offers`.
        request_id: the sender's own id of this request.
        start: the offset to read from. By default, a new workflow is read from the current end of the log and an
            existing workflow from the beginning. Pass 0 if the request may have been sent before.

    Raises:
        Unavailable: the log cannot be reached; send the request again with the same id and `start=0`.
        Refused: the request is too large to be sent.
    """
    sent = await send(log, request, source=source, request_id=request_id, start=start)
    async with aclosing(hear(log, sent)) as hearing:
        async for heard in hearing:
            yield heard


async def send(
    log: EventLog,
    request: Request,
    *,
    source: str,
    request_id: str,
    start: int | None = None,
    key: bytes | None = None,
    seal: Callable[[bytes], bytes] | None = None,
) -> Sent:
    """Send a request without waiting for an answer; arguments and errors as in `ask`.

    `key` replaces the workflow id as the record's key: requests with the same key are answered in order.
    `seal` proves to intake that the sender has verified the actor.
    """
    identity = RequestIdentity(source=source, id=request_id)
    workflow = _target(request, identity)
    partition = log.partition_of(topics.EVENTS.name, workflow.encode())
    if start is None:
        start = (await log.ends(topics.EVENTS.name))[partition] if isinstance(request, RequestWorkflow) else 0
    value = encode_request(request, source=source, request_id=request_id, time=rfc3339(datetime.now(UTC)))
    if seal is not None and request.actor is not None and request.actor.verified:
        value = seal(value)
    await log.append(topics.REQUESTS.name, [Message(key or workflow.encode(), value)])
    about = request.round if isinstance(request, RequestCancellation) else None
    return Sent(workflow, identity, partition, start, about)


async def hear(log: EventLog, sent: Sent, before: Workflow | None = None) -> AsyncGenerator[Heard, None]:
    """Yield every record of the workflow, from the point where the request was sent to its answer.

    Args:
        log: the log that holds the events.
        sent: the request.
        before: the state of the workflow at `sent.start`; by default, a workflow without events.

    Raises:
        Unavailable: the log cannot be reached.
    """
    workflow, mine, taken = before or Workflow(sent.workflow_id), sent.round, False
    async with aclosing(log.tail(topics.EVENTS.name, {sent.partition: sent.start})) as tail:
        async for records in tail:
            for record in records:
                if record.key != sent.workflow_id.encode():
                    continue
                with suppress(Undecodable):
                    heard = _heard(workflow, read_record(record))
                    workflow = heard.workflow
                    mine = _opened_by(heard, sent.identity) or mine
                    yield heard
                    if _answers(heard, sent.identity, mine, taken=taken):
                        return
                    taken = taken or _takes(heard, sent.identity)


def _target(request: Request, identity: RequestIdentity) -> str:
    if isinstance(request, RequestWorkflow):
        return workflow_id(identity.source, identity.id)
    return request.workflow_id


def _heard(workflow: Workflow, recorded: Recorded) -> Heard:
    after, verdict = evolve(workflow, recorded)
    return Heard(recorded, verdict, after)


def _takes(heard: Heard, identity: RequestIdentity) -> bool:
    """Return whether this record accepts the request; if intakes raced, a refusal that follows is ignored."""
    return heard.verdict == "accepted" and getattr(heard.event, "request", None) == identity


def _opened_by(heard: Heard, identity: RequestIdentity) -> int | None:
    """Return the number of the round that this request opened."""
    opened = isinstance(heard.event, WorkflowRequested | RoundRequested) and _takes(heard, identity)
    return heard.workflow.current.number if opened else None


def _answers(heard: Heard, identity: RequestIdentity, mine: int | None, *, taken: bool) -> bool:
    event = heard.event
    match event:
        case (
            ApprovalGranted()
            | ApprovalDenied()
            | ParametersChanged()
            | BudgetGranted()
            | BudgetDenied()
            | RoundPaused()
            | RoundResumed()
            | RulesChanged()
            | PolicyApplied()
            | ArchiveEvent()
        ):
            return _takes(heard, identity)
        case RoundCompleted() | RoundFailed() | RoundCancelled():
            return heard.verdict == "accepted" and event.round == mine
        case RequestRefused():
            return event.request == identity and not taken
        case (
            None
            | WorkflowRequested()
            | RoundRequested()
            | CancellationRequested()
            | DocumentErased()
            | InstanceStarted()
            | InstanceEnded()
            | CallReserved()
            | TasksPlanned()
            | ActionsPlanned()
            | ActionSelected()
            | SelectionRejected()
            | ParametersSet()
            | ParametersRejected()
            | ApprovalRequested()
            | ApprovalEscalated()
            | ActionStarted()
            | ActionCompleted()
            | ObservationRecorded()
            | RefinementDecided()
            | TaskReviewed()
            | AnswerRejected()
            | StageFailed()
            | BudgetRequested()
            | DeadlinePassed()
        ):
            return False
        case _:
            assert_never(event)
