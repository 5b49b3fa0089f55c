"""Bugs to be planted into the code that ships: a simulation that does not find them proves nothing.

Each takes away one law. They are planted in the process that runs the worlds, before the first.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from poweron_events.codec import decode, sha256
from poweron_events.envelope import Recorded, slot
from poweron_events.execution import ActionStarted
from poweron_events.fold import evolve as rules
from poweron_events.fold import partial
from poweron_events.fold.state import Verdict, Workflow
from poweron_events.log import Message
from poweron_projections import projection
from poweron_services.decider import approval
from poweron_services.intake import settlement
from poweron_services.models import call
from poweron_services.roles import rejections
from poweron_services.runtime import partitions, worker

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
    append = worker.Worker._append

    async def planted(worker: worker.Worker, name: Any, workflow: Workflow, events: Sequence[Any], *rest: Any) -> None:
        messages, _ = worker._appender.encoded(name, workflow, events)
        await append(worker, name, workflow, events, *rest)
        executor = worker._executor
        claim = executor and executor._claims.get(workflow.id)
        if claim and isinstance(events[-1], ActionStarted) and events[-1].claim == claim.token and not claim.begun:
            with executor._claims.begun(claim):
                started = _as_if_read_back(worker, workflow, messages)
                await append(worker, "executor", started, await executor._execution.run(started))

    worker.Worker._append = planted


def _as_if_read_back(worker: worker.Worker, workflow: Workflow, messages: Sequence[Message]) -> Workflow:
    """The workflow as it would be if nobody else had written anything."""
    for message in messages:
        value, now_ms = message.value, worker._now_ms()
        recorded = Recorded(decode(value), partition=0, offset=2**40, time_ms=now_ms, sha256=sha256(value))
        workflow, _ = rules.evolve(workflow, recorded)
    return workflow


def not_caught_up() -> None:
    """E-06: a process acts on what it knows, though there is more to be folded."""
    partitions.Partition.caught_up = property(lambda _: True)


def nobody_asked() -> None:
    """An action that a person must approve runs at once."""
    approval.Approval.must_be_asked = lambda *_: False
    approval.Approval.why_not = lambda *_: None


def no_budget() -> None:
    """B-02: no budget is looked at before the model is called."""
    call.Caller._within_budget = lambda _, workflow, prompt, *__: prompt


def asked_for_ever() -> None:
    """An answer that cannot be used is asked for again, however often."""
    rules.MAX_REFUSALS = rejections.MAX_REFUSALS = 9


def never_gives_up() -> None:
    """E-15: an answer that is superseded is given again, however often."""

    async def planted(settling: settlement.Settlement, workflow: str, identity: Any, judge: Any) -> None:
        while not await settling.is_answered(workflow, identity):
            event = await judge()
            await settling._reads.reach(workflow, await settling.append(workflow, identity, event) + 1)

    settlement.Settlement.settle = planted


BUGS: Mapping[str, Callable[[], None]] = {
    "last wins": last_wins,
    "no read-back": no_read_back,
    "not caught up": not_caught_up,
    "nobody asked": nobody_asked,
    "no budget": no_budget,
    "asked for ever": asked_for_ever,
    "never gives up": never_gives_up,
}
