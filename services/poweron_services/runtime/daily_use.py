"""What the quotas of a day leave for the model calls of this process."""

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from poweron_events.errors import Unavailable
from poweron_events.event import AnyCall
from poweron_events.fold.day_use import ActorUse, DayUse, RoundKey, Use, counted_day_start_ms, shares
from poweron_events.fold.state import Used, Workflow
from poweron_events.policy import plain_id
from poweron_services.decider.quotas import day_budgets
from poweron_services.decider.rules import Budget, spent_in_round
from poweron_services.models.call import DayBudgets, no_day_budgets
from poweron_services.row_query import SharedQuery

MAX_AGE: Final = 1.0  # seconds for which what the rows said is used again
FORGET_AFTER: Final = 5.0  # seconds without a call after which a round is forgotten if the rows hold all that it used
FORGET_ANYWAY_AFTER: Final = 60.0  # seconds without a call after which it is forgotten anyway
MAX_AGE_IN_OUTAGE: Final = 30.0  # seconds of an outage of Postgres for which what the rows said before is used


class DayQueries(Protocol):
    """The query that a worker sends to Postgres before calls."""

    async def day_use(self, day_start_ms: int, *, rounds: Collection[RoundKey] = ()) -> DayUse:
        """What was used since the beginning of a day, in ms since 1970, also by each of these rounds.

        Raises:
            Unavailable: Postgres does not answer.
        """


@dataclass(slots=True)
class _ActiveRound:
    """A round that calls models in this process."""

    actor: str
    """By `plain_id`."""
    source: str
    used: Used
    """What it had used before its last call."""
    called_at: float


@dataclass(slots=True)
class DailyUse:
    """Reads what the quotas leave for a call: by what the rows show, and what this process has used beyond that."""

    queries: DayQueries
    now_ms: Callable[[], int]
    _rounds: dict[RoundKey, _ActiveRound] = field(default_factory=dict)
    _query: SharedQuery[DayUse] = field(init=False)
    _day: DayUse | None = None
    _read_at: float = 0.0

    def __post_init__(self) -> None:
        self._query = SharedQuery(self._read)

    async def __call__(self, workflow: Workflow) -> DayBudgets:
        """Return what the quotas of the workflow's actor and source leave for its next call.

        Raises:
            Unavailable: Postgres does not answer.
        """
        policy, opening = workflow.current.policy, workflow.current.opening
        actor, source = opening.actor, opening.request.source
        if policy is None or actor is None:
            return no_day_budgets
        if not (policy.actor_quota(actor).limits_calls or policy.source_quota(source).limits_calls):
            return no_day_budgets
        key, used = (workflow.id, workflow.current.number), spent_in_round(workflow, ())
        is_counted = key in self._rounds or not any(used)  # else only newer rows say what they count of it
        self._rounds[key] = _ActiveRound(plain_id(actor.id), source, used, asyncio.get_running_loop().time())
        day = await self._recent() if is_counted else await self._query()
        both = shares(policy, actor, source, day, self._uncounted(day, key))

        def budgets(calls: Sequence[AnyCall]) -> Sequence[Budget]:
            return tuple(day_budgets(workflow, both, day, calls))

        return budgets

    async def _recent(self) -> DayUse:
        age, day = asyncio.get_running_loop().time() - self._read_at, self._day
        if day is not None and day.day_start_ms != counted_day_start_ms(self.now_ms()):
            day = None
        if day is not None and age < MAX_AGE:
            return day
        try:
            return await self._query()
        except Unavailable:
            if day is None or age > MAX_AGE_IN_OUTAGE:
                raise
            return day

    async def _read(self) -> DayUse:
        began = asyncio.get_running_loop().time()
        self._day = day = await self.queries.day_use(counted_day_start_ms(self.now_ms()), rounds=list(self._rounds))
        self._read_at = began
        for key, active in list(self._rounds.items()):
            idle = began - active.called_at
            if idle > FORGET_ANYWAY_AFTER or (idle > FORGET_AFTER and not any(day.missing(key, active.used))):
                del self._rounds[key]
        return day

    def _uncounted(self, day: DayUse, own: RoundKey) -> Iterator[ActorUse]:
        """Yield what the rows do not show yet of the other rounds that this process works on."""
        for key, active in self._rounds.items():
            if key != own and any(missing := day.missing(key, active.used)):
                yield ActorUse(active.actor, active.source, Use(used=missing))
