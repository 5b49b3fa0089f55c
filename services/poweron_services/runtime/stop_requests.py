"""Stop requests: the cancellations, denials and pauses in `poweron.requests` that intake has not answered yet.

A process reads them when a partition is assigned and before each action that must not run twice, never in between
(docs/decisions/0061). It starts no work on a workflow that one of them would stop.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass

from poweron_events import topics
from poweron_events.codec import decode_request
from poweron_events.envelope import Recorded
from poweron_events.errors import Refused, Unavailable
from poweron_events.fold.state import Workflow
from poweron_events.log import EventLog, Record
from poweron_events.request import RequestApproval, RequestCancellation, RequestIdentity, RequestPause

_TYPES = (RequestCancellation.TYPE.encode(), RequestApproval.TYPE.encode(), RequestPause.TYPE.encode())
_STOPPED = frozenset({"none", "closing", "draining", "ended"})


@dataclass(slots=True, eq=False)
class StopRequest:
    """A cancellation, a denial or a pause, and where it was last read."""

    request: RequestCancellation | RequestApproval | RequestPause
    partition: int
    offset: int
    answer_end: int | None = None
    """The end of the workflow's partition when this request was seen to be settled; its answer is before it."""

    @property
    def group(self) -> str:
        """The group of intake that answers the request at the latest."""
        return topics.INTAKE_GROUP if isinstance(self.request, RequestCancellation) else topics.URGENT_INTAKE_GROUP

    def would_stop(self, workflow: Workflow) -> bool:
        """Return whether intake may accept the request while the workflow is in this state."""
        if workflow.phase in _STOPPED or self.request.round != workflow.current.number:
            return False
        if isinstance(self.request, RequestCancellation):
            return True
        if isinstance(self.request, RequestPause):
            return not workflow.is_paused
        place = (self.request.round, self.request.task, self.request.attempt, self.request.step)
        return place == workflow.place and workflow.step.approval in ("asked", "granted")


class StopRequests:
    """The unanswered stop requests that this process has read, of all workflows."""

    def __init__(self, event_log: EventLog) -> None:
        self._log = event_log
        self._waiting: dict[str, dict[RequestIdentity, StopRequest]] = {}
        self._read: dict[int, int] = {}  # by partition, the offset to read from next
        self._reading = asyncio.Lock()
        self._begun = self._succeeded = 0  # the numbers of the newest reads

    async def read(self) -> None:
        """Read all requests up to the end of the topic as of now, except those that intake has committed.

        Calls at the same time share one read that begins after them.

        Raises:
            Unavailable: the log cannot be reached.
        """
        target = self._begun + 1
        async with self._reading:
            if self._succeeded < target:
                self._begun += 1
                number = self._begun
                await self._read_up_to_now()
                self._succeeded = number

    def hold(self, workflow: Workflow) -> bool:
        """Return whether work on the workflow must wait for the answer to a stop request."""
        waiting = self._waiting.get(workflow.id)
        return waiting is not None and any(stop.would_stop(workflow) for stop in waiting.values())

    def answered(self, recorded: Recorded) -> None:
        """Forget the request that an accepted event answers."""
        if recorded.envelope.workflow_id not in self._waiting:
            return
        identity = getattr(recorded.envelope.event, "request", None)
        if isinstance(identity, RequestIdentity):
            self._forget(recorded.envelope.workflow_id, identity)

    async def forget_answered(self, answered: Callable[[str, str], Awaitable[bool]]) -> None:
        """Forget the requests that the rows hold an answer to, given by source and id.

        Call it once the snapshot of a partition is loaded: later answers are folded from there.
        """
        for workflow_id, waiting in list(self._waiting.items()):
            for identity in list(waiting):
                if await answered(identity.source, identity.id):
                    self._forget(workflow_id, identity)

    async def forget_settled(
        self, answered: Callable[[str, str], Awaitable[bool]], is_folded: Callable[[int, int], bool]
    ) -> frozenset[str]:
        """Forget requests that the rows hold an answer to or intake has committed, once all before that is folded.

        An answer may lie before what this process folded, and a request that cannot be answered becomes a dead letter.
        Intake commits a request only after all before it, and one of those may wait until this workflow has ended.

        Args:
            answered: given a source and an id, whether the rows hold an answer to this request.
            is_folded: given a partition of the events and an offset, whether everything before it is folded here.

        Returns:
            The workflows whose requests were forgotten.

        Raises:
            Unavailable: the log cannot be reached.
        """
        if not self._waiting:
            return frozenset()
        settled = await self._settled(answered)
        ends = await self._log.ends(topics.EVENTS.name)
        forgotten = set[str]()
        for workflow_id, waiting in list(self._waiting.items()):
            number = self._log.partition_of(topics.EVENTS.name, workflow_id.encode())
            for identity, stop in list(waiting.items()):
                if stop.answer_end is None and stop in settled:
                    stop.answer_end = ends[number]
                if stop.answer_end is not None and is_folded(number, stop.answer_end):
                    self._forget(workflow_id, identity)
                    forgotten.add(workflow_id)
        return frozenset(forgotten)

    async def _settled(self, answered: Callable[[str, str], Awaitable[bool]]) -> set[StopRequest]:
        committed = await self._committed()
        open_stops = [
            (identity, stop)
            for waiting in self._waiting.values()
            for identity, stop in waiting.items()
            if stop.answer_end is None
        ]
        settled = {stop for _, stop in open_stops if stop.offset < committed[stop.group].get(stop.partition, 0)}
        with suppress(Unavailable):  # without Postgres, commits alone decide
            for identity, stop in open_stops:
                if stop not in settled and await answered(identity.source, identity.id):
                    settled.add(stop)
        return settled

    async def _committed(self) -> Mapping[str, Mapping[int, int]]:
        groups = (topics.INTAKE_GROUP, topics.URGENT_INTAKE_GROUP)
        return {group: (await self._log.group_state(topics.REQUESTS.name, group)).committed for group in groups}

    async def _read_up_to_now(self) -> None:
        """Read up to the current end; what both groups have committed is skipped, since it is answered."""
        committed = await self._committed()
        ends = await self._log.ends(topics.REQUESTS.name)
        for number, end in ends.items():
            position = min(offsets.get(number, 0) for offsets in committed.values())
            before = self._read.get(number, 0)
            self._read[number] = max(position, before if before <= end else 0)  # shorter: the topic was recreated
        async with aclosing(self._log.read(topics.REQUESTS.name, dict(self._read), ends)) as batches:
            async for records in batches:
                for record in records:
                    self._take(record)
        self._read.update({number: max(end, self._read[number]) for number, end in ends.items()})

    def _take(self, record: Record) -> None:
        match = stop_request(record)
        if match is not None:
            identity, stop = match
            self._waiting.setdefault(stop.request.workflow_id, {})[identity] = stop

    def _forget(self, workflow_id: str, identity: RequestIdentity) -> None:
        waiting = self._waiting.get(workflow_id, {})
        waiting.pop(identity, None)
        if not waiting:
            self._waiting.pop(workflow_id, None)


def stop_request(record: Record) -> tuple[RequestIdentity, StopRequest] | None:
    """Read a record as a stop request, or return None; a search of the bytes rules out most others undecoded."""
    value, wire_type = record.value or b"", record.headers.get("ce_type")
    if wire_type not in _TYPES and not any(name in value for name in _TYPES):
        return None
    try:
        received = decode_request(record.value, record.headers)
    except Refused:
        return None
    match received.request:
        case RequestCancellation() | RequestPause() | RequestApproval(decision="deny") as request:
            return received.identity, StopRequest(request, record.partition, record.offset)
        case _:
            return None
