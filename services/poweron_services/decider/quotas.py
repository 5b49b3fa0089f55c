"""Quotas of actors and sources: whether another round may be opened, and what is left for the next call of a model."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from poweron_events.event import AnyCall
from poweron_events.fold.day_use import DAY_MS, DayUse, Share
from poweron_events.fold.state import Used, Workflow
from poweron_services.decider.rules import Budget, dollars, granted_so_far, spent_in_round, tokens_in_words


class Hold(NamedTuple):
    """Why a round is not opened yet."""

    reached: str
    """Which limit, and what is used of it."""
    room: str
    """When there is room again."""

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
    for share in shares:
        for count, limit, what, room in _counts(share, since_ms):
            if limit is not None and count >= limit:
                return Hold(f"{share.whose} has {what}, as much as policy {policy_number} allows", room)
    return None


def _counts(share: Share, since_ms: int) -> Iterator[tuple[int, int | None, str, str]]:
    """Yield what a quota can limit: how much there is, the limit, both in words, and when there is room again."""
    quota, use = share.quota, share.use
    tomorrow = f"from {utc_minute(since_ms + DAY_MS)}"
    ended = "once one of them ends, is paused or waits for a person"
    tokens, money = use.used.tokens, use.used.cost_nano_usd
    yield use.open, quota.open_workflows, f"{use.open:,} open workflow{'' if use.open == 1 else 's'}", ended
    starts = f"started {use.starts:,} round{'' if use.starts == 1 else 's'} today"
    yield use.starts, quota.starts_per_day, starts, tomorrow
    yield tokens, quota.tokens_per_day, f"used {tokens_in_words(tokens)} today", tomorrow
    yield money, quota.cost_nano_usd_per_day, f"used {dollars(money)} today", tomorrow


def day_budgets(workflow: Workflow, shares: Sequence[Share], day: DayUse, calls: Sequence[AnyCall]) -> Iterator[Budget]:
    """Yield what the quotas leave for the next call, after `calls` that no event records yet.

    What people granted to the round comes on top. The rows may not show the round's last calls; its fold knows them.
    """
    counted = day.rounds.get((workflow.id, workflow.current.number), Used())
    now, grants = spent_in_round(workflow, calls), granted_so_far(workflow)[0]
    uncounted_tokens = max(0, now.tokens - counted.tokens)
    uncounted_money = max(0, now.cost_nano_usd - counted.cost_nano_usd)
    note = f"The next day begins at {utc_minute(day.day_ms + DAY_MS)}."
    for whose, quota, use in shares:
        if (tokens := quota.tokens_per_day) is not None:
            used = use.used.tokens + uncounted_tokens
            limit = tokens + grants.tokens
            yield Budget("daily_limit", "day", used, limit, tokens_in_words, 0, "tokens", whose, note)
        if (money := quota.cost_nano_usd_per_day) is not None:
            used, limit = use.used.cost_nano_usd + uncounted_money, money + grants.cost_nano_usd
            yield Budget("daily_limit", "day", used, limit, dollars, 0, "nano_usd", whose, note)


def utc_minute(time_ms: int) -> str:
    """Return a time in ms since 1970 as text."""
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"
