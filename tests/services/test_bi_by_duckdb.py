"""The views of `bi` equal what DuckDB counts in the events themselves, for 500 workflows that went every way."""

from collections.abc import AsyncGenerator
from datetime import UTC
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pytest
from wandering_workflows import wandering, write

from builders import Told
from poweron_events.log.memory import MemoryLog
from poweron_projections.catch_up import catch_up
from poweron_projections.connection import Pool, acquire, connect
from poweron_projections.rebuild import rebuild

pytestmark = pytest.mark.system

WORKFLOWS = 500
EVENTS = """
CREATE TABLE log AS SELECT *, time_ms // 86400000 AS day FROM read_json('{file}', format = 'newline_delimited', columns = {{
    workflow: 'VARCHAR', seq: 'BIGINT', time_ms: 'BIGINT', verdict: 'VARCHAR', type: 'VARCHAR', data: 'JSON'
}});
CREATE VIEW told AS SELECT *, (data ->> 'round')::BIGINT AS round, (data ->> 'task')::BIGINT AS task,
    (data ->> 'attempt')::BIGINT AS attempt, (data ->> 'step')::BIGINT AS step FROM log WHERE verdict = 'accepted';
CREATE VIEW times AS SELECT workflow, round, task, attempt, step, min(seq) AS first,
    max(time_ms) FILTER (type = 'poweron.action.selected.v1') AS selected,
    max(data ->> 'action') FILTER (type = 'poweron.action.selected.v1') AS action,
    max(time_ms) FILTER (type = 'poweron.parameters.set.v1') AS parameters,
    max(time_ms) FILTER (type = 'poweron.approval.requested.v1') AS asked,
    max(time_ms) FILTER (type IN ('poweron.approval.granted.v1', 'poweron.approval.denied.v1')) AS answered,
    max(type) FILTER (type IN ('poweron.approval.granted.v1', 'poweron.approval.denied.v1')) AS answer,
    min(time_ms) FILTER (type = 'poweron.action.started.v1') AS claimed,
    max(time_ms) FILTER (type = 'poweron.action.completed.v1') AS completed,
    max(time_ms) FILTER (type = 'poweron.observation.recorded.v1') AS observed,
    max(time_ms) FILTER (type = 'poweron.refinement.decided.v1') AS refined
    FROM told WHERE step IS NOT NULL AND type NOT IN ('poweron.stage.failed.v1', 'poweron.answer.rejected.v1')
    GROUP BY ALL;
CREATE VIEW calls AS
    SELECT *, unnest(list_filter([data -> 'modelCall'], lambda each: each IS NOT NULL)) AS call FROM log;
"""

QUESTIONS: dict[str, tuple[str, str]] = {
    "opened": (
        "SELECT day, SUM(opened)::bigint FROM bi.outcomes_by_day GROUP BY 1 HAVING SUM(opened) > 0",
        (
            "SELECT day, count(*) FROM told "
            "WHERE type IN ('poweron.workflow.requested.v1', 'poweron.round.requested.v1') GROUP BY 1"
        ),
    ),
    "ended": (
        (
            "SELECT day, SUM(completed)::bigint, SUM(failed)::bigint, SUM(cancelled)::bigint FROM bi.outcomes_by_day "
            "GROUP BY 1 HAVING SUM(ended) > 0"
        ),
        (
            "SELECT day, count(*) FILTER (type = 'poweron.round.completed.v1'), "
            "count(*) FILTER (type = 'poweron.round.failed.v1'), count(*) FILTER (type = 'poweron.round.cancelled.v1') "
            "FROM told WHERE type IN ('poweron.round.completed.v1', 'poweron.round.failed.v1', "
            "'poweron.round.cancelled.v1') GROUP BY 1"
        ),
    ),
    "usage": (
        "SELECT day, stage, calls, input_tokens, output_tokens, (cost_usd * 1e9)::bigint FROM bi.model_usage_by_day",
        (
            "SELECT day, CASE type WHEN 'poweron.tasks.planned.v1' THEN 'plan' WHEN 'poweron.actions.planned.v1' "
            "THEN 'plan_actions' WHEN 'poweron.action.selected.v1' THEN 'select' WHEN 'poweron.selection.rejected.v1' "
            "THEN 'select' WHEN 'poweron.parameters.set.v1' THEN 'parameterize' WHEN 'poweron.parameters.rejected.v1' "
            "THEN 'parameterize' WHEN 'poweron.refinement.decided.v1' THEN 'refine' WHEN 'poweron.task.reviewed.v1' "
            "THEN 'review' ELSE data ->> 'stage' END AS stage, count(*), sum((call ->> 'inputTokens')::BIGINT)::BIGINT, "
            "sum((call ->> 'outputTokens')::BIGINT)::BIGINT, sum((call ->> 'costNanoUsd')::BIGINT)::BIGINT "
            "FROM calls GROUP BY 1, 2"
        ),
    ),
    "fates": (
        "SELECT day, fate, calls FROM bi.spending_by_day",
        (
            "SELECT calls.day, CASE WHEN verdict <> 'accepted' THEN 'superseded' WHEN type LIKE '%.rejected.v1' "
            "THEN 'refused' WHEN (data ->> 'attempt')::BIGINT < last.attempt THEN 'retried' ELSE 'used' END, count(*) "
            "FROM calls LEFT JOIN (SELECT workflow, round, task, count(*) FILTER (type = 'poweron.task.reviewed.v1' "
            "AND data ->> 'status' = 'retry') AS retries, max(attempt) AS seen, greatest(max(attempt), max(CASE WHEN "
            "type = 'poweron.task.reviewed.v1' AND data ->> 'status' = 'retry' THEN attempt + 1 END)) AS attempt FROM told "
            "WHERE task IS NOT NULL GROUP BY ALL) AS last ON last.workflow = calls.workflow "
            "AND last.round = (data ->> 'round')::BIGINT AND last.task = (data ->> 'task')::BIGINT GROUP BY 1, 2"
        ),
    ),
    "stages": (
        (
            "SELECT day, stage, times, total_ms, p50_ms, p95_ms, p99_ms FROM bi.stage_times_by_day "
            "WHERE stage IN ('parameterize', 'approve', 'claim', 'execute', 'observe', 'refine')"
        ),
        (
            "SELECT ended // 86400000, stage, count(*), sum(ms)::BIGINT, quantile_cont(ms, 0.5), quantile_cont(ms, 0.95), "
            "quantile_cont(ms, 0.99) FROM (SELECT 'parameterize' AS stage, parameters - selected AS ms, parameters AS ended "
            "FROM times UNION ALL SELECT 'approve', answered - asked, answered FROM times UNION ALL SELECT 'claim', claimed "
            "- greatest(parameters, answered), claimed FROM times UNION ALL SELECT 'execute', completed - coalesce(claimed, "
            "greatest(parameters, answered)), completed FROM times UNION ALL SELECT 'observe', observed - completed, observed "
            "FROM times UNION ALL SELECT 'refine', refined - observed, refined FROM times) WHERE ms IS NOT NULL GROUP BY 1, 2"
        ),
    ),
    "transitions": (
        "SELECT day, from_action, to_action, times FROM bi.transitions_by_day WHERE to_action <> 'end'",
        (
            "SELECT selected // 86400000, coalesce(before, 'start'), action, count(*) FROM (SELECT *, lag(action) OVER "
            "(PARTITION BY workflow, round, task ORDER BY attempt, step) AS before FROM times WHERE action IS NOT NULL) "
            "GROUP BY 1, 2, 3"
        ),
    ),
    "documents": (
        "SELECT day, SUM(documents)::bigint, SUM(bytes)::bigint FROM bi.documents_by_day GROUP BY 1",
        (
            "SELECT day, count(*), sum((document ->> 'size')::BIGINT)::BIGINT FROM (SELECT day, "
            "unnest((data -> 'documents')::JSON[]) AS document FROM told WHERE type IN ('poweron.workflow.requested.v1', "
            "'poweron.round.requested.v1', 'poweron.action.completed.v1')) GROUP BY 1"
        ),
    ),
    "approvals": (
        (
            "SELECT day, SUM(asked)::bigint, SUM(granted)::bigint, SUM(denied + expired)::bigint FROM bi.approvals_by_day "
            "GROUP BY 1"
        ),
        (
            "SELECT asked // 86400000, count(*), count(*) FILTER (answer LIKE '%granted%'), "
            "count(*) FILTER (answer LIKE '%denied%') FROM times WHERE asked IS NOT NULL GROUP BY 1"
        ),
    ),
}


@pytest.fixture
async def pool(dsn: str) -> AsyncGenerator[Pool, None]:
    async with connect(dsn) as pool:
        yield pool


async def test_the_views_say_what_duckdb_counts_in_the_events_also_after_a_rebuild(pool: Pool, tmp_path: Path) -> None:
    stories, log = [wandering(number) for number in range(WORKFLOWS)], MemoryLog()
    write(log, stories)
    await catch_up(log, pool)
    database = duckdb.connect()
    database.execute(EVENTS.format(file=_events(stories, tmp_path / "events.jsonl")))
    counted = {name: _sorted(database.execute(query).fetchall()) for name, (_, query) in QUESTIONS.items()}
    assert min(map(len, counted.values())) > 0
    assert {name: await _said(pool, name) for name in QUESTIONS} == counted
    assert (await rebuild(log, pool)).differences == []
    assert {name: await _said(pool, name) for name in QUESTIONS} == counted


def _events(stories: list[tuple[Told, list[int]]], path: Path) -> Path:
    """All records as lines of JSON, each with its verdict and the broker's time."""
    with path.open("wb") as file:
        for told, times in stories:
            for seq, (value, verdict, time_ms) in enumerate(zip(told.values, told.verdicts, times, strict=True)):
                envelope = orjson.loads(value)
                line = {"workflow": told.id, "seq": seq, "time_ms": time_ms, "verdict": verdict}
                file.write(orjson.dumps({**line, "type": envelope["type"], "data": envelope["data"]}) + b"\n")
    return path


async def _said(pool: Pool, name: str) -> list[tuple[Any, ...]]:
    async with acquire(pool) as connection:
        rows = await connection.fetch(QUESTIONS[name][0])
    return _sorted([(int(day.astimezone(UTC).timestamp()) // 86_400, *rest) for day, *rest in map(tuple, rows)])


def _sorted(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    plain = [tuple(round(cell, 3) if isinstance(cell, float) else cell for cell in row) for row in rows]
    return sorted(plain, key=str)
