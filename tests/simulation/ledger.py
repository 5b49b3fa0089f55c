"""What accepted events add up to: tokens, rejected answers, approvals; and what must not be among them."""

from collections import Counter, defaultdict
from collections.abc import Callable
from math import inf

from poweron_events.envelope import Recorded, idempotency_key
from poweron_events.fold.costs import model_calls
from poweron_events.fold.state import Used, Workflow
from poweron_events.request import RoundRequested, WorkflowRequested
from poweron_events.round_events import AnswerRejected, BudgetDenied, BudgetGranted
from poweron_events.step_events import ActionSelected, ApprovalDenied, ApprovalGranted

MOST_REJECTED = 2  # answers to one stage at one place
Step = tuple[str, int, int, int, int]
"""Workflow, round, task, attempt and step."""


class Ledger:
    """Takes in every accepted event, in the order of the log; `seen` counts what is to be seen often enough."""

    def __init__(self, flag: Callable[..., None]) -> None:
        self.approved: set[str] = set()
        self.seen: Counter[str] = Counter()
        self._rejected: Counter[tuple[str, Step]] = Counter()
        self._spent: Counter[tuple[str, int, int]] = Counter()
        self._taken: Counter[tuple[str, int, int]] = Counter()
        self._limits: dict[tuple[str, int, int], list[tuple[int, float]]] = defaultdict(list)
        """What each budget has been, with the round in which it was that."""
        self._flag = flag

    def take(self, recorded: Recorded, workflow: Workflow) -> None:
        """Take in an event that was accepted, and the workflow after it."""
        match event := recorded.envelope.event:
            case WorkflowRequested() | RoundRequested():
                self._note_limits(workflow, 0)
            case BudgetGranted():
                self.seen["budget granted"] += 1
                self._note_limits(workflow, event.task)
            case BudgetDenied():
                self.seen["budget denied" if event.request else "budget expired"] += 1
            case AnswerRejected():
                self._reject(event.stage, step_of(recorded))
            case ApprovalGranted():
                self.seen["action approved"] += 1
                self.approved.add(key_of(recorded))
            case ApprovalDenied():
                self.seen["action denied" if event.request else "approval expired"] += 1
            case ActionSelected(required_input_documents=[reference, *_]):
                self.seen["earlier document named"] += not reference.startswith(f"docItem:r{event.round}")
        self._charge(recorded, workflow)
        said = getattr(event, "reason", None) or getattr(event, "error", None) or ""
        self.seen["budget used up"] += "budget" in said
        if "names no document" in said:
            self._flag("UNKNOWN_DOCUMENT", workflow.id, workflow.place, said)

    def _reject(self, stage: str, step: Step) -> None:
        self.seen[f"answer rejected: {stage}"] += 1
        self._rejected[stage, step] += 1
        if self._rejected[stage, step] > MOST_REJECTED:
            self._flag("REJECTED_TOO_OFTEN", stage, step)

    def _note_limits(self, workflow: Workflow, task: int) -> None:
        for whose, limit in _limits(workflow, task).items():
            self._limits[whose].append((workflow.current.number, inf if limit is None else limit))

    def _charge(self, recorded: Recorded, workflow: Workflow) -> None:
        """What was used up before must not have been asked for."""
        tokens = Used.by(model_calls(recorded.envelope.event)).tokens
        if not tokens:
            return
        _, number, task, *_ = step_of(recorded)
        for whose, limit in _limits(workflow, task).items():
            spent = self._spent[whose]
            if limit is not None and spent >= limit:
                self._flag("OVER_BUDGET", type(recorded.envelope.event).__name__, number, "spent", whose, spent, limit)
            self._spent[whose] += tokens

    def take_request(self, workflow: Workflow, tokens: int) -> None:
        """Take in a request that a model has got where a budget applies, whatever becomes of its answer.

        `workflow` is what the process knew when it reserved the call. It may send it much later, when others have
        spent what was granted since, or what a later round may use of the whole workflow: the budgets of now hold.
        """
        task = 0 if workflow.phase == "closing" else workflow.place[1]
        for whose, known in _limits(workflow, task).items():
            self._taken[whose] += tokens
            since = [limit for number, limit in self._limits[whose] if number >= workflow.current.number]
            limit = max([inf if known is None else known, *since])
            if self._taken[whose] > limit:
                self._flag("OVERSPENT", workflow.phase, workflow.place, whose, self._taken[whose], limit)


def _limits(workflow: Workflow, task: int) -> dict[tuple[str, int, int], int | None]:
    """The budgets of tokens that hold for the task at hand; 0: of all tasks, of all rounds."""
    budgets, number, grants = workflow.current.opening.budgets, workflow.current.number, workflow.current.grants
    in_round, in_task = sum(grant.tokens for grant in grants), sum(g.tokens for g in grants if g.place[1] == task)
    limits = {
        (workflow.id, 0, 0): _raised(budgets.workflow_tokens, in_round),
        (workflow.id, number, 0): _raised(budgets.round_tokens, in_round),
    }
    return {**limits, (workflow.id, number, task): _raised(budgets.task_tokens, in_task)} if task else limits


def _raised(limit: int | None, granted: int) -> int | None:
    return None if limit is None else limit + granted


def step_of(recorded: Recorded) -> Step:
    """Where an event happened, zeros where it names no place."""
    event = recorded.envelope.event
    number, task, attempt, step = (getattr(event, name, 0) for name in ("round", "task", "attempt", "step"))
    return recorded.envelope.workflow_id, number, task, attempt, step


def key_of(recorded: Recorded) -> str:
    """The idempotency key of the step that an event is about."""
    workflow_id, *place = step_of(recorded)
    return idempotency_key(workflow_id, tuple(place))
