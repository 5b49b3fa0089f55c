"""Cancellations that a process must obey: those that were in the log of requests before it could look there."""

from dataclasses import dataclass, field

from simulation.ledger import key_of
from simulation.processes import Process

from poweron_events.codec import InvalidRequest, Undecodable, decode_request
from poweron_events.envelope import Recorded
from poweron_events.log import Record
from poweron_events.request import RequestCancellation, RequestIdentity
from poweron_events.step_events import ActionStarted


@dataclass
class Cancellations:
    """The cancellations of one world: when each was sent and whether it has an answer, and when each claim was made."""

    waiting: dict[str, dict[RequestIdentity, tuple[int, float]]] = field(default_factory=dict)
    """By workflow and request: the round, and the moment at which it landed first."""
    settled: set[RequestIdentity] = field(default_factory=set)
    """The requests that have an answer: sent again, they get no other."""
    claimed: dict[tuple[str, str], float] = field(default_factory=dict)
    """By process and step: when the newest claim landed."""

    def landed(self, record: Record, now: float) -> None:
        """Take in a record of the requests."""
        try:
            received = decode_request(record.value, record.headers)
        except (Undecodable, InvalidRequest):
            return
        if isinstance(request := received.request, RequestCancellation) and received.identity not in self.settled:
            waiting = self.waiting.setdefault(request.workflow_id, {})
            waiting.setdefault(received.identity, (request.round, now))

    def answered(self, recorded: Recorded, now: float) -> None:
        """Take in a record of the events: an answer, accepted or not, or a claim."""
        event = recorded.envelope.event
        identity = getattr(event, "request", None)
        if isinstance(identity, RequestIdentity):
            self.settled.add(identity)
            self.waiting.get(recorded.envelope.workflow_id, {}).pop(identity, None)
        if isinstance(event, ActionStarted):
            self.claimed[recorded.envelope.source.rpartition("/")[2], key_of(recorded)] = now

    def ignored(self, process: Process, workflow: str, key: str, round_: int, *, once: bool) -> bool:
        """Return whether an effect comes although a cancellation of the round waited before the process could look.

        Every process looks at its start, and before an effect that must not come twice, after its claim.
        """
        looked = self.claimed.get((process.name, key), process.began) if once else process.began
        return any(number == round_ and at < looked for number, at in self.waiting.get(workflow, {}).values())
