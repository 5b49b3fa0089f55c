"""The verdict: the violations of PowerOn's guarantees in the evidence. Pure, with one function per rule."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf

from poweron_services.experiments.chaos.evidence import AnswerCounts, Evidence, LoggedAction, LoggedRound, SentRequest
from poweron_services.experiments.chaos.load import forged_id

MOST_IN_A_ROW = 100  # records of one workflow without effect; crashes and competing processes explain about ten

Violations = Iterator["Violation"]


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken promise, described in a sentence; `workflow_id` is set if it concerns one workflow."""

    promise: str
    sentence: str
    workflow_id: str | None = None


def judge(evidence: Evidence, *, finished: bool = True) -> tuple[Violation, ...]:
    """Return all violations. If the run was stopped early, unfinished work is not a violation."""
    rules = [_answered_once, _appends, _ended_as_expected, _effects, _cancelled, _error_lines, _unexpected]
    if finished:
        rules += [_nothing_lost, _everything_ended, _rows, _readers, _dead_letters, _ledger]
    return tuple(violation for rule in rules for violation in rule(evidence))


def _answered_once(evidence: Evidence) -> Violations:
    for sent in evidence.requests:
        answers = evidence.log.answers.get(sent.request_id, AnswerCounts())
        if answers.accepted > 1:
            sentence = f"Request {sent.request_id!r} was accepted {answers.accepted} times."
            yield Violation("one answer", sentence, sent.workflow_id)
        if sent.request_id in evidence.forged:
            yield from _forged(sent, answers)
        elif sent.kind == "workflow" and answers.refused and not answers.accepted:
            yield Violation("one answer", f"Request {sent.request_id!r} was refused.", sent.workflow_id)
    known = {sent.request_id for sent in evidence.requests} | set(map(forged_id, evidence.forged))
    for request_id in sorted(evidence.log.answers.keys() - known):
        yield Violation("one answer", f"Request {request_id!r} was answered, but never sent.")


def _forged(sent: SentRequest, answers: AnswerCounts) -> Violations:
    if answers.accepted:
        sentence = f"Request {sent.request_id!r} was accepted, though another request had opened its workflow."
        yield Violation("one answer", sentence, sent.workflow_id)


def _appends(evidence: Evidence) -> Violations:
    if evidence.log.most_in_a_row > MOST_IN_A_ROW:
        sentence = f"{evidence.log.most_in_a_row} records of one workflow in a row had no effect."
        yield Violation("nothing is appended for ever", sentence)


def _ledger(evidence: Evidence) -> Violations:
    for sentence in evidence.ledger:
        yield Violation("the ledger proves the log", sentence)


def _nothing_lost(evidence: Evidence) -> Violations:
    for sent in evidence.requests:
        if sent.request_id not in evidence.log.answers:
            yield Violation("nothing lost", f"Request {sent.request_id!r} was never answered.", sent.workflow_id)


def _everything_ended(evidence: Evidence) -> Violations:
    for (workflow_id, number), logged in evidence.log.rounds.items():
        if not logged.endings:
            phase = evidence.log.phases.get(workflow_id, "none")
            sentence = f"Round {number} has not ended; the workflow waits in {phase!r}."
            yield Violation("everything ends", sentence, workflow_id)


def _ended_as_expected(evidence: Evidence) -> Violations:
    for (workflow_id, number), logged in evidence.log.rounds.items():
        for sentence in _wrong_ends(logged):
            yield Violation("ends once, as expected", f"Round {number} {sentence}", workflow_id)


def _wrong_ends(logged: LoggedRound) -> Iterator[str]:
    expected = "cancelled" if logged.cancelled else "completed"
    if len(logged.endings) > 1:
        yield f"ended {len(logged.endings)} times."
    for ending in logged.endings:
        if ending != expected:
            yield f"ended as {ending!r}, not as {expected!r}."
        elif ending == "completed" and logged.steps != logged.max_steps:
            yield f"took {logged.steps} steps, not {logged.max_steps}."


def _effects(evidence: Evidence) -> Violations:
    effects: dict[str, Counter[int]] = defaultdict(Counter)
    for (key, pid), count in evidence.effects.items():
        effects[key][pid] += count
    for key in sorted(effects.keys() - evidence.log.actions.keys()):
        yield Violation("claim before effect", f"The effect {key} was had, but never claimed.")
    for key, action in evidence.log.actions.items():
        for promise, sentence in _wrong_effects(key, action, effects[key]):
            yield Violation(promise, sentence, action.workflow_id)


def _wrong_effects(key: str, action: LoggedAction, effects: Mapping[int, int]) -> Iterator[tuple[str, str]]:
    """Return the promise and a sentence for each error in the effects of one action, counted by process."""
    claims = Counter(claim.pid for claim in action.claims if not claim.given_up)
    total = sum(effects.values())
    if any(claim.effect_class == "at_most_once" for claim in action.claims) and total > 1:
        yield "at most once", f"The effect {key} may be had at most once, and was had {total} times."
    for pid, count in effects.items():
        if count > claims[pid]:
            sentence = f"Process {pid} had the effect {key} {count} times under {claims[pid]} accepted claims."
            yield "one effect a claim", sentence
    if action.done_by is not None and not effects.get(action.done_by):
        yield "done is done", f"The effect {key} was told as done by process {action.done_by}, which did not have it."


def _cancelled(evidence: Evidence) -> Violations:
    for key, action in evidence.log.actions.items():
        acknowledged_ms = evidence.cancelled.get((action.workflow_id, action.round), inf)
        for time_ms in evidence.effect_times.get(key, ()):
            if time_ms > acknowledged_ms:
                sentence = f"Round {action.round} had the effect {key} {time_ms - acknowledged_ms} ms after that."
                yield Violation("no effect after an acknowledged cancellation", sentence, action.workflow_id)


def _rows(evidence: Evidence) -> Violations:
    for difference in evidence.differences:
        yield Violation("rows are the log", difference)


def _readers(evidence: Evidence) -> Violations:
    last: dict[str, tuple[int, LoggedRound]] = {}
    for (workflow_id, number), logged in evidence.log.rounds.items():
        last[workflow_id] = max(last.get(workflow_id, (0, logged)), (number, logged), key=lambda each: each[0])
    for workflow_id, (number, logged) in last.items():
        listed = evidence.listed.get(workflow_id)
        status = logged.endings[-1] if logged.endings else "running"
        if listed is None:
            yield Violation("readers agree", "The list of workflows does not show it.", workflow_id)
        elif (listed.status, listed.round) != (status, number):
            sentence = (
                f"The list of workflows shows round {listed.round} as {listed.status!r}; "
                f"the log has round {number} as {status!r}."
            )
            yield Violation("readers agree", sentence, workflow_id)


def _dead_letters(evidence: Evidence) -> Violations:
    held = set(evidence.dead_letters.values())
    for poison in evidence.poison:
        if poison not in held:
            sentence = f"The record {poison.decode()!r} is not among the dead letters."
            yield Violation("poison becomes a dead letter", sentence)
    for topic, partition, offset in sorted(set(evidence.bombs) - evidence.dead_letters.keys()):
        where = f"at offset {offset} of partition {partition} of {topic}"
        sentence = f"The record {where}, which decompresses to too much, is not among the dead letters."
        yield Violation("poison becomes a dead letter", sentence)


def _error_lines(evidence: Evidence) -> Violations:
    for sentence in evidence.error_lines:
        yield Violation("an error line requires action", sentence)


def _unexpected(evidence: Evidence) -> Violations:
    for sentence in evidence.unexpected:
        yield Violation("nothing unexpected", sentence)
