"""The figures of a report: sums over some days, read from the views of `bi` at one moment."""

from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, Final

from poweron_projections import bi
from poweron_projections.connection import Connection, Pool, schema_of, snapshot

Row = dict[str, Any]

_QUERIES: Final = {
    "outcomes": """
SELECT day::date::text AS day, SUM(opened)::bigint AS opened,
       SUM(CASE WHEN fork THEN forks_stopped ELSE ended END)::bigint AS ended,
       COALESCE(SUM(completed) FILTER (WHERE NOT fork), 0)::bigint AS completed,
       COALESCE(SUM(failed) FILTER (WHERE NOT fork), 0)::bigint AS failed,
       COALESCE(SUM(cancelled) FILTER (WHERE NOT fork), 0)::bigint AS cancelled,
       SUM(forks_stopped)::bigint AS forks_stopped
  FROM {bi}.outcomes_by_day WHERE day >= $1 AND day < $2 GROUP BY 1 ORDER BY 1
""",
    "durations": """
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY duration_ms - waiting_for_people_ms) AS p50_ms,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY duration_ms - waiting_for_people_ms) AS p95_ms
  FROM {bi}.rounds WHERE ended_at >= $1 AND ended_at < $2 AND NOT fork
""",
    "costs": """
SELECT day::date::text AS day, CASE WHEN model = '' THEN 'failed calls' ELSE model END AS model,
       SUM(cost_usd) AS cost_usd, SUM(calls)::bigint AS calls, SUM(input_tokens + output_tokens)::bigint AS tokens
  FROM {bi}.model_usage_by_day WHERE day >= $1 AND day < $2 GROUP BY 1, 2 ORDER BY 1, 2
""",
    "stages": """
SELECT stage, COUNT(*) AS calls, SUM(cost_usd) AS cost_usd, SUM(input_tokens + output_tokens)::bigint AS tokens
  FROM {bi}.model_calls WHERE recorded_at >= $1 AND recorded_at < $2 GROUP BY 1 ORDER BY 3 DESC, 4 DESC
""",
    "tasks": """
SELECT COALESCE(SUM(tasks), 0)::bigint AS tasks, COALESCE(SUM(completed), 0)::bigint AS completed
  FROM {bi}.task_costs_by_day WHERE day >= $1 AND day < $2 AND NOT fork
""",
    "spending": """
SELECT fate, SUM(calls)::bigint AS calls, SUM(tokens)::bigint AS tokens, SUM(cost_usd) AS cost_usd
  FROM {bi}.spending_by_day WHERE day >= $1 AND day < $2 GROUP BY 1 ORDER BY 4 DESC, 3 DESC
""",
    "stops": """
SELECT level, code, ending, times
  FROM (
       SELECT 'round' AS level, stopped_by AS code,
              CASE WHEN stopped_by IN {fork_stops} THEN 'forks_stopped' ELSE status END AS ending, COUNT(*) AS times
         FROM {bi}.rounds WHERE ended_at >= $1 AND ended_at < $2 AND stopped_by IS NOT NULL
          AND (NOT fork OR stopped_by IN {fork_stops})
        GROUP BY 2, 3
       UNION ALL
       SELECT level, code, 'failed', SUM(times)::bigint
         FROM {bi}.stops_by_day WHERE day >= $1 AND day < $2
          AND level IN ('action', 'model_call') AND code NOT IN {fork_stops} AND NOT fork
        GROUP BY 1, 2
  ) told
 ORDER BY times DESC, level, code, ending LIMIT 12
""",
    "times": """
SELECT stage, by_people, SUM(times)::bigint AS times, MAX(p95_ms) AS p95_ms, SUM(total_ms)::bigint AS total_ms
  FROM {bi}.stage_times_by_day WHERE day >= $1 AND day < $2 AND NOT fork GROUP BY 1, 2 ORDER BY 5 DESC
""",
    "actions": """
SELECT action, SUM(runs)::bigint AS runs, SUM(succeeded)::bigint AS succeeded, SUM(tries)::bigint AS tries
  FROM {bi}.actions_by_day WHERE day >= $1 AND day < $2 AND NOT fork GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 12
""",
    "transitions": """
SELECT from_action, to_action, SUM(times)::bigint AS times
  FROM {bi}.transitions_by_day WHERE day >= $1 AND day < $2 AND NOT fork GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT 10
""",
    "approvals": """
SELECT COUNT(*) AS asked, COUNT(*) FILTER (WHERE answer = 'granted') AS granted,
       COUNT(*) FILTER (WHERE answer = 'denied') AS denied, COUNT(*) FILTER (WHERE answer = 'expired') AS expired,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY waiting_ms) AS p50_ms
  FROM {bi}.approvals WHERE asked_at >= $1 AND asked_at < $2
""",
    "dead": """
SELECT COALESCE(SUM(dead_letters), 0)::bigint AS dead_letters
  FROM {bi}.dead_letters_by_day WHERE day >= $1 AND day < $2
""",
    "retries": """
SELECT kind, SUM(times)::bigint AS times
  FROM {bi}.retries_by_day WHERE day >= $1 AND day < $2 AND NOT fork GROUP BY 1 ORDER BY 1
""",
}


@dataclass(frozen=True, slots=True)
class Figures:
    """The rows of each query, for the days from `first` to `last`."""

    first: date
    last: date
    found: dict[str, list[Row]]

    @property
    def days(self) -> list[str]:
        count = (self.last - self.first).days + 1
        return [(self.first + timedelta(days=place)).isoformat() for place in range(count)]

    def one(self, question: str) -> Row:
        """Return the only row of a query that has one."""
        return self.found[question][0]

    def sum(self, question: str, column: str) -> Any:
        return sum((row[column] or 0 for row in self.found[question]), Decimal(0) if column == "cost_usd" else 0)


async def read_figures(pool: Pool, first: date, last: date) -> Figures:
    """Read all figures of these days, both included, in UTC."""
    async with snapshot(pool) as connection:
        await connection.execute("SET LOCAL TIME ZONE 'UTC'")
        return Figures(first, last, await _answers(connection, first, last + timedelta(days=1)))


async def _answers(connection: Connection, start: date, end: date) -> dict[str, list[Row]]:
    schema = bi.schema_beside(await schema_of(connection))
    moments = [f"{day.isoformat()}T00:00:00+00:00" for day in (start, end)]
    return {
        question: [dict(row) for row in await connection.fetch(_between(query, schema, moments))]
        for question, query in _QUERIES.items()
    }


def _between(query: str, schema: str, moments: list[str]) -> str:
    """Return the query for these days; our own dates need no quoting."""
    return (
        query.replace("{bi}", schema)
        .replace("{fork_stops}", bi.FORK_STOPS)
        .replace("$1", f"TIMESTAMPTZ '{moments[0]}'")
        .replace("$2", f"TIMESTAMPTZ '{moments[1]}'")
    )
