"""What model calls used, added up by day, model, stage or actor: all that were made, also those without effect."""

from collections.abc import Iterable, Sequence
from typing import Final, Literal, get_args

from poweron_events.event import Model
from poweron_projections.connection import Found, Pool, acquire

UsageKey = Literal["day", "model", "stage", "actor"]

Fate = Literal["used", "retried", "refused", "superseded", "failed"]
"""What happened to a call: its answer was used; its attempt was repeated; its answer was refused; another worker was
first; or it failed."""
FATES: Final[tuple[Fate, ...]] = get_args(Fate)

_KEY: Final[dict[UsageKey, str]] = {
    "day": "to_char(to_timestamp(usage.time_ms / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD')",
    "model": "CASE WHEN usage.provider = '' THEN '' ELSE usage.provider || '/' || usage.model END",
    "stage": "usage.stage",
    "actor": "COALESCE(rounds.actor ->> 'id', '')",
}
_TOTALS: Final = """
SELECT {key} AS key,
       CASE WHEN usage.verdict <> 'accepted' THEN 'superseded'
            WHEN usage.code IS NOT NULL THEN 'failed'
            WHEN usage.refused THEN 'refused'
            WHEN usage.attempt < tasks.attempts THEN 'retried'
            ELSE 'used'
       END AS fate,
       SUM(CASE WHEN usage.code IS NULL THEN 1 ELSE usage.tries END)::bigint AS calls,
       SUM(usage.input_tokens)::bigint AS input_tokens, SUM(usage.output_tokens)::bigint AS output_tokens,
       SUM(usage.cached_input_tokens)::bigint AS cached_input_tokens,
       SUM(usage.reasoning_tokens)::bigint AS reasoning_tokens,
       SUM(usage.cost_nano_usd)::bigint AS cost_nano_usd,
       COUNT(*) FILTER (WHERE usage.usage_estimated) AS estimated
  FROM usage
  LEFT JOIN tasks USING (workflow_id, round, task)
  {join}
 WHERE usage.time_ms >= $1 AND usage.time_ms < $2
 GROUP BY 1, 2
"""
_ACTORS: Final = "LEFT JOIN rounds USING (workflow_id, round)"


class CallTotals(Model):
    """What some calls used."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    """Of the input tokens, those that the provider read from its cache."""
    reasoning_tokens: int = 0
    """Of the output tokens, those of reasoning."""
    cost_nano_usd: int = 0
    estimated: int = 0
    """Calls of which tokens and cost are an estimate, never too low."""

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "CallTotals") -> "CallTotals":
        return CallTotals(**{name: getattr(self, name) + getattr(other, name) for name in CallTotals.model_fields})


class UsageTotal(CallTotals):
    """What the calls of one day, model, stage or actor used."""

    key: str
    """The day in UTC, `provider/model`, the stage or the actor; empty if no model or no actor is recorded."""
    fates: dict[Fate, CallTotals]
    """The same, by what happened to the calls; they add up to the total."""

    def place(self, by: UsageKey) -> tuple[int | str, ...]:
        """Return what a list of totals by this key is ordered by."""
        return (self.key,) if by == "day" else (-self.cost_nano_usd, -self.tokens, self.key)


async def usage_totals(pool: Pool, by: UsageKey, *, since_ms: int = 0, before_ms: int = 2**62) -> list[UsageTotal]:
    """Return what the calls of a time used; days in order, all else by cost and tokens, most first.

    Raises:
        Unavailable: Postgres cannot be reached.
    """
    query = _TOTALS.format(key=_KEY[by], join=_ACTORS if by == "actor" else "")
    async with acquire(pool) as connection:
        rows = await connection.fetch(query, since_ms, before_ms)
    by_key = dict[str, list[Found]]()
    for row in rows:
        by_key.setdefault(row["key"], []).append(row)
    totals = [_total(key, parts) for key, parts in by_key.items()]
    return sorted(totals, key=lambda total: total.place(by))


def added(totals: Iterable[CallTotals]) -> CallTotals:
    """Add up."""
    return sum(totals, CallTotals())


def _total(key: str, rows: Sequence[Found]) -> UsageTotal:
    fates = {row["fate"]: CallTotals(**{name: row[name] for name in CallTotals.model_fields}) for row in rows}
    ordered = {fate: fates[fate] for fate in FATES if fate in fates}
    return UsageTotal(key=key, fates=ordered, **added(fates.values()).__dict__)
