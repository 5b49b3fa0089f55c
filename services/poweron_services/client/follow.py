"""Following a request to its answer: who is told what, how long nobody is waited for, and what came of it."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass

from poweron_events import topics
from poweron_events.client import Heard, hear, send
from poweron_events.codec import is_uuid
from poweron_events.errors import Refused, Unavailable, Unserved
from poweron_events.event import DocumentRef
from poweron_events.fold.partial import Stub
from poweron_events.fold.state import Ending, Workflow
from poweron_events.outcome import RoundCancelled, RoundCompleted, RoundFailed, Totals
from poweron_events.request import (
    CancellationRequested,
    RefusalReason,
    RequestApproval,
    RequestCancellation,
    RequestIdentity,
    RequestRefused,
)
from poweron_projections import bootstrap, reader
from poweron_projections.catch_up import catch_up
from poweron_services.client.connect import Connections

POSITION_PERIOD = 0.02  # seconds between looks at the projector's position
PATIENCE = 10.0  # seconds without any event until the user is told that nobody may be serving
SOON = 2.0  # seconds until the same is told of what whoever serves does at once
TAKEN_WITHIN = 60.0  # seconds until nobody is waited for any longer
GRACE = 60.0  # seconds after a round's deadline until its end is not waited for any longer
PROJECTED_WITHIN = 60.0  # seconds from the last event until it must be in the rows

NOBODY_YET = (
    "Nobody has taken the request yet. It is in the log and is carried out as soon as somebody serves: "
    "start `poweron serve` on these servers, if none runs there. Ctrl-C stops waiting, and the request stands."
)


@dataclass(frozen=True, slots=True)
class Told:
    """Who is told what while a workflow runs."""

    heard: Callable[[Heard], None]
    """Every event as it happens."""
    requested: Callable[[str], None]
    """The workflow's id, once the request is in the log: it stands from now on."""
    progress: Callable[[str], None]
    """In sentences, what is going on around the workflow."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a request."""

    workflow_id: str
    status: Ending
    message: str
    documents: tuple[DocumentRef, ...]
    totals: Totals
    duration_ms: int
    round: int | None = None
    """The round that ended; None where the request was refused."""
    refusal: RefusalReason | None = None
    """Why the request was refused; None where it was taken."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a workflow stands, by rows that were as far as the log."""

    stub: Stub
    position: int
    """The offset from which on everything about the workflow is news."""

    @property
    def last_round(self) -> int:
        return len(self.stub.openings)

    @property
    def before_last_round(self) -> Workflow:
        return self.stub.before(self.last_round)

    @property
    def after_last_round(self) -> Workflow:
        return self.stub.before(self.last_round + 1)


async def standing(connections: Connections, workflow_id: str) -> Standing:
    """How the workflow stands now.

    Raises:
        Refused: there is no such workflow.
        Unavailable: the log or Postgres cannot be reached.
    """
    if not is_uuid(workflow_id):
        raise Refused(f"{workflow_id!r} is not a workflow's id. `poweron workflows` lists them")
    name = topics.EVENTS.name
    partition = connections.log.partition_of(name, workflow_id.encode())
    await catch_up(connections.log, connections.pool, {partition: (await connections.log.ends(name))[partition]})
    position, stubs = await bootstrap.look_up(connections.pool, partition, [workflow_id])
    stub = stubs.get(workflow_id)
    if stub is None or not stub.openings:
        raise Refused(f"There is no workflow {workflow_id}. `poweron workflows` lists those there are")
    return Standing(stub, position)


async def at_rest(connections: Connections, workflow_id: str) -> Standing:
    """The same for a workflow that can be followed up on.

    Raises:
        Refused: there is no such workflow, or a round of it still runs.
        Unavailable: the log or Postgres cannot be reached.
    """
    found = await standing(connections, workflow_id)
    if found.stub.is_open:
        waits = await reader.approvals(connections.pool, workflow_id)
        answers = (
            f"It waits for an approval, which `poweron approve {workflow_id}` and `poweron deny {workflow_id}` answer. "
        )
        raise Refused(
            f"Round {found.last_round} of workflow {workflow_id} is still running. {answers if waits else ''}"
            f"`poweron watch {workflow_id}` follows it to its end, `poweron cancel {workflow_id}` cancels it; "
            "then ask again"
        )
    return found


async def projected(connections: Connections, partition: int, workflow: Workflow) -> None:
    """Wait until the rows hold the workflow's last event."""
    try:
        async with asyncio.timeout(PROJECTED_WITHIN):
            while await _position(connections, partition) <= workflow.last:  # noqa: ASYNC110 - Postgres tells nobody
                await asyncio.sleep(POSITION_PERIOD)
    except TimeoutError as error:
        raise Unavailable(
            f"The answer is in the log of workflow {workflow.id}, but the rows in Postgres do not hold it after "
            f"{PROJECTED_WITHIN:g} s. `poweron events {workflow.id}` brings them there and shows it."
        ) from error


async def _position(connections: Connections, partition: int) -> int:
    with suppress(Unavailable):
        return (await bootstrap.positions(connections.pool)).get(partition, 0)
    return 0


class Following:
    """A request that is followed to its answer, but not for ever."""

    def __init__(self, workflow_id: str, told: Told, *, news: int = 0) -> None:
        """`news` is the offset from which on events are told; those before only say how the workflow stands."""
        self._id = workflow_id
        self._told = told
        self._news = news
        self._last: Heard | None = None
        self._taken = False

    def requested(self) -> None:
        """The request is in the log."""
        self._told.requested(self._id)

    async def until_answered(self, hearing: AsyncGenerator[Heard, None], patience: float) -> Heard:
        """The record that answers the request.

        Args:
            hearing: the records of the workflow.
            patience: seconds until the user is told that nobody may be serving.

        Raises:
            Unserved: nobody has taken the request, or nobody has ended the round; the request stands.
        """
        hint = asyncio.get_running_loop().call_later(patience, self._hint)
        try:
            async with asyncio.timeout(TAKEN_WITHIN) as deadline, aclosing(hearing):
                async for heard in hearing:
                    self._take(heard, deadline)
        except TimeoutError as error:
            raise Unserved(self._over() if self._taken else self._standing()) from error
        finally:
            hint.cancel()
        assert self._last is not None
        return self._last

    def _take(self, heard: Heard, deadline: asyncio.Timeout) -> None:
        self._last = heard
        if heard.recorded.offset < self._news:
            return
        self._told.heard(heard)
        self._taken = self._taken or self._takes(heard)
        if self._taken and heard.workflow.is_open:
            ends_within = (_due_ms(heard.workflow) - heard.recorded.time_ms) / 1000 + GRACE
            deadline.reschedule(asyncio.get_running_loop().time() + ends_within)

    def _takes(self, heard: Heard) -> bool:
        """Whether somebody has taken the request: they have opened a round."""
        return heard.workflow.is_open

    def _hint(self) -> None:
        if not self._taken:
            self._told.progress(NOBODY_YET)

    def _standing(self) -> str:
        return (
            f"Nobody has taken the request within {TAKEN_WITHIN:g} s. It stands: as soon as a `poweron serve` "
            f"runs on these servers, it does the work, and `poweron watch {self._id}` shows it."
        )

    def _over(self) -> str:
        return (
            f"The time for workflow {self._id} is over, and nobody has ended it. "
            f"As soon as a `poweron serve` runs on these servers, it does."
        )


def _due_ms(workflow: Workflow) -> int:
    """Until when something must happen: a person may take longer than the round."""
    return workflow.step.approval_due_ms if workflow.phase == "approve" else workflow.current.due_ms


class FollowingCancellation(Following):
    """A cancellation that is followed to the end of its round."""

    def _takes(self, heard: Heard) -> bool:
        """Whether somebody has passed a cancellation on: that the round goes on tells nothing."""
        return isinstance(heard.event, CancellationRequested) and heard.verdict == "accepted"

    def _standing(self) -> str:
        return (
            f"Nobody has taken the cancellation within {TAKEN_WITHIN:g} s. It stands: as soon as a `poweron serve` "
            f"runs on these servers, it cancels the round, and `poweron watch {self._id}` shows it."
        )


async def answered(
    connections: Connections,
    request: RequestCancellation | RequestApproval,
    *,
    identity: RequestIdentity,
    found: Standing,
    following: Following,
) -> Heard:
    """Send a request about the workflow's last round; the record that answers it, once the rows hold it.

    Raises:
        Unavailable: a server cannot be reached.
        Unserved: nobody serves; the request stands.
    """
    sent = await send(
        connections.log,
        request,
        source=identity.source,
        request_id=identity.id,
        start=found.stub.openings[-1],
    )
    following.requested()
    heard = await following.until_answered(hear(connections.log, sent, found.before_last_round), SOON)
    await projected(connections, sent.partition, heard.workflow)
    return heard


def outcome(heard: Heard, duration_ms: int) -> Outcome:
    """What came of the request that this record answers."""
    workflow = heard.workflow
    match heard.event:
        case RoundCompleted() | RoundFailed() | RoundCancelled() as end:
            ending = workflow.current.ending
            assert ending is not None
            return Outcome(workflow.id, ending, end.message, end.documents, end.totals, duration_ms, end.round)
        case RequestRefused(reason=reason, detail=detail):
            message = f"The request was refused ({reason.replace('_', ' ')}). {detail}"
            return Outcome(workflow.id, "failed", message, (), Totals(), duration_ms, refusal=reason)
        case other:
            raise AssertionError(f"{other!r} answers no request")
