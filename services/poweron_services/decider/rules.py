"""The rules that decide, in code, whether the loop continues; no model can override them.

Budgets are among them: which one is used up, and what the next model call may use.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, cast, get_args

from poweron_events.codes import BudgetCode, GuardCode
from poweron_events.errors import PowerOnError, Refused
from poweron_events.event import AnyCall, CriterionProgress
from poweron_events.fold.costs import NOTHING, added_by, most_of, settled_by
from poweron_events.fold.evolve import TIME_IS_OVER
from poweron_events.fold.stage_specs import TIMED_PHASES
from poweron_events.fold.state import Grant, Phase, Used, Workflow, step_place
from poweron_events.request import RoundRequested, Spent
from poweron_events.round_events import BudgetDenied, BudgetGranted, BudgetRequested, Stage
from poweron_events.step_events import Observation

Whose = Literal["task", "round", "workflow", "day"]

QUESTION_EXPIRES_MS: Final = 7 * 86_400_000  # how long a round waits for a larger budget
CANCELLED: Final = "The round was cancelled."
AFTER_ACTION: Final[frozenset[Phase]] = frozenset({"refine", "review"})
ALL_MET: Final = "All success criteria are met."
USEFUL_ANSWER: Final = 200  # tokens; a call that leaves less for its answer is not made
STOPS_EVERY_ATTEMPT: Final[frozenset[str]] = frozenset({"cancelled", "deadline", *get_args(BudgetCode)})
"""The codes that would stop another attempt at the task, too."""


class Stop(NamedTuple):
    """Why the loop stops, as a code and as a sentence."""

    code: GuardCode
    sentence: str


@dataclass(frozen=True, slots=True)
class Review:
    """The facts that decide whether the loop continues; all of them come from the fold, none from a clock."""

    progress: tuple[CriterionProgress, ...] = ()
    can_improve: bool = True  # whether a further action could improve the result, according to the refinement
    used_up: Stop | None = None  # the budget that is used up
    cancelled: bool = False
    deadline_passed: bool = False

    @property
    def budget_left(self) -> bool:
        return self.used_up is None


def all_met(progress: tuple[CriterionProgress, ...]) -> bool:
    """Return whether every criterion is met; False if there are no criteria."""
    return bool(progress) and all(criterion.met for criterion in progress)


def why_stop(observation: Observation, review: Review, current_step: int, max_steps: int) -> Stop | None:
    """Return the reason to stop, or None to continue. Steps count from 1."""
    reasons = (
        (review.cancelled, Stop("cancelled", CANCELLED)),
        (review.deadline_passed, Stop("deadline", TIME_IS_OVER)),
        (not review.budget_left, review.used_up),
        (observation.success and all_met(review.progress), Stop("criteria_met", ALL_MET)),
        (not review.can_improve, Stop("no_improvement", "No further action can improve the result.")),
        (current_step >= max_steps, Stop("step_limit", f"The limit of {max_steps} steps is reached.")),
    )
    return next((stop for holds, stop in reasons if holds), None)


def should_continue(observation: Observation, review: Review, current_step: int, max_steps: int) -> bool:
    """Return whether another step follows. This is the only place that decides it (L-06)."""
    return why_stop(observation, review, current_step, max_steps) is None


class BudgetUsedUp(Refused):
    """A budget is used up; the sentence names the budget and the amounts."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop.sentence, code=stop.code)
        self.stop = stop


class BudgetNeeded(PowerOnError):
    """A budget has no room for the next call, and the round asks for more instead of ending."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop.sentence, code=stop.code)
        self.stop = stop


def needed(workflow: Workflow, error: BudgetUsedUp) -> BudgetUsedUp | BudgetNeeded:
    """Return the error to raise: a stage may ask for more tokens or money, unless some were denied in this round."""
    asks = asks_for_more(workflow) and error.stop.code in ("token_budget", "cost_budget", "daily_limit")
    return BudgetNeeded(error.stop) if asks else error


def asks_for_more(workflow: Workflow) -> bool:
    """Return whether the current stage asks a person for more if its budget has no room for a call."""
    round_ = workflow.current
    return round_.opening.on_budget == "ask" and not round_.budget_denied and workflow.phase in TIMED_PHASES


def budget_request(workflow: Workflow, stop: Stop, day_left_ms: int) -> BudgetRequested:
    """Ask for a larger budget; a question about a daily limit expires with the day."""
    return BudgetRequested(
        **step_place(workflow),
        question=len(workflow.current.grants) + 1,
        stage=cast("Stage", workflow.phase),
        code=stop.code,
        reason=stop.sentence,
        totals=workflow.current.totals,
        expires_ms=day_left_ms if stop.code == "daily_limit" else QUESTION_EXPIRES_MS,
    )


def budget_expired(workflow: Workflow) -> BudgetGranted | BudgetDenied:
    """End a budget question that no one answered in time: deny it or, for a daily limit, let the next day begin."""
    question = workflow.current.question
    assert question is not None
    if question.code == "daily_limit":
        return BudgetGranted(**step_place(workflow), question=question.number, reason="The next day has begun.")
    return BudgetDenied(**step_place(workflow), question=question.number, reason="It was not answered in time.")


class Budget(NamedTuple):
    """How much of a budget is used; without a limit it is never used up."""

    code: BudgetCode
    whose: Whose
    used: int
    limit: int | None
    said: Callable[[int], str]
    unreported: int = 0
    """How much of `used` was reserved for calls that were never reported."""
    unit: Literal["tokens", "cost_nano_usd"] | None = None
    """None for time, steps and retries."""
    holder: str = ""
    """The actor or the source of a daily limit; empty for other budgets."""
    note: str = ""
    """A sentence to append to every message."""

    @property
    def is_used_up(self) -> bool:
        return self.limit is not None and self.used >= self.limit

    @property
    def left(self) -> int:
        assert self.limit is not None
        return self.limit - self.used

    def longest_answer(self, takes: Callable[[int], int], most: int) -> int:
        """The longest answer, of at most `most` tokens, with which a call takes no more than what is left.

        `takes` returns what a call takes with an answer of a given number of tokens; it must not fall as the number
        rises.

        Raises:
            BudgetUsedUp: not even a short but useful answer fits.
        """
        if takes(most) <= self.left:
            return most
        minimum = takes(min(most, USEFUL_ANSWER))
        if minimum > self.left:
            left = f"{self._named} leaves {self.said(max(0, self.left))}"
            sentence = f"{left}, and the next call may take {self.said(minimum)}."
            raise BudgetUsedUp(Stop(self._code(minimum), sentence + self._remarks))
        return bisect_right(range(most), self.left, key=takes) - 1

    @property
    def stop(self) -> Stop:
        assert self.limit is not None
        if self.limit == 0:
            return Stop(self.code, f"Nothing may be used: the {self.whose}'s budget is {self.said(0)}.")
        return Stop(self.code, f"{self._named} is used up: {self.said(self.used)}." + self._remarks)

    def _code(self, minimum: int) -> BudgetCode:
        """Return the code; no next day helps if a daily limit is too small for a single call."""
        if self.code != "daily_limit" or minimum <= (self.limit or 0):
            return self.code
        return "token_budget" if self.unit == "tokens" else "cost_budget"

    @property
    def _named(self) -> str:
        limit = self.said(self.limit or 0)
        return (
            f"The daily limit of {limit} for {self.holder}" if self.holder else f"The {self.whose}'s budget of {limit}"
        )

    @property
    def _remarks(self) -> str:
        """A sentence about what was reserved for interrupted calls, if there were any, and the note."""
        note = f" {self.note}" if self.note else ""
        if not self.unreported:
            return note
        most = self.said(self.unreported)
        return f" It counts {most} for interrupted calls: what they used is unknown, so their maximum counts.{note}"


def used_up(workflow: Workflow, calls: Sequence[AnyCall] = (), *, for_a_step: bool = False) -> Stop | None:
    """Return the first budget that is used up, or None while each has something left (B-02, S41).

    Budgets of tokens and money stop no round that asks for more: it asks when it needs the next call.
    Usage follows from accepted events alone, so it is the same after a crash and in a replay.

    Args:
        workflow: the workflow whose budgets are checked.
        calls: the calls of the work in hand that no event records yet.
        for_a_step: whether another step is planned, not only another call of the model.
    """
    if not _is_limited(workflow):
        return None
    budgets = [] if asks_for_more(workflow) else [*_tokens(workflow, calls), *_money(workflow, calls)]
    return _first_used_up(workflow, budgets, for_a_step=for_a_step)


def _first_used_up(workflow: Workflow, budgets: Sequence[Budget], *, for_a_step: bool) -> Stop | None:
    others = [*_time(workflow), *([_steps(workflow)] if for_a_step else ())]
    return next((budget.stop for budget in (*budgets, *others) if budget.is_used_up), None)


def limits(workflow: Workflow) -> tuple[Budget, ...]:
    """The budgets that have a limit, and how much of each is used."""
    all_budgets = (*_tokens(workflow, ()), *_money(workflow, ()), *_time(workflow), _steps(workflow))
    return tuple(budget for budget in all_budgets if budget.limit is not None)


def has_room_again(workflow: Workflow) -> bool:
    """Return whether a budget that had no room for a call of the current action was raised since.

    Raises:
        BudgetUsedUp: it was not raised; names the budget and the amounts.
        BudgetNeeded: the same, in a round that asks for more.
    """
    completed = workflow.step.completed
    if completed is None or completed.code not in get_args(BudgetCode):
        return False
    if any(grant.place == workflow.place and grant.phase in AFTER_ACTION for grant in workflow.current.grants):
        return True
    raise needed(workflow, BudgetUsedUp(Stop(cast("BudgetCode", completed.code), completed.error or "")))


def check_budget(workflow: Workflow, calls: Sequence[AnyCall] = (), *, for_a_step: bool = False) -> None:
    """Refuse what a budget does not allow; the arguments are those of `used_up`.

    Raises:
        BudgetUsedUp: names the budget.
    """
    if not _is_limited(workflow):
        return
    stop = _first_used_up(workflow, [*_tokens(workflow, calls), *_money(workflow, calls)], for_a_step=for_a_step)
    if stop is not None:
        raise needed(workflow, BudgetUsedUp(stop))


Cost = Callable[[int, int], int]
"""The most that a call costs, in nano-USD, for the given tokens of prompt and answer; it never falls as they rise."""


@dataclass(slots=True)
class Allowance:
    """What one model call may use over all its tries: no more than what each of these budgets has left."""

    budgets: tuple[Budget, ...]
    reservations: list[int] = field(default_factory=list)
    """The reservations that were made for the call."""
    unknown: Used = NOTHING
    """The most that failed requests with unreported usage can have used."""

    @property
    def limits_money(self) -> bool:
        return any(budget.unit == "cost_nano_usd" for budget in self.budgets)

    def longest_answer(self, prompt: int, most: int, cost: Cost) -> int:
        """How many tokens the answer may have, at most `most`, for a prompt of up to `prompt` tokens.

        Raises:
            BudgetUsedUp: a budget has no room for the prompt and a short answer; the sentence names it and the amounts.
        """
        takes: dict[str | None, Callable[[int], int]] = {
            "tokens": lambda answer: prompt + answer,
            "cost_nano_usd": lambda answer: cost(prompt, answer),
        }
        return min([budget.longest_answer(takes[budget.unit], most) for budget in self.budgets], default=most)

    def take(self, used: Used) -> None:
        """Subtract this usage from what is left."""
        took: dict[str | None, int] = {"tokens": used.tokens, "cost_nano_usd": used.cost_nano_usd}
        self.budgets = tuple(budget._replace(used=budget.used + took[budget.unit]) for budget in self.budgets)

    def take_unknown(self, most: Used) -> None:
        """Count the most that a failed request with unreported usage can have used."""
        self.unknown += most
        self.take(most)


def allowance(
    workflow: Workflow, calls: Sequence[AnyCall] = (), day_budgets: Sequence[Budget] = ()
) -> Allowance | None:
    """What the next call may use, after `calls` that no event records yet; None if no budget limits it.

    Raises:
        BudgetUsedUp: one of the budgets of the day is used up.
    """
    if (stop := next((budget.stop for budget in day_budgets if budget.is_used_up), None)) is not None:
        raise needed(workflow, BudgetUsedUp(stop))
    own = (*_tokens(workflow, calls), *_money(workflow, calls)) if _is_limited(workflow) else ()
    budgets = [budget for budget in (*own, *day_budgets) if budget.limit is not None]
    return Allowance(tuple(budgets)) if budgets else None


def price_unknown(models: Collection[str]) -> str:
    """The sentence which says that a budget of money cannot be enforced, since prices are unknown."""
    price = "price" if len(models) == 1 else "prices"
    return f"A budget of money cannot hold: no price list has the {price} of {' and '.join(sorted(models))}."


def retries_used_up(workflow: Workflow) -> Stop | None:
    """Return why no retry is left: the workflow's budget of retries over all its tasks, or the limit of each task."""
    opening, used = workflow.current.opening, workflow.current.retries
    used += _before(workflow).retries
    budget = Budget("retry_budget", "workflow", used, opening.budgets.workflow_retries, _retries_in_words)
    if budget.is_used_up:
        return budget.stop
    limit, task = opening.max_retries, workflow.current.task
    is_reached = task is not None and task.retries >= limit
    return Stop("retry_limit", f"The limit of {_retries_in_words(limit)} is reached.") if is_reached else None


def _is_limited(workflow: Workflow) -> bool:
    """Return whether there is any budget: most often there is none, and nothing has to be added up."""
    return {*workflow.current.opening.budgets.__dict__.values()} != {None}


def _tokens(workflow: Workflow, calls: Sequence[AnyCall]) -> Iterator[Budget]:
    budgets, round_, task = (
        workflow.current.opening.budgets,
        spent_in_round(workflow, calls),
        _spent_by_task(workflow, calls),
    )
    used = (_before_this_round(workflow) + round_).tokens
    in_round, in_task = (granted.tokens for granted in granted_so_far(workflow))
    round_reserved, task_reserved = _open_reserves(workflow, calls)
    for whose, spent, limit, reserved in (
        ("workflow", used, _raised(budgets.workflow_tokens, in_round), round_reserved),
        ("round", round_.tokens, _raised(budgets.round_tokens, in_round), round_reserved),
        ("task", task.tokens, _raised(budgets.task_tokens, in_task), task_reserved),
    ):
        yield Budget("token_budget", cast("Whose", whose), spent, limit, tokens_in_words, reserved.tokens, "tokens")


def _money(workflow: Workflow, calls: Sequence[AnyCall]) -> Iterator[Budget]:
    budgets, round_, task = (
        workflow.current.opening.budgets,
        spent_in_round(workflow, calls),
        _spent_by_task(workflow, calls),
    )
    used = (_before_this_round(workflow) + round_).cost_nano_usd
    in_round, in_task = (granted.cost_nano_usd for granted in granted_so_far(workflow))
    round_reserved, task_reserved = (usage.cost_nano_usd for usage in _open_reserves(workflow, calls))
    for whose, spent, limit, reserved in (
        ("workflow", used, _raised(budgets.workflow_cost_nano_usd, in_round), round_reserved),
        ("round", round_.cost_nano_usd, _raised(budgets.round_cost_nano_usd, in_round), round_reserved),
        ("task", task.cost_nano_usd, _raised(budgets.task_cost_nano_usd, in_task), task_reserved),
    ):
        yield Budget("cost_budget", cast("Whose", whose), spent, limit, dollars, reserved, "cost_nano_usd")


class _Granted(NamedTuple):
    """What was granted, in tokens and nano-USD."""

    tokens: int
    cost_nano_usd: int

    @classmethod
    def by(cls, grants: Sequence[Grant]) -> "_Granted":
        return cls(sum(grant.tokens for grant in grants), sum(grant.cost_nano_usd for grant in grants))


def granted_so_far(workflow: Workflow) -> tuple[_Granted, _Granted]:
    """Return what was granted in this round, and of that in the current task."""
    grants, task = workflow.current.grants, workflow.place[1]
    return _Granted.by(grants), _Granted.by([grant for grant in grants if grant.place[1] == task])


def _raised(limit: int | None, granted: int) -> int | None:
    return None if limit is None else limit + granted


def _time(workflow: Workflow) -> Iterator[Budget]:
    budgets = workflow.current.opening.budgets
    if workflow.current.task is not None:
        took = workflow.head_ms - workflow.task.began_ms - workflow.task.waited_ms
        yield Budget("time_budget", "task", took, budgets.task_duration_ms, _seconds)


def _steps(workflow: Workflow) -> Budget:
    budgets, totals = workflow.current.opening.budgets, workflow.current.totals
    used = _before(workflow).steps + totals.steps
    return Budget("step_budget", "workflow", used, budgets.workflow_steps, _steps_in_words)


def spent_in_round(workflow: Workflow, calls: Sequence[AnyCall]) -> Used:
    """What this round used."""
    totals = workflow.current.totals
    used = Used(totals.input_tokens, totals.output_tokens, totals.cost_nano_usd)
    return used + added_by(workflow.current, calls)


def _before_this_round(workflow: Workflow) -> Used:
    before = _before(workflow)
    return Used(before.input_tokens, before.output_tokens, before.cost_nano_usd)


def _before(workflow: Workflow) -> Spent:
    """What the earlier rounds used."""
    opening = workflow.current.opening
    return opening.earlier.spent if isinstance(opening, RoundRequested) else Spent()


def _spent_by_task(workflow: Workflow, calls: Sequence[AnyCall]) -> Used:
    task = workflow.current.task
    return (task.used if task else Used()) + added_by(workflow.current, calls)


def _open_reserves(workflow: Workflow, calls: Sequence[AnyCall]) -> tuple[Used, Used]:
    """What was reserved, in the round and in the current task, for calls that neither events nor `calls` report."""
    round_ = workflow.current
    settled, task = settled_by(round_, calls), round_.task
    open_reservations = [reservation for reservation in round_.reservations if reservation not in settled]
    return most_of(open_reservations), most_of(
        reservation for reservation in open_reservations if task and reservation.task == task.number
    )


def tokens_in_words(count: int) -> str:
    return f"{count:,} token{'' if count == 1 else 's'}"


def _steps_in_words(count: int) -> str:
    return f"{count} step{'' if count == 1 else 's'}"


def _retries_in_words(count: int) -> str:
    return f"{count} {'retry' if count == 1 else 'retries'}"


def dollars(nano_usd: int) -> str:
    return f"${nano_usd / 10**9:.6f}".rstrip("0").rstrip(".")


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:g} s"
