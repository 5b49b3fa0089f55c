"""A world that follows from its seed: one log, one Postgres, processes that come and go, and all kinds of trouble.

For some seconds, counted and not waited for, everything goes wrong that can. Then nothing does any more,
and everything must come to rest.
"""

import functools
import hashlib
import secrets
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any
from unittest.mock import patch

from simulation import invariants
from simulation.cancellations import Cancellations
from simulation.clock import VirtualLoop
from simulation.faults import Chance
from simulation.full_fold import FullFold
from simulation.ledger import key_of
from simulation.minds import CLASSES, Shelf
from simulation.postgres import Postgres
from simulation.processes import BROKER_START_MS, LAYOUTS, Process
from simulation.trouble import Trouble
from simulation.upstream import SOURCE, Upstream
from simulation.wire import EVENTS, SimulatedLog

from poweron_events import codec
from poweron_events.fold.partial import PartialFold
from poweron_events.log import Record
from poweron_events.round_events import BudgetRequested
from poweron_events.step_events import ActionStarted, ApprovalRequested, ParametersChanged
from poweron_projections import rows
from poweron_projections.requests import REQUESTS
from poweron_services.decider.approval import NEVER, Approval, marks
from poweron_services.telemetry.instrumentation import _AT

CHAOS = 2.0  # seconds
QUIET = 45.0  # seconds after which what has not ended is stuck
LOOK = 0.05  # seconds between looks whether everything is at rest
APPROVALS = [NEVER, NEVER, Approval({"test.once"}, expires_ms=1_500), Approval({"*"}, expires_ms=700)]
ENDS_WITHIN = 60.0  # seconds in which the tasks of all processes must end when they are told to


@dataclass(frozen=True)
class Outcome:
    """What became of a world."""

    seed: int
    flags: tuple[invariants.Flag, ...]
    struck: Counter[str]
    digest: str
    records: int
    turns: int
    seconds: float
    trace: tuple[str, ...] = ()


class World:
    """One run, from its seed to its outcome. Its workflows have ids that follow from `source`."""

    def __init__(self, seed: int, source: str = SOURCE) -> None:
        self.seed = seed
        self.chance = Chance(seed)
        self.loop = VirtualLoop(Random(seed + 1_000_000_007))
        self.trace: list[str] = []
        self.flags: list[invariants.Flag] = []
        self.effects: list[tuple[str, str, int, int]] = []
        self.read: dict[tuple[str, str], int] = {}  # by process and step, how far it had read when its action began
        self.once: Counter[str] = Counter()
        self.cancellations = Cancellations()
        self.partitions = self.chance.one_of([1, 2])
        self.full = FullFold(self.flag)
        self.log = SimulatedLog(self.partitions, self._landed)
        self.postgres = Postgres(self.loop, self.chance)
        self.shelf = Shelf(self.chance)
        self.approval = self.chance.one_of(APPROVALS)
        self.layout = self.chance.one_of(LAYOUTS)
        self.processes: list[Process] = []
        self._names: dict[str, Process] = {}
        self.upstream = Upstream(
            self.loop,
            self.log,
            self.chance,
            self.full,
            self.postgres,
            marked=self.approval.patterns,
            source=source,
        )
        self.trouble = Trouble(self)
        self._over = False

    def run(self) -> Outcome:
        with self._determined():
            self.upstream.begin(self.chance.one_of([1, 1, 2, 3]))
            for roles in self.layout:
                self.start(roles)
            self.trouble.begin(CHAOS)
            self.loop.later(CHAOS + LOOK, self._look)
            self.loop.run(lambda: self._over)
            self.flags += invariants.check(self)
            outcome = self._outcome()
            self._bury()
        return outcome

    # --- what processes and troubles do ----------------------------------------------------------------

    def start(self, roles: frozenset[str]) -> Process:
        process = Process(
            f"p{len(self.processes)}",
            roles,
            loop=self.loop,
            log=self.log,
            postgres=self.postgres,
            shelf=self.shelf,
            chance=self.chance,
            approval=self.approval,
            is_told=len(self.processes) % 2 == 0,
            happened=self._effect,
            took=self._took,
            begins=self._begins,
            fails=self._fails,
        )
        self.processes.append(process)
        self._names[process.name] = process
        self.note("start", process.name, *sorted(roles))
        return process

    def process(self, source: str) -> Process | None:
        """The process that an event names as its source."""
        return self._names.get(source.rpartition("/")[2])

    def note(self, *what: object) -> None:
        """Remember something for the trace."""
        self.trace.append(f"{self.loop.time():9.4f} {self.loop.turns:7} {' '.join(map(str, what))}")

    def flag(self, name: str, *detail: object) -> None:
        self.flags.append((name, detail))
        self.note("FLAG", name, *detail)

    def _landed(self, record: Record) -> None:
        if record.topic != EVENTS:
            self.note("landed", record.topic, record.partition, record.offset)
            self.cancellations.landed(record, self.loop.time())
            return
        self.full.take(record)
        place = (record.partition, record.offset)
        recorded = self.full.records[place]
        if recorded is None:
            self.note("landed", place, "nonsense")
            return
        envelope = recorded.envelope
        self.cancellations.answered(recorded, self.loop.time())
        cause = envelope.cause.offset if envelope.cause else None
        told = (type(envelope.event).__name__, envelope.source, "cause", cause, self.full.verdicts[place])
        self.note("landed", place, envelope.workflow_id[:8], *told, recorded.sha256[:8])
        if isinstance(envelope.event, ApprovalRequested) and self.full.verdicts[place] == "accepted":
            self.upstream.judge(envelope.workflow_id, envelope.event)
        if isinstance(envelope.event, ParametersChanged) and self.full.verdicts[place] == "accepted":
            self.upstream.judge(envelope.workflow_id, envelope.event)
        if isinstance(envelope.event, BudgetRequested) and self.full.verdicts[place] == "accepted":
            self.upstream.grant(envelope.workflow_id, envelope.event)
        if isinstance(envelope.event, ActionStarted) and self.full.verdicts[place] == "accepted":
            self.upstream.hesitate(envelope.workflow_id, envelope.event)
        for name, detail in invariants.acted_on_the_past(self, recorded):
            self.flag(name, detail)

    def _effect(self, process: Process, key: str, action: str) -> None:
        workflow = self._workflow_of(key)
        partition = self.log.partition_of(EVENTS, workflow.encode())
        end = self.log.end(partition)
        self.effects.append((process.name, key, partition, end))
        self.once[key] += CLASSES[action] == "at_most_once"
        self.note("effect", process.name, key[:8], action)
        round_ = self.full.now(workflow).current.number
        if self.cancellations.ignored(process, workflow, key, round_, once=CLASSES[action] == "at_most_once"):
            self.flag("CANCELLATION_IGNORED", process.name, workflow, action)
        if marks(self.approval.patterns, action) and key not in self.full.ledger.approved:
            self.flag("UNAPPROVED", process.name, workflow, action)
        if not self.full.authority.may_run(workflow, key, action, self.read.get((process.name, key), end)):
            self.flag("UNAPPROVED", process.name, workflow, action, "by the policy")

    def _begins(self, process: Process, workflow: str, key: str | None = None) -> None:
        """An action begins, or a call that nobody reserved; one that was reserved before a pause may still be made."""
        read = invariants.has_read(self, process, workflow)
        if key is not None and read is not None:
            self.read[process.name, key] = read
        if invariants.reads_pause(self, process, workflow):
            self.flag("BEGUN_WHILE_PAUSED", process.name, workflow)

    def _took(self, tokens: int) -> None:
        """A model has taken a request: whatever becomes of the answer, its tokens are used."""
        workflow = _AT.get()
        assert workflow is not None
        self.full.ledger.take_request(workflow, tokens)

    def _fails(self) -> None:
        """A model is away: the call is made again, unless somebody pauses the round meanwhile."""
        workflow = _AT.get()
        assert workflow is not None
        self.upstream.pause_while_model_is_away(workflow.id, workflow.current.number)

    def _workflow_of(self, key: str) -> str:
        for recorded in reversed(self.full.records.values()):
            started = recorded is not None and isinstance(recorded.envelope.event, ActionStarted)
            if started and key_of(recorded) == key:
                return recorded.envelope.workflow_id
        return ""

    # --- the end ---------------------------------------------------------------------------------------

    def _look(self) -> None:
        self._over = self._at_rest() or self.loop.time() > CHAOS + QUIET
        self.loop.later(LOOK, self._look)

    def _at_rest(self) -> bool:
        if self.upstream.left or self.log.in_flight or any(self.full.now(id_).is_open for id_ in self.full.history):
            return False
        if any(self.postgres.offset(number) != self.log.end(number) for number in range(self.partitions)):
            return False
        answered = {row.id for row in self.postgres.table(REQUESTS)}
        return self.upstream.asked.keys() <= answered and all(map(self._rests, self.processes))

    def _rests(self, process: Process) -> bool:
        if process.serves and any(invariants.places(process)):
            return False  # somebody still thinks, though nobody may wait for it
        partitions_held = process.worker._held if process.worker and process.serves else None
        held = partitions_held.partitions.values() if partitions_held else ()
        return all(part.position == self.log.end(part.number) and not part.parked for part in held)

    def _outcome(self) -> Outcome:
        self.chance.struck["transactions in conflict"] += self.postgres.conflicts
        self.chance.struck += self.full.ledger.seen
        said = "\n".join([*self.trace, *map(repr, self.flags)])
        return Outcome(
            seed=self.seed,
            flags=tuple((name, repr(detail)) for name, detail in self.flags),
            struck=self.chance.struck,
            digest=hashlib.sha256(said.encode()).hexdigest(),
            records=len(self.full.records),
            turns=self.loop.turns,
            seconds=self.loop.time(),
            trace=tuple(self.trace),
        )

    def _bury(self) -> None:
        """Let nothing of this world be left for the next one."""
        over = self.loop.time() + ENDS_WITHIN
        for process in self.processes:
            process.bury()
        self.loop.run(lambda: self.loop.time() > over or all(self._is_buried(process) for process in self.processes))

    @staticmethod
    def _is_buried(process: Process) -> bool:
        process.owner.tasks = [task for task in process.owner.tasks if not task.done()]
        return not process.owner.tasks

    # --- nothing but the seed --------------------------------------------------------------------------

    @contextmanager
    def _determined(self) -> Iterator[None]:
        """No clock but the loop's, no chance but the seed's; every verdict of a reader is compared."""
        apply, decode, tokens = PartialFold.apply, codec.decode, Random(self.seed + 2_000_000_011)

        def compared(fold: PartialFold, recorded: Any, *arguments: Any) -> Any:
            verdict = apply(fold, recorded, *arguments)
            self.full.compare(fold.workflows.get(recorded.envelope.workflow_id), recorded, verdict)
            return verdict

        @functools.cache
        def decode_once(*arguments: Any, **named: Any) -> Any:
            """What is read of a record is the same for everybody; reading is not what is simulated."""
            return decode(*arguments, **named)

        def nanoseconds() -> int:
            return BROKER_START_MS * 1_000_000 + round(self.loop.time() * 1_000_000_000)

        with (
            patch.object(time, "time_ns", nanoseconds),
            patch.object(time, "monotonic_ns", nanoseconds),
            patch.object(time, "time", lambda: nanoseconds() / 1e9),
            patch.object(time, "monotonic", self.loop.time),
            patch.object(secrets, "token_hex", lambda size=32: tokens.randbytes(size).hex()),
            patch.object(secrets, "token_bytes", lambda size=32: tokens.randbytes(size)),
            patch.object(PartialFold, "apply", compared),
            patch.object(codec, "decode", decode_once),
            patch.object(rows, "migrate", self.postgres.migrate),
        ):
            yield
