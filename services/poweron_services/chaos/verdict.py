"""The verdict: whether the evidence holds a violation of what PowerOn promises. Pure, and each rule one function."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from poweron_services.chaos.evidence import Answers, Evidence, RoundTold

Violations = Iterator["Violation"]


@dataclass(frozen=True, slots=True)
class Violation:
    """One promise that was not kept, in a sentence; `workflow_id` where it is about one."""

    promise: str
    sentence: str
    workflow_id: str | None = None


def judge(evidence: Evidence, *, finished: bool = True) -> tuple[Violation, ...]:
    """Every violation. Where the run was stopped, what is not finished yet is none."""
    rules = [_answered_once, _ended_as_expected, _effects, _surprises]
    if finished:
        rules += [_nothing_lost, _everything_ended, _rows, _readers, _dead_letters]
    return tuple(violation for rule in rules for violation in rule(evidence))


def _answered_once(evidence: Evidence) -> Violations:
    for asked in evidence.asked:
        answers = evidence.told.answers.get(asked.request_id, Answers())
        if answers.accepted > 1:
            sentence = f"Request {asked.request_id!r} was accepted {answers.accepted} times."
            yield Violation("one answer", sentence, asked.workflow_id)
        if asked.wanted == "workflow" and answers.refused and not answers.accepted:
            yield Violation("one answer", f"Request {asked.request_id!r} was refused.", asked.workflow_id)
    known = {asked.request_id for asked in evidence.asked}
    for request_id in sorted(evidence.told.answers.keys() - known):
        yield Violation("one answer", f"Request {request_id!r} was answered, but never asked.")


def _nothing_lost(evidence: Evidence) -> Violations:
    for asked in evidence.asked:
        if asked.request_id not in evidence.told.answers:
            yield Violation("nothing lost", f"Request {asked.request_id!r} was never answered.", asked.workflow_id)


def _everything_ended(evidence: Evidence) -> Violations:
    for (workflow_id, number), told in evidence.told.rounds.items():
        if not told.endings:
            phase = evidence.told.phases.get(workflow_id, "none")
            sentence = f"Round {number} has not ended; the workflow waits in {phase!r}."
            yield Violation("everything ends", sentence, workflow_id)


def _ended_as_expected(evidence: Evidence) -> Violations:
    for (workflow_id, number), told in evidence.told.rounds.items():
        for sentence in _wrong_ends(told):
            yield Violation("ends once, as expected", f"Round {number} {sentence}", workflow_id)


def _wrong_ends(told: RoundTold) -> Iterator[str]:
    expected = "cancelled" if told.cancelled else "completed"
    if len(told.endings) > 1:
        yield f"ended {len(told.endings)} times."
    for ending in told.endings:
        if ending != expected:
            yield f"ended as {ending!r}, not as {expected!r}."
        elif ending == "completed" and told.steps != told.max_steps:
            yield f"took {told.steps} steps, not {told.max_steps}."


def _effects(evidence: Evidence) -> Violations:
    had: dict[str, Counter[int]] = defaultdict(Counter)
    for (key, pid), count in evidence.effects.items():
        had[key][pid] += count
    for key in sorted(had.keys() - evidence.told.steps.keys()):
        yield Violation("claim before effect", f"The effect {key} was had, but never claimed.")
    for key, step in evidence.told.steps.items():
        claims = Counter(claim.pid for claim in step.claims)
        at_most_once = any(claim.effect_class == "at_most_once" for claim in step.claims)
        if at_most_once and had[key].total() > 1:
            sentence = f"The effect {key} may be had at most once, and was had {had[key].total()} times."
            yield Violation("at most once", sentence, step.workflow_id)
        for pid, count in had[key].items():
            if count > claims[pid]:
                sentence = f"Process {pid} had the effect {key} {count} times under {claims[pid]} accepted claims."
                yield Violation("one effect a claim", sentence, step.workflow_id)
        if step.done_by is not None and not had[key][step.done_by]:
            sentence = f"The effect {key} was told as done by process {step.done_by}, which did not have it."
            yield Violation("done is done", sentence, step.workflow_id)


def _rows(evidence: Evidence) -> Violations:
    for difference in evidence.differences:
        yield Violation("rows are the log", difference)


def _readers(evidence: Evidence) -> Violations:
    last: dict[str, tuple[int, RoundTold]] = {}
    for (workflow_id, number), told in evidence.told.rounds.items():
        last[workflow_id] = max(last.get(workflow_id, (0, told)), (number, told), key=lambda each: each[0])
    for workflow_id, (number, told) in last.items():
        shown = evidence.shown.get(workflow_id)
        status = told.endings[-1] if told.endings else "running"
        if shown is None:
            yield Violation("readers agree", "The list of workflows does not show it.", workflow_id)
        elif (shown.status, shown.round) != (status, number):
            sentence = (
                f"The list of workflows shows round {shown.round} as {shown.status!r}; "
                f"the log has round {number} as {status!r}."
            )
            yield Violation("readers agree", sentence, workflow_id)


def _dead_letters(evidence: Evidence) -> Violations:
    for poison in evidence.poison:
        if poison not in evidence.buried:
            yield Violation("poison is buried", f"The record {poison.decode()!r} is not among the dead letters.")


def _surprises(evidence: Evidence) -> Violations:
    for surprise in evidence.surprises:
        yield Violation("nothing unasked", surprise)
