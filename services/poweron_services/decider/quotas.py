"""Quotas of actors and sources: whether another round may be opened, and what is left for the next call of a model."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Literal, NamedTuple

from poweron_events.event import AnyCall
from poweron_events.fold.day_use import DAY_MS, DayUse, QuotaKey, Share
from poweron_events.fold.state import Workflow
from poweron_services.decider.rules import Budget, dollars, granted_so_far, spent_in_round, tokens_in_words


class QuotaReached(NamedTuple):
    """A quota that is used up: whose it is, how much is used of which limit, and when there is room again."""

    key: QuotaKey
    whose: str
    used: str
    until_ms: int | None
    """When the next day begins, in ms since 1970; None if a workflow has to end first."""

    @property
    def reason(self) -> str:
        """Why a request waits, without a full stop."""
        if self.until_ms is None:
            room = "there is room once one of them ends, is paused or waits for a person"
        else:
            room = f"the next day begins at {utc_minute(self.until_ms)}"
        return f"{self.whose} has {self.used}; {room}"


def quota_reached(shares: Sequence[Share], policy_number: int, day_start_ms: int) -> QuotaReached | None:
    """Return the quota for which another round has to wait; None if it may be opened.

    Args:
        shares: the quotas of its actor and its source.
        policy_number: the policy that sets them.
        day_start_ms: when the day began, in ms since 1970.
    """
    reached = [
        QuotaReached(share.key, share.whose, used, until_ms)
        for share in shares
        for count, limit, used, until_ms in _counts(share, f"that policy {policy_number} allows", day_start_ms + DAY_MS)
        if limit is not None and count >= limit
    ]
    return min(reached, key=lambda quota: quota.until_ms is None, default=None)  # a day lasts longer than a workflow


def _counts(share: Share, allowed: str, next_day_ms: int) -> Iterator[tuple[int, int | None, str, int | None]]:
    """Yield what a quota can limit: how much there is, the limit, both in words, and when there is room again."""
    quota, use = share.quota, share.use
    tokens, money = use.used.tokens, use.used.cost_nano_usd
    yield (
        use.open,
        quota.open_workflows,
        f"{use.open:,} of {_count(quota.open_workflows, 'open workflow')} {allowed}",
        None,
    )
    started = f"started {use.starts:,} of {_count(quota.starts_per_day, 'round')} {allowed} per day"
    yield use.starts, quota.starts_per_day, started, next_day_ms
    of_tokens = f"used {tokens:,} of {tokens_in_words(quota.tokens_per_day or 0)} {allowed} per day"
    yield tokens, quota.tokens_per_day, of_tokens, next_day_ms
    of_money = f"used {dollars(money)} of {dollars(quota.cost_nano_usd_per_day or 0)} {allowed} per day"
    yield money, quota.cost_nano_usd_per_day, of_money, next_day_ms


def _count(limit: int | None, what: str) -> str:
    return f"{limit or 0:,} {what}{'' if limit == 1 else 's'}"


def day_budgets(workflow: Workflow, shares: Sequence[Share], day: DayUse, calls: Sequence[AnyCall]) -> Iterator[Budget]:
    """Yield what the quotas leave for the next call, after `calls` that no event records yet.

    The rows may not show the round's last calls; its fold knows them. A round to which people granted more may use
    that even if others have used up the day.
    """
    now, granted = spent_in_round(workflow, calls), granted_so_far(workflow)[0]
    missing = day.missing((workflow.id, workflow.current.number), now)
    before = workflow.current.grants[0].before if workflow.current.grants else now  # all grants cover what came since
    note = f"The next day begins at {utc_minute(day.day_start_ms + DAY_MS)}."
    for share in shares:
        amounts: tuple[tuple[Literal["tokens", "cost_nano_usd"], int | None, Callable[[int], str]], ...] = (
            ("tokens", share.quota.tokens_per_day, tokens_in_words),
            ("cost_nano_usd", share.quota.cost_nano_usd_per_day, dollars),
        )
        for unit, limit, said in amounts:
            if limit is None:
                continue
            amount = attrgetter(unit)
            used = amount(share.use.used) + amount(missing)
            left = max(0, amount(granted) - (amount(now) - amount(before)))
            raised = max(limit, used + left) if left else limit
            yield Budget("daily_limit", "day", used, raised, said, unit=unit, holder=share.whose, note=note)


def utc_minute(time_ms: int) -> str:
    """Return a time in ms since 1970 as text."""
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"
