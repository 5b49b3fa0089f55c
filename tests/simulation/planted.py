"""Bugs to be planted into the code that ships: a simulation that does not find them proves nothing.

Each takes away one law. They are planted in the process that runs the worlds, before the first.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from poweron_events.codec import decode, sha256
from poweron_events.envelope import Cause, Recorded, slot
from poweron_events.execution import ActionStarted
from poweron_events.fold import evolve as rules
from poweron_events.fold import partial
from poweron_events.fold.state import Start, Verdict, Workflow, change_step
from poweron_events.log import Message
from poweron_projections import projection
from poweron_services.roles import folding, role

REMEMBERED = 1_000  # states before the last accepted event


def last_wins() -> None:
    """E-03: a later event takes the slot that an earlier one had filled."""
    evolve = rules.evolve
    before: dict[int, tuple[Workflow, str, Workflow]] = {}

    def plain(workflow: Workflow, recorded: Recorded) -> tuple[Workflow, Verdict]:
        after, verdict = evolve(workflow, recorded)
        event = recorded.envelope.event
        if verdict == "accepted" and event is not None and after.head is not workflow.head:
            before[id(after)] = (workflow, slot(event), after)
            if len(before) > REMEMBERED:
                del before[next(iter(before))]
        return after, verdict

    def planted(workflow: Workflow, recorded: Recorded) -> tuple[Workflow, Verdict]:
        after, verdict = plain(workflow, recorded)
        earlier, filled, known = before.get(id(workflow), (None, None, None))
        event = recorded.envelope.event
        if (
            verdict != "superseded"
            or earlier is None
            or known is not workflow
            or event is None
            or slot(event) != filled
        ):
            return after, verdict
        again, verdict = plain(earlier._replace(seq=workflow.seq, last=workflow.last), recorded)
        return (again, verdict) if verdict == "accepted" else (after, "superseded")

    for module in (rules, partial, projection):
        module.evolve = planted


def no_read_back() -> None:
    """E-08: the action runs as soon as its claim is sent, whoever may have been first."""
    append, messages = role.Worker._append, role.Worker._messages
    sent: dict[str, Cause] = {}

    def remembered(worker: role.Worker, name: Any, workflow: Workflow, events: Sequence[Any]) -> Sequence[Message]:
        made = messages(worker, name, workflow, events)
        sent[workflow.id] = Cause(decode(made[0].value).id, sha256(made[0].value))
        return made

    async def planted(worker: role.Worker, name: Any, workflow: Workflow, events: Sequence[Any]) -> None:
        await append(worker, name, workflow, events)
        started, executor = events[0], worker._executor
        if not isinstance(started, ActionStarted) or executor is None:
            return
        start = Start(sent[workflow.id], started.claim, started.effect_class, worker._now_ms(), started.deadline_ms)
        claim = executor._claims.get(workflow.id)
        if claim is None or claim.token != started.claim or claim.begun:
            return
        claim.begun = True
        try:
            starts = (*workflow.step.starts, start)
            events = await executor._run(change_step(workflow._replace(phase="started"), starts=starts))
        finally:
            executor._places.release()
        await append(worker, name, change_step(workflow, starts=starts), events)

    role.Worker._append, role.Worker._messages = planted, remembered


def not_caught_up() -> None:
    """E-06: a process acts on what it knows, though there is more to be folded."""
    folding.Partition.caught_up = property(lambda _: True)


BUGS: Mapping[str, Callable[[], None]] = {
    "last wins": last_wins,
    "no read-back": no_read_back,
    "not caught up": not_caught_up,
}
