"""Follow what was sent until it is answered: callbacks, timeouts, the outcome, and the progress of each step."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Final

from poweron_events.archive_events import (
    ArchiveRequest,
    ContentErased,
    RequestErasure,
    RequestExport,
    RequestRetention,
    WorkflowExported,
    WorkflowRetained,
)
from poweron_events.client import Heard, hear, send
from poweron_events.codec import Undecodable
from poweron_events.codes import Code
from poweron_events.errors import PowerOnError, Unavailable
from poweron_events.event import NANO, DocumentRef, Event
from poweron_events.fold.state import Ending, Workflow
from poweron_events.log import ProgressTopic
from poweron_events.progress import ProgressUnit, StepProgress
from poweron_events.request import (
    CancellationRequested,
    PolicyApplied,
    RefusalReason,
    RequestApproval,
    RequestBudget,
    RequestCancellation,
    RequestIdentity,
    RequestPause,
    RequestRefused,
    RequestResume,
    RequestRules,
    RoundPaused,
    RoundResumed,
    RulesChanged,
)
from poweron_events.round_events import BudgetDenied, BudgetGranted, RoundCancelled, RoundCompleted, RoundFailed, Totals
from poweron_events.step_events import ApprovalDenied, ApprovalGranted, ParametersChanged
from poweron_events.task_cancellation import cancel_task
from poweron_projections import bootstrap
from poweron_services.client.client_errors import (
    AskedFor,
    NotServed,
    PendingRequest,
    RoundOverdue,
    RowsBehind,
    WorkflowPending,
)
from poweron_services.client.connect import Connections
from poweron_services.client.workflow_snapshot import WorkflowSnapshot

POSITION_PERIOD = 0.02  # seconds between reads of the projector's position
HINT_AFTER: Final[Mapping[AskedFor, float]] = {
    "request": 10.0,
    "cancellation": 2.0,
    "answer": 2.0,
    "pause": 2.0,
    "resumption": 2.0,
    "policy": 2.0,
    "export": 2.0,
    "erasure": 2.0,
    "retention": 2.0,
}
"""Seconds until a hint that no process has picked it up; a serving process takes a cancellation or answer at once."""
TAKEN_WITHIN = 60.0  # seconds in which a process must pick up what was sent
QUOTA_READ_WITHIN = 5.0  # seconds in which Postgres must say whether a request waits for a quota
GRACE = 60.0  # seconds after a round's deadline until waiting for its end stops
PROJECTED_WITHIN = 60.0  # seconds from the last event until it must be in the rows


def _ignore(_: object) -> None:
    """Do nothing."""


async def _no_quota_reason() -> None:
    """Return None, for what waits for no quota."""


@dataclass(frozen=True, slots=True)
class Callbacks:
    """What to call while waiting for an answer. Each is called in the event loop, and must not block it."""

    heard: Callable[[Heard], None] = _ignore
    """Called with every event as it happens."""
    requested: Callable[[str], None] = _ignore
    """Called with the workflow's id once what was sent is in the log, and so remains valid."""
    untaken: Callable[[AskedFor], None] = _ignore
    """Called once if no process picks up what was sent within `HINT_AFTER`: possibly none is serving."""
    quota_reached: Callable[[str], None] = _ignore
    """Called instead if the request waits for a quota of the policy, with the reason: which, and until when."""
    pending: Callable[[PendingRequest], None] = _ignore
    """Called with the request that a cancellation is about, if it has no answer yet."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a request."""

    workflow_id: str
    status: Ending
    message: str
    documents: tuple[DocumentRef, ...]
    totals: Totals
    """The steps, tokens and costs of the round."""
    duration_ms: int
    """The time from sending the request until the rows hold the answer."""
    round: int | None = None
    """The round that ended; None if the request was refused."""
    refusal: RefusalReason | None = None
    """Why the request was refused; None if it was accepted."""
    code: Code | None = None
    """Why the request was refused or the round failed; None otherwise."""

    def as_object(self) -> dict[str, Any]:
        """Return the outcome with the fields of `--json`."""
        return {
            "workflowId": self.workflow_id,
            "round": self.round,
            "status": "refused" if self.refusal else self.status,
            "code": self.code,
            "message": self.message,
            "documents": [document.model_dump(mode="json", by_alias=True) for document in self.documents],
            "steps": self.totals.steps,
            "tokens": self.totals.input_tokens + self.totals.output_tokens,
            "costUsd": self.totals.cost_nano_usd / NANO,
            "durationMs": self.duration_ms,
        }


def step_words(task: int, step: int) -> str:
    """Return the words with which front ends name the place of an event."""
    return f"task {task} step {step}"


def waits_for_quota(reason: str) -> str:
    """Return the sentence for `Callbacks.quota_reached`."""
    return f"The request waits: {reason}."


def not_taken_yet(asked: AskedFor) -> str:
    """Return the sentence for `Callbacks.untaken`, to which a front end adds how to start serving."""
    return f"No process has taken the {asked} yet. It is in the log and is carried out as soon as a process serves."


class RequestWaiter:
    """Waits for the answer to what was sent, up to a deadline."""

    def __init__(
        self,
        workflow_id: str,
        asked: AskedFor,
        callbacks: Callbacks,
        *,
        news: int = 0,
        round_: int = 1,
        quota_reason: Callable[[], Awaitable[str | None]] = _no_quota_reason,
    ) -> None:
        """Create a waiter.

        Args:
            workflow_id: the workflow.
            asked: what was sent.
            callbacks: called with what happens meanwhile.
            news: the offset of the first event to report; earlier ones only rebuild the workflow's state.
            round_: the round that a request opens.
            quota_reason: returns which quota the request waits for, if it waits for one.
        """
        self._id = workflow_id
        self._asked: AskedFor = asked
        self._callbacks = callbacks
        self._news = news
        self._round = round_
        self._quota_reason = quota_reason
        self._last: Heard | None = None
        self._taken = False

    async def until_answered(self, hearing: AsyncGenerator[Heard, None]) -> Heard:
        """Return the last of the given records of the workflow, which is the answer.

        Raises:
            NotServed: no process picked up what was sent in time; it remains in the log.
            WorkflowPending: the request waits for a quota of the policy; it remains in the log.
            RoundOverdue: a process picked it up, but the round did not end in time.
        """
        hint = asyncio.create_task(self._hint())
        try:
            async with asyncio.timeout(TAKEN_WITHIN) as deadline, aclosing(hearing):
                async for record in hearing:
                    self._take(record, deadline)
        except TimeoutError as error:
            raise await self._overdue_error() from error
        finally:
            await cancel_task(hint)
        assert self._last is not None
        return self._last

    def _take(self, record: Heard, deadline: asyncio.Timeout) -> None:
        self._last = record
        if record.recorded.offset < self._news:
            return
        self._callbacks.heard(record)
        self._taken = self._taken or _takes(self._asked, record)
        if self._taken and record.workflow.is_paused:
            deadline.reschedule(None)
        elif self._taken and record.workflow.is_open:
            ends_within = (_due_ms(record.workflow) - record.recorded.time_ms) / 1000 + GRACE
            deadline.reschedule(asyncio.get_running_loop().time() + ends_within)

    async def _hint(self) -> None:
        await asyncio.sleep(HINT_AFTER[self._asked])
        reason = None if self._taken else await self._reason_of_quota()
        if self._taken:
            return
        if reason is not None:
            self._callbacks.quota_reached(reason)
        else:
            self._callbacks.untaken(self._asked)

    async def _overdue_error(self) -> NotServed | RoundOverdue | WorkflowPending:
        if self._taken and self._last is not None:
            return RoundOverdue(self._id, self._last.workflow.current.number)
        if (reason := await self._reason_of_quota()) is not None:
            pending = PendingRequest(TAKEN_WITHIN, 0, is_served=True, key=None, quota_reason=reason)
            return WorkflowPending(self._id, pending, self._round)
        return NotServed(self._id, self._asked, TAKEN_WITHIN)

    async def _reason_of_quota(self) -> str | None:
        with suppress(TimeoutError):
            async with asyncio.timeout(QUOTA_READ_WITHIN):
                return await self._quota_reason()
        return None


_TAKEN_BY: Final[Mapping[AskedFor, tuple[type[Event], ...]]] = {
    "cancellation": (CancellationRequested,),
    "answer": (ApprovalGranted, ApprovalDenied, ParametersChanged, BudgetGranted, BudgetDenied),
    "pause": (RoundPaused,),
    "resumption": (RoundResumed,),
    "policy": (PolicyApplied, RulesChanged),
    "export": (WorkflowExported,),
    "erasure": (ContentErased,),
    "retention": (WorkflowRetained,),
}
"""The events that show that a process has picked up what was sent."""


def _takes(asked: AskedFor, record: Heard) -> bool:
    """Return whether a process has picked up what was sent; an open round shows that only for requests."""
    if asked == "request":
        return record.workflow.is_open
    return isinstance(record.event, _TAKEN_BY[asked]) and record.verdict == "accepted"


def _due_ms(workflow: Workflow) -> int:
    """Return the time by which something must happen: an answer of a person may take longer than the round."""
    if (question := workflow.current.question) is not None:
        return question.due_ms
    return workflow.step.approval_due_ms if workflow.phase == "approve" else workflow.current.due_ms


RoundRequest = RequestCancellation | RequestApproval | RequestBudget | RequestPause | RequestResume | RequestRules
_ASKED: Final[Mapping[type[Event], AskedFor]] = {
    RequestCancellation: "cancellation",
    RequestApproval: "answer",
    RequestBudget: "answer",
    RequestPause: "pause",
    RequestResume: "resumption",
    RequestRules: "policy",
    RequestExport: "export",
    RequestErasure: "erasure",
    RequestRetention: "retention",
}


async def send_and_wait(
    connections: Connections,
    request: RoundRequest | ArchiveRequest,
    snapshot: WorkflowSnapshot,
    *,
    identity: RequestIdentity,
    callbacks: Callbacks,
    key: bytes | None = None,
) -> Heard:
    """Send a request about a workflow or a round of it; return the record that answers it, once in the rows.

    Raises:
        NotServed: no process picked up the request in time; it remains in the log.
        RoundOverdue: a process picked it up, but the round did not end in time.
        RowsBehind: the answer is in the log, but the rows do not show it yet.
        Unavailable: a server cannot be reached.
    """
    asked = _ASKED[type(request)]
    round_ = snapshot.last_round + 1 if isinstance(request, ArchiveRequest) else request.round
    is_opened = snapshot.stub.is_open or round_ <= snapshot.last_round
    start, before = snapshot.position, snapshot.after_last_round
    if is_opened:
        start, before = snapshot.stub.openings[-1], snapshot.before_last_round
    receipt = await send(
        connections.log,
        request,
        source=identity.source,
        request_id=identity.id,
        start=start,
        key=key,
        seal=connections.seal,
    )
    callbacks.requested(request.workflow_id)
    waiter = RequestWaiter(request.workflow_id, asked, callbacks, news=snapshot.position)
    record = await waiter.until_answered(hear(connections.log, receipt, before))
    await wait_for_rows(connections, receipt.partition, record.workflow)
    return record


async def wait_for_rows(connections: Connections, partition: int, workflow: Workflow) -> None:
    """Wait until the rows hold the workflow's last event, for `PROJECTED_WITHIN`.

    Raises:
        RowsBehind: they do not hold it in time, or Postgres is unavailable.
    """
    try:
        async with asyncio.timeout(PROJECTED_WITHIN):
            while await _position(connections, partition) <= workflow.last:  # noqa: ASYNC110 - Postgres must be polled
                await asyncio.sleep(POSITION_PERIOD)
    except TimeoutError as error:
        raise RowsBehind(workflow.id, PROJECTED_WITHIN) from error


async def _position(connections: Connections, partition: int) -> int:
    with suppress(Unavailable):
        return (await bootstrap.positions(connections.pool)).get(partition, 0)
    return 0


def outcome(record: Heard, duration_ms: int) -> Outcome:
    """Return the outcome of the request that this record answers."""
    workflow = record.workflow
    event = record.event
    if isinstance(event, RequestRefused):
        message = f"The request was refused ({event.reason.replace('_', ' ')}). {event.detail}"
        refusal, code = event.reason, event.precise_code
        return Outcome(workflow.id, "failed", message, (), Totals(), duration_ms, refusal=refusal, code=code)
    assert isinstance(event, RoundCompleted | RoundFailed | RoundCancelled)
    ending = workflow.current.ending
    assert ending is not None
    return Outcome(
        workflow.id,
        ending,
        event.message,
        event.documents,
        event.totals,
        duration_ms,
        event.round,
        code=event.code if isinstance(event, RoundFailed) else None,
    )


RETRY_PERIOD: Final = 10.0  # seconds until reading the topic is retried

UNIT_WORDS: Final[dict[ProgressUnit, str]] = {
    "documents_read": "documents read",
    "pages_read": "pages read",
    "passages_searched": "passages searched",
    "parts_answered": "parts answered",
    "pages_fetched": "pages fetched",
    "tool_steps": "steps of the tool",
}


def amount(done: int, total: int | None, unit: str) -> str:
    """Format the number of units done, with the total if it is known."""
    of = "" if total is None else f" of {total:,}"
    return f"{done:,}{of} {unit}"


async def follow_amounts(
    topic: ProgressTopic, workflow_id: str, current: Callable[[], Workflow | None]
) -> AsyncGenerator[str, None]:
    """Yield the progress of the running step in words, each time it changes; `current` returns the workflow so far."""
    last = ""
    async with aclosing(follow_progress(topic, workflow_id)) as following:
        async for progress in following:
            workflow = current()
            text = f"{step_words(progress.task, progress.step)}: {amount_of(progress)}"
            if text != last and workflow is not None and tells_of_step(progress, workflow):
                last = text
                yield text


def amount_of(progress: StepProgress) -> str:
    """Return the progress of a step in words; the total is never less than what is done."""
    total = None if progress.total is None else max(progress.total, progress.done)
    return amount(progress.done, total, UNIT_WORDS[progress.unit])


async def follow_progress(topic: ProgressTopic, workflow_id: str) -> AsyncGenerator[StepProgress, None]:
    """Yield the newest progress of each batch about the workflow, without end; after an error, reading is retried."""
    async with aclosing(follow_all_progress(topic, workflow_id.encode())) as following:
        async for newest in following:
            yield newest[workflow_id]


async def follow_all_progress(
    topic: ProgressTopic, key: bytes | None = None
) -> AsyncGenerator[dict[str, StepProgress], None]:
    """Yield the newest progress of each workflow of each batch, by workflow id; in the same way."""
    while True:
        with suppress(PowerOnError):
            async with aclosing(topic.tail(key)) as tail:
                async for records in tail:
                    newest = dict[str, StepProgress]()
                    for record in records:
                        with suppress(Undecodable):
                            progress = StepProgress.read(record)
                            newest[progress.workflow_id] = progress
                    if newest:
                        yield newest
        await asyncio.sleep(RETRY_PERIOD)


def tells_of_step(progress: StepProgress, workflow: Workflow) -> bool:
    """Return whether the progress is about the action that is running now."""
    step = workflow.step if workflow.is_open and workflow.phase == "started" else None
    return (
        step is not None
        and (progress.workflow_id, progress.place) == (workflow.id, workflow.place)
        and progress.try_ == len(step.starts)
        and step.selection is not None
        and progress.action == step.selection.action
    )
