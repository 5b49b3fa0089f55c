"""What actors and sources use on one day, over all their workflows, and which of it a quota limits.

The rows add it up (`poweron_projections.day_totals`). No verdict depends on it: it decides whether a round is opened
and whether a model is called, not what an event in the log means.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from poweron_events.actor import Actor
from poweron_events.fold.state import Used
from poweron_events.policy import PolicyTerms, Quota, plain_id

DAY_MS: Final = 86_400_000
RoundKey = tuple[str, int]
"""The id of a workflow and the number of a round."""
RequestKey = tuple[str, str]
"""The source and the id of a request."""


def day_ms(time_ms: int) -> int:
    """Return when the day of this time began in UTC; both are in ms since 1970."""
    return time_ms - time_ms % DAY_MS


def ms_left_of_day(time_ms: int) -> int:
    """Return how long the day lasts, at least a second: where clocks differ, no round asks again and again."""
    return max(1_000, day_ms(time_ms) + DAY_MS - time_ms)


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
    """What was used on the day that began at `day_ms`."""

    day_ms: int
    by_actor: Mapping[str, Use]
    """By `plain_id`."""
    by_source: Mapping[str, Use]
    rounds: Mapping[RoundKey, Used]
    """What the accepted events of some rounds say that they have used since their opening."""
    answered: frozenset[RequestKey]
    """The requests, of those that were asked for, that are answered and so counted if they opened a round."""
    positions: Mapping[int, int]
    """The next offset of each partition that is not counted yet."""

    @classmethod
    def of(
        cls,
        since_ms: int,
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
        return cls(since_ms, by_actor, by_source, rounds or {}, frozenset(answered), positions or {})

    def plus(self, uses: Iterable[tuple[Actor, str, Use]]) -> "DayUse":
        """Return this with uses that the rows do not show yet."""
        by_actor, by_source = dict(self.by_actor), dict(self.by_source)
        for actor, source, use in uses:
            by_actor[plain_id(actor.id)] = by_actor.get(plain_id(actor.id), Use()) + use
            by_source[source] = by_source.get(source, Use()) + use
        return replace(self, by_actor=by_actor, by_source=by_source)


class Share(NamedTuple):
    """A quota, whose it is, and what is used of it."""

    whose: str
    quota: Quota
    use: Use


def shares(policy: PolicyTerms, actor: Actor, source: str, day: DayUse) -> tuple[Share, ...]:
    """Return the quotas of an actor and of a source that limit anything."""
    both = (
        Share(actor.id, policy.actor_quota(actor), day.by_actor.get(plain_id(actor.id), Use())),
        Share(f"the source {source}", policy.source_quota(source), day.by_source.get(source, Use())),
    )
    return tuple(share for share in both if not share.quota.limits_nothing)
