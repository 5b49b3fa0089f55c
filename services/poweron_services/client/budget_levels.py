"""Budgets and daily quotas of which much is used: those of open rounds, and those of actors and sources today."""

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from poweron_events import topics
from poweron_events.event import Model
from poweron_events.fold.day_use import Share, counted_day_start_ms, shares
from poweron_events.request import POLICY_ID
from poweron_projections import request_answers
from poweron_projections.budget_rows import OpenBudget, open_budgets, recent_requesters
from poweron_projections.day_totals import read_day_use
from poweron_services.client.connect import Connections

NEAR: Final = 0.8  # of a budget or quota

Unit = Literal["tokens", "nano_usd", "rounds", "workflows", "steps"]


class BudgetLevel(Model):
    """How much of a budget or of a daily quota is used."""

    whose: str
    """`workflow` or `round` for a budget; the actor or the source for a quota."""
    kind: Literal["budget", "quota"]
    unit: Unit
    used: int
    limit: int
    workflow_id: str | None = None
    """The workflow of a budget."""
    prompt: str | None = None

    @property
    def share(self) -> float:
        """The part that is used; more than 1 if a call took more than there was."""
        return self.used / self.limit if self.limit else 1.0


async def budget_levels(connections: Connections, now_ms: int, *, limit: int) -> list[BudgetLevel]:
    """Return budgets of open rounds and daily quotas that are used by at least four fifths, fullest first.

    Raises:
        Unavailable: Postgres cannot be reached.
    """
    found = [level for budget in await open_budgets(connections.pool) for level in _of_budget(budget)]
    found += await _quotas(connections, now_ms)
    near = [level for level in found if level.share >= NEAR]
    return sorted(near, key=lambda level: -level.share)[:limit]


def _of_budget(budget: OpenBudget) -> Iterator[BudgetLevel]:
    budgets, granted = budget.budgets, budget.granted
    limits: Sequence[tuple[str, Unit, int | None, int, int]] = (
        ("workflow", "tokens", budgets.workflow_tokens, granted.tokens, budget.in_workflow.tokens),
        (
            "workflow",
            "nano_usd",
            budgets.workflow_cost_nano_usd,
            granted.cost_nano_usd,
            budget.in_workflow.cost_nano_usd,
        ),
        ("workflow", "steps", budgets.workflow_steps, 0, budget.steps),
        ("round", "tokens", budgets.round_tokens, granted.tokens, budget.in_round.tokens),
        ("round", "nano_usd", budgets.round_cost_nano_usd, granted.cost_nano_usd, budget.in_round.cost_nano_usd),
    )
    for whose, unit, limit, more, used in limits:
        if limit is not None:
            yield BudgetLevel(
                whose=whose,
                kind="budget",
                unit=unit,
                used=used,
                limit=limit + more,
                workflow_id=budget.workflow_id,
                prompt=budget.prompt,
            )


async def _quotas(connections: Connections, now_ms: int) -> list[BudgetLevel]:
    partition = connections.log.partition_of(topics.EVENTS.name, POLICY_ID.encode())
    _, policy = await request_answers.policy_after(connections.pool, partition, 0)
    if policy is None or not policy.has_quotas:
        return []
    start = counted_day_start_ms(now_ms)
    day = await read_day_use(connections.pool, start)
    found = dict[object, Share]()
    for actor, source in await recent_requesters(connections.pool, start):
        found |= {share.key: share for share in shares(policy.terms, actor, source, day)}
    return [level for share in found.values() for level in _of_quota(share)]


def _of_quota(share: Share) -> Iterator[BudgetLevel]:
    quota, use = share.quota, share.use
    limits: Sequence[tuple[Unit, int | None, int]] = (
        ("tokens", quota.tokens_per_day, use.used.tokens),
        ("nano_usd", quota.cost_nano_usd_per_day, use.used.cost_nano_usd),
        ("rounds", quota.starts_per_day, use.starts),
        ("workflows", quota.open_workflows, use.open),
    )
    for unit, limit, used in limits:
        if limit is not None:
            yield BudgetLevel(whose=share.whose, kind="quota", unit=unit, used=used, limit=limit)
