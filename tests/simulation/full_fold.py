"""The full fold: what every record of the log means to somebody who has read it all, from the first one on."""

from collections import defaultdict
from collections.abc import Callable

from simulation.authority import Authority
from simulation.ledger import Ledger

from poweron_events.codec import Undecodable, read_record
from poweron_events.envelope import Recorded
from poweron_events.fold import evolve as rules
from poweron_events.fold.evolve import answers_head
from poweron_events.fold.state import Verdict, Workflow
from poweron_events.log import Record
from poweron_events.request import PolicyApplied, RequestRefused, RoundRequested, WorkflowRequested
from poweron_events.step_events import ActionStarted

MOST_IN_VAIN = 1  # answers of one role to one state; after three the fold lets nobody act
Place = tuple[int, int]
"""Partition and offset."""


class FullFold:
    """Takes in every record the moment it lands; what readers make of it is compared with this."""

    def __init__(self, flag: Callable[..., None]) -> None:
        self.records: dict[Place, Recorded | None] = {}
        self.verdicts: dict[Place, Verdict] = {}
        self.after: dict[Place, Workflow] = {}
        self.history: dict[str, list[tuple[int, Workflow]]] = defaultdict(list)
        self.opened: dict[str, list[str]] = defaultdict(list)
        self.ledger = Ledger(flag)
        self.authority = Authority(flag, self._see)
        self._in_vain: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        self._flag = flag

    def take(self, record: Record) -> None:
        place = (record.partition, record.offset)
        try:
            recorded = self.records[place] = read_record(record)
        except Undecodable:
            self.records[place] = None
            return
        id_ = recorded.envelope.workflow_id
        before = self.now(id_)
        workflow, verdict = rules.evolve(before, recorded)
        if verdict == "superseded" and answers_head(before, recorded):
            self._answered_in_vain(before, recorded)
        self.verdicts[place], self.after[place] = verdict, workflow
        self.history[id_].append((record.offset, workflow))
        if verdict == "accepted":
            self._accepted(recorded, workflow)

    def _answered_in_vain(self, workflow: Workflow, recorded: Recorded) -> None:
        """A role has read all that it answers to, so that nobody was faster: the fold and the role disagree."""
        assert workflow.head is not None
        role = recorded.envelope.source.rpartition("/")[0]
        answers = self._in_vain[workflow.id, workflow.head.id, role]
        answers.add(recorded.sha256)  # the same bytes are one answer, whose append was repeated
        if len(answers) > MOST_IN_VAIN:
            self._flag("SUPERSEDED_AGAIN", workflow.id, workflow.place, workflow.phase, recorded.envelope.source)

    def _accepted(self, recorded: Recorded, workflow: Workflow) -> None:
        event = recorded.envelope.event
        self.ledger.take(recorded, workflow)
        self.authority.take(recorded)
        if isinstance(event, WorkflowRequested | RoundRequested):
            self.opened[event.request.id].append(f"{workflow.id} round {event.round}")
        if workflow.round is not None and workflow.place[3] > workflow.current.opening.max_steps:
            self._flag("STEP_LIMIT", workflow.id, workflow.place)

    def _see(self, what: str) -> None:
        self.ledger.seen[what] += 1

    def now(self, id_: str) -> Workflow:
        history = self.history.get(id_)
        return history[-1][1] if history else Workflow(id_)

    def at(self, id_: str, end: int) -> Workflow:
        """The workflow as the records before this offset tell it."""
        return next((state for offset, state in reversed(self.history[id_]) if offset < end), Workflow(id_))

    def between(self, id_: str, end: int, until: int) -> list[Workflow]:
        """Every state of the workflow from that end of the log to the record at `until`, without it."""
        return [self.at(id_, end), *(state for offset, state in self.history[id_] if end <= offset < until)]

    def accepted(self) -> list[Recorded]:
        return [recorded for place, recorded in self.records.items() if self.verdicts.get(place) == "accepted"]

    def claims(self, key: Callable[[Recorded], str]) -> dict[tuple[str, str], list[Place]]:
        """Where the accepted claims are, by idempotency key and worker."""
        found: dict[tuple[str, str], list[Place]] = defaultdict(list)
        for recorded in self.accepted():
            if isinstance(event := recorded.envelope.event, ActionStarted):
                found[key(recorded), event.worker].append((recorded.partition, recorded.offset))
        return found

    def compare(self, held: Workflow | None, recorded: Recorded, verdict: Verdict | None) -> None:
        """What a reader made of a record; None: it holds no such workflow, and the record had no effect."""
        place = (recorded.partition, recorded.offset)
        expected = self.verdicts[place]
        policy = isinstance(recorded.envelope.event, PolicyApplied)  # roles do not follow the policies
        harmless = verdict is None and (expected != "accepted" or policy)
        told = type(recorded.envelope.event).__name__
        if verdict != expected and not harmless:
            self._flag("READERS_DISAGREE", place, told, "reader", verdict, "full fold", expected)
        elif held is not None and gist(held) != gist(self.after[place]):
            self._flag("STATE_DIFFERS", place, told, gist(held), gist(self.after[place]))
        elif held is None and verdict == "accepted" and not isinstance(recorded.envelope.event, RequestRefused):
            self._flag("STATE_DIFFERS", place, told, "accepted, but not held")


def gist(workflow: Workflow) -> tuple[object, ...]:
    """What two folds of a workflow have to agree upon."""
    task = workflow.round.task if workflow.round and workflow.is_open else None
    starts = tuple((start.claim, start.due_ms) for start in task.step.starts) if task else ()
    counts = (task.actions, task.retries, task.used, task.step.approved_by, task.step.escalated) if task else ()
    policy = workflow.round.policy.number if workflow.round and workflow.round.policy else None
    ending = workflow.round.ending if workflow.round else None
    return (
        workflow.phase,
        workflow.head,
        workflow.openings,
        workflow.place,
        workflow.frozen,
        ending,
        starts,
        counts,
        policy,
    )
