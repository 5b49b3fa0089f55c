"""Bugs to be planted into the code that ships: a simulation that does not find them proves nothing.

Each takes away one law. They are planted in the process that runs the worlds, before the first.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from poweron_events import policy
from poweron_events.envelope import Recorded, slot
from poweron_events.fold import evolve as rules
from poweron_events.fold import partial, pauses, questions, state
from poweron_events.fold.evolve import superseded
from poweron_events.fold.state import Verdict, Workflow
from poweron_events.round_events import StageFailed
from poweron_projections import projection
from poweron_services.decider import approval
from poweron_services.decider import rules as budget_rules
from poweron_services.intake import round_limits, settlement
from poweron_services.models import call
from poweron_services.roles import executor
from poweron_services.runtime import append, partitions, reservations, stop_requests, worker

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


def effect_ahead() -> None:
    """E-08, E-17: the action runs as soon as its claim is written, whoever may have been first."""
    act = worker.Worker._act

    async def planted(worker: worker.Worker, work: Any, workflow: Workflow, role: Any) -> None:
        await act(worker, work, workflow, role)
        executor = worker._executor
        claim = executor and executor._claims.get(workflow.id)
        started = last_written.get(workflow.id)
        is_claimed = claim and started and started.phase == "started" and started.step.starts[-1].claim == claim.token
        if is_claimed and not claim.begun:
            with executor._claims.begun(claim):
                await worker._put("executor", started, await executor._execution.run(started))[1]

    put, last_written = worker.Worker._put, dict[str, Workflow | None]()

    def noted(worker: worker.Worker, role: Any, workflow: Workflow, events: Sequence[Any]) -> Any:
        written, appended = put(worker, role, workflow, events)
        last_written[workflow.id] = written[-1].after
        return written, appended

    worker.Worker._act, worker.Worker._put = planted, noted
    append.READ_BACK_FIRST = ()


def ending_ahead() -> None:
    """E-17: a round ends on what has not been read back."""
    worker.TIMED_PHASES = worker.TIMED_PHASES | {"closing"}


def uncharged() -> None:
    """E-17: what was thought behind an event that had no effect costs nothing."""
    rows = projection.usage_rows

    def planted(recorded: Recorded, seq: int, verdict: Verdict) -> Any:
        cause = recorded.envelope.cause
        is_ahead = verdict == "superseded" and cause is not None and cause.offset is None
        return [] if is_ahead else rows(recorded, seq, verdict)

    projection.usage_rows = planted


def not_caught_up() -> None:
    """E-06: a process acts on what it knows, though there is more to be folded."""
    partitions.Partition.caught_up = property(lambda _: True)


def cancellation_unseen() -> None:
    """A process does not look for cancellations that intake has not answered yet."""

    async def planted(stops: stop_requests.StopRequests) -> None:
        pass

    stop_requests.StopRequests.read = planted


def nobody_asked() -> None:
    """An action that a person must approve runs at once."""
    approval.Approval.must_be_asked = lambda *_: False
    approval.Approval.why_not = lambda *_: None


def no_budget() -> None:
    """B-02: no budget is looked at before the model is called."""
    call.Caller._within_budget = lambda _, workflow, prompt, *__: prompt


def unreserved() -> None:
    """B-02: what a call may use is not recorded before it, so that nobody counts one that is interrupted."""

    async def planted(*_: object) -> int:
        return 1

    reservations.TurnReservations.__call__ = planted


def asked_for_ever() -> None:
    """An answer that cannot be used is asked for again, however often."""
    state.MAX_REFUSALS = 9


def never_gives_up() -> None:
    """E-15: an answer that is superseded is given again, however often."""

    async def planted(settling: settlement.Settlement, workflow: str, identity: Any, judge: Any, **_: Any) -> None:
        while not await settling.is_answered(workflow, identity):
            event = await judge()
            await settling._reads.reach(workflow, await settling.append(workflow, identity, event) + 1)

    settlement.Settlement.settle = planted


def failure_unseen() -> None:
    """E-03: roles report that a stage has failed, and the fold accepts that from nobody."""
    evolve = rules.evolve

    def planted(workflow: Workflow, recorded: Recorded) -> tuple[Workflow, Verdict]:
        if isinstance(recorded.envelope.event, StageFailed):
            return superseded(workflow, recorded), "superseded"
        return evolve(workflow, recorded)

    for module in (rules, partial, projection):
        module.evolve = planted


def pause_unseen() -> None:
    """A claimed action begins although the round was paused in between."""
    begin = executor.Executor._begin

    async def planted(self: executor.Executor, workflow: Workflow, claim: Any, assignment: Any) -> Any:
        running = workflow._replace(round=workflow.current._replace(pause=None))
        return await begin(self, running, claim, assignment)

    executor.Executor._begin = planted


def called_in_pause() -> None:
    """A stage asks the model again although the round was paused in between."""

    async def planted(_: object) -> None:
        pass

    reservations.TurnReservations.may_begin = planted


def granted_twice() -> None:
    """B-02: what a person grants counts twice."""
    budget_rules._raised = lambda limit, granted: None if limit is None else limit + 2 * granted


def time_in_pause() -> None:
    """E-16: the time of a round runs on while it is paused."""
    pauses.waited = lambda workflow, *_, **__: workflow


def requester_approves() -> None:
    """Whoever requested a round may approve its actions, although the policy does not let them."""
    objection = policy.AnswerTerms.objection

    def planted(terms: policy.AnswerTerms, actor: Any, decision: Any) -> Any:
        return objection(terms.model_copy(update={"not_requester": False}), actor, decision)

    policy.AnswerTerms.objection = planted


def approves_twice() -> None:
    """Two approvals by one actor count as two."""
    policy.AnswerTerms._repetition = lambda *_: None


def rule_of_the_process() -> None:
    """Who has to approve follows from the settings of a process, not from the rules that the round carries."""
    approval.lacks_approval = rules.lacks_approval = lambda _: False
    questions.rule = lambda _: None


def quota_forgotten() -> None:
    """Intake does not count what it has just let in, until the rows show it."""
    round_limits._Admitted.add = lambda *_: None


BUGS: Mapping[str, Callable[[], None]] = {
    "last wins": last_wins,
    "effect ahead": effect_ahead,
    "ending ahead": ending_ahead,
    "uncharged": uncharged,
    "not caught up": not_caught_up,
    "cancellation unseen": cancellation_unseen,
    "nobody asked": nobody_asked,
    "no budget": no_budget,
    "unreserved": unreserved,
    "asked for ever": asked_for_ever,
    "never gives up": never_gives_up,
    "failure unseen": failure_unseen,
    "pause unseen": pause_unseen,
    "called in pause": called_in_pause,
    "time in pause": time_in_pause,
    "granted twice": granted_twice,
    "requester approves": requester_approves,
    "approves twice": approves_twice,
    "rule of the process": rule_of_the_process,
    "quota forgotten": quota_forgotten,
}
