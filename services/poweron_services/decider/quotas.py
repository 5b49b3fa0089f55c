"""Quotas of actors and sources: whether another round may be opened, and what is left for the next call of a model."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final, NamedTuple

from poweron_events.event import AnyCall
from poweron_events.fold.day_use import DAY_MS, DayUse, QuotaKey, Share
from poweron_events.fold.state import Used, Workflow
from poweron_services.decider.rules import Budget, dollars, granted_so_far, spent_in_round, tokens_in_words

WHEN_ONE_ENDS: Final = "once one of them ends, is paused or waits for a person"


class Hold(NamedTuple):
    """Why a round is not opened yet."""

    reached: str
    """Which limit, and what is used of it."""
    room: str
    """When there is room again."""
    key: QuotaKey
    """Whose quota it is."""

    @property
    def sentence(self) -> str:
        return f"{self.reached}; there is room again {self.room}."


def hold(shares: Sequence[Share], policy_number: int, since_ms: int) -> Hold | None:
    """Return why another round may not be opened now; None if it may.

    Args:
        shares: the quotas of its actor and its source.
        policy_number: the policy that sets them.
        since_ms: when the day began, in ms since 1970.
    """
    reached = [
        Hold(f"{share.whose} has {what}, as much as policy {policy_number} allows", room, share.key)
        for share in shares
        for count, limit, what, room in _counts(share, since_ms)
        if limit is not None and count >= limit
    ]
    return min(reached, key=lambda held: held.room == WHEN_ONE_ENDS, default=None)  # a day lasts longer than a workflow


def _counts(share: Share, since_ms: int) -> Iterator[tuple[int, int | None, str, str]]:
    """Yield what a quota can limit: how much there is, the limit, what there is, and when there is room again."""
    quota, use = share.quota, share.use
    tomorrow = f"from {utc_minute(since_ms + DAY_MS)}"
    tokens, money = use.used.tokens, use.used.cost_nano_usd
    yield use.open, quota.open_workflows, f"{use.open:,} open workflow{'' if use.open == 1 else 's'}", WHEN_ONE_ENDS
    starts = f"started {use.starts:,} round{'' if use.starts == 1 else 's'} today"
    yield use.starts, quota.starts_per_day, starts, tomorrow
    yield tokens, quota.tokens_per_day, f"used {tokens_in_words(tokens)} today", tomorrow
    yield money, quota.cost_nano_usd_per_day, f"used {dollars(money)} today", tomorrow


def day_budgets(workflow: Workflow, shares: Sequence[Share], day: DayUse, calls: Sequence[AnyCall]) -> Iterator[Budget]:
    """Yield what the quotas leave for the next call, after `calls` that no event records yet.

    The rows may not show the round's last calls; its fold knows them. A round to which people granted more may use
    that even if others have used up the day.
    """
    counted = day.rounds.get((workflow.id, workflow.current.number), Used())
    now, granted = spent_in_round(workflow, calls), granted_so_far(workflow)[0]
    before = workflow.current.grants[0].before if workflow.current.grants else now
    note = f"The next day begins at {utc_minute(day.day_ms + DAY_MS)}."
    for share in shares:
        daily = partial(Budget, "daily_limit", "day", name=share.whose, note=note)
        if (tokens := share.quota.tokens_per_day) is not None:
            used = share.use.used.tokens + max(0, now.tokens - counted.tokens)
            left = max(0, granted.tokens - (now.tokens - before.tokens))
            yield daily(used=used, limit=_raised(tokens, used, left), said=tokens_in_words)
        if (money := share.quota.cost_nano_usd_per_day) is not None:
            used = share.use.used.cost_nano_usd + max(0, now.cost_nano_usd - counted.cost_nano_usd)
            left = max(0, granted.cost_nano_usd - (now.cost_nano_usd - before.cost_nano_usd))
            yield daily(used=used, limit=_raised(money, used, left), said=dollars, counts="nano_usd")


def _raised(limit: int, used: int, granted: int) -> int:
    """Return the limit of the day for a round that may use this much of what people granted to it."""
    return max(limit, used + granted) if granted else limit


def utc_minute(time_ms: int) -> str:
    """Return a time in ms since 1970 as text."""
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"
