"""What actors and sources use on one day, over all their workflows, and which of it a quota limits.

The rows add it up (`poweron_projections.day_totals`). No verdict depends on it: it decides whether a round is opened
and whether a model is called, not what an event in the log means.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from poweron_events.actor import Actor
from poweron_events.fold.state import Used
from poweron_events.policy import PolicyTerms, Quota, plain_id

DAY_MS: Final = 86_400_000
CLOCK_DIFFERENCE_MS: Final = 5_000
"""How far the clock of a process may be ahead of the broker's without a day beginning too early."""
RoundKey = tuple[str, int]
"""The id of a workflow and the number of a round."""
RequestKey = tuple[str, str]
"""The source and the id of a request."""


def day_start_ms(time_ms: int) -> int:
    """Return when the day of this time began in UTC; both are in ms since 1970."""
    return time_ms - time_ms % DAY_MS


def counted_day_start_ms(now_ms: int) -> int:
    """Return when the day that is counted now began; the next one counts once the broker has reached it, too."""
    return day_start_ms(now_ms - CLOCK_DIFFERENCE_MS)


def ms_until_next_day(now_ms: int) -> int:
    """Return how long that day lasts; at least a second, so that no round asks again and again where clocks differ."""
    return max(1_000, counted_day_start_ms(now_ms) + DAY_MS + CLOCK_DIFFERENCE_MS - now_ms)


class Use(NamedTuple):
    """What an actor or a source has used."""

    starts: int = 0
    """Rounds that were opened that day."""
    open: int = 0
    """Workflows that are open now and neither paused nor waiting for a person."""
    used: Used = Used()
    """What all calls of that day used, also those that superseded events report."""

    def __add__(self, other: "Use") -> "Use":  # type: ignore[override] # sums, where a tuple would grow longer
        return Use(self.starts + other.starts, self.open + other.open, self.used + other.used)


@dataclass(frozen=True, slots=True)
class DayUse:
    """What was used on one day."""

    day_start_ms: int
    """When it began, in ms since 1970."""
    by_actor: Mapping[str, Use]
    """By `plain_id`."""
    by_source: Mapping[str, Use]
    rounds: Mapping[RoundKey, Used]
    """What the calls of some rounds have used since their opening, as their accepted events report."""
    answered: frozenset[RequestKey]
    """The requests, of those that were asked for, that are answered and so counted if they opened a round."""
    positions: Mapping[int, int]
    """The next offset of each partition that is not counted yet."""

    @classmethod
    def of(
        cls,
        day_start_ms: int,
        uses: Iterable[tuple[str | None, str, Use]],
        rounds: Mapping[RoundKey, Used] | None = None,
        answered: Iterable[RequestKey] = (),
        positions: Mapping[int, int] | None = None,
    ) -> "DayUse":
        """Add up uses, each with the id of its actor, if one is recorded, and its source."""
        by_actor, by_source = dict[str, Use](), dict[str, Use]()
        for actor, source, use in uses:
            by_source[source] = by_source.get(source, Use()) + use
            if actor is not None:
                by_actor[plain_id(actor)] = by_actor.get(plain_id(actor), Use()) + use
        return cls(day_start_ms, by_actor, by_source, rounds or {}, frozenset(answered), positions or {})

    def missing(self, key: RoundKey, used: Used) -> Used:
        """Return what a round has used beyond what the rows count of it."""
        counted = self.rounds.get(key, Used())
        return Used(*(max(0, now - then) for now, then in zip(used, counted, strict=True)))


class ActorUse(NamedTuple):
    """What an actor, by `plain_id`, has used through a source."""

    actor: str
    source: str
    use: Use


QuotaKey = tuple[Literal["actor", "source"], str]
"""Whose quota it is: that of an actor, by `plain_id`, or of a source."""


class Share(NamedTuple):
    """A quota, whose it is, and what is used of it."""

    key: QuotaKey
    whose: str
    quota: Quota
    use: Use


def shares(
    policy: PolicyTerms, actor: Actor, source: str, day: DayUse, unseen: Iterable[ActorUse] = ()
) -> tuple[Share, ...]:
    """Return the quotas of an actor and of a source that limit anything; `unseen` is what the rows do not show yet."""
    id_, of_actor, of_source = plain_id(actor.id), policy.actor_quota(actor), policy.source_quota(source)
    by_actor, by_source = day.by_actor.get(id_, Use()), day.by_source.get(source, Use())
    for other in unseen:
        if other.actor == id_:
            by_actor += other.use
        if other.source == source:
            by_source += other.use
    both = (
        Share(("actor", id_), actor.id, of_actor, by_actor),
        Share(("source", source), f"the source {source}", of_source, by_source),
    )
    return tuple(share for share in both if not share.quota.limits_nothing)
