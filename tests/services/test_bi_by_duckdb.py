"""The views of `bi` equal what DuckDB counts in the events themselves, for 500 workflows that went every way."""

import re
from collections.abc import AsyncGenerator
from datetime import UTC
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pytest
from wandering_workflows import wandering, write

from builders import Told
from poweron_events import topics
from poweron_events.log.memory import MemoryLog
from poweron_projections.bi import PERIODS
from poweron_projections.catch_up import catch_up
from poweron_projections.connection import Pool, acquire, connect
from poweron_projections.rebuild import rebuild

pytestmark = pytest.mark.system

WORKFLOWS = 500
EVENTS_TOPIC = topics.EVENTS.name
EVENTS = """
CREATE TABLE log AS SELECT *, time_ms // {ms} AS day FROM read_json('{file}', format = 'newline_delimited', columns = {{
    workflow: 'VARCHAR', seq: 'BIGINT', time_ms: 'BIGINT', verdict: 'VARCHAR', type: 'VARCHAR', data: 'JSON'
}});
CREATE VIEW told AS SELECT *, (data ->> 'round')::BIGINT AS round, (data ->> 'task')::BIGINT AS task,
    (data ->> 'attempt')::BIGINT AS attempt, (data ->> 'step')::BIGINT AS step FROM log WHERE verdict = 'accepted';
CREATE VIEW ends AS SELECT workflow, round, task FROM told WHERE type = 'poweron.task.reviewed.v1'
    AND data ->> 'status' IN ('success', 'failed') UNION ALL SELECT workflow, round, 0 FROM told
    WHERE type IN ('poweron.cancellation.requested.v1', 'poweron.deadline.passed.v1', 'poweron.round.failed.v1');
CREATE TABLE dead AS SELECT * FROM read_json('{dead}', format = 'newline_delimited', columns = {{
    topic: 'VARCHAR', time_ms: 'BIGINT', size: 'BIGINT'
}});
CREATE VIEW openings AS SELECT workflow, round, time_ms AS opened, coalesce(data ->> 'workflowMode', 'React') AS mode
    FROM told WHERE type IN ('poweron.workflow.requested.v1', 'poweron.round.requested.v1');
CREATE VIEW times AS SELECT workflow, round, task, attempt, step, min(seq) AS first,
    max(time_ms) FILTER (type = 'poweron.action.selected.v1') AS selected,
    max(data ->> 'action') FILTER (type = 'poweron.action.selected.v1') AS action,
    max(time_ms) FILTER (type = 'poweron.parameters.set.v1') AS parameters,
    max(time_ms) FILTER (type = 'poweron.approval.requested.v1') AS asked,
    max(time_ms) FILTER (type IN ('poweron.approval.granted.v1', 'poweron.approval.denied.v1')) AS answered,
    max(type) FILTER (type IN ('poweron.approval.granted.v1', 'poweron.approval.denied.v1')) AS answer,
    min(time_ms) FILTER (type = 'poweron.action.started.v1') AS claimed,
    count(*) FILTER (type = 'poweron.action.started.v1') AS starts, min(time_ms) AS noted,
    coalesce(max((data -> 'observation' ->> 'success')::BOOLEAN) FILTER (type = 'poweron.observation.recorded.v1'),
    max((data ->> 'success')::BOOLEAN) FILTER (type = 'poweron.action.completed.v1')) AS success,
    max((data ->> 'durationMs')::BIGINT) FILTER (type = 'poweron.action.completed.v1') AS took,
    max(data ->> 'code') FILTER (type = 'poweron.action.completed.v1') AS code,
    max(time_ms) FILTER (type = 'poweron.action.completed.v1') AS completed,
    max(time_ms) FILTER (type = 'poweron.observation.recorded.v1') AS observed,
    max(time_ms) FILTER (type = 'poweron.refinement.decided.v1') AS refined
    FROM told WHERE step IS NOT NULL AND type NOT IN ('poweron.stage.failed.v1', 'poweron.answer.rejected.v1')
    GROUP BY ALL;
CREATE VIEW begun AS SELECT times.*, (SELECT max(time_ms) FROM told AS before WHERE before.workflow = times.workflow
    AND before.round = times.round AND before.seq < times.first AND before.type IN ('poweron.tasks.planned.v1',
    'poweron.refinement.decided.v1', 'poweron.task.reviewed.v1')) AS begun, opened, mode
    FROM times JOIN openings USING (workflow, round);
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
    "stages of plans": (
        (
            "SELECT day, stage, times, total_ms, p50_ms, p95_ms, p99_ms FROM bi.stage_times_by_day "
            "WHERE stage IN ('plan', 'plan_actions')"
        ),
        (
            "SELECT ended // 86400000, stage, count(*), sum(ms)::BIGINT, quantile_cont(ms, 0.5), quantile_cont(ms, 0.95), "
            "quantile_cont(ms, 0.99) FROM (SELECT 'plan' AS stage, time_ms - opened AS ms, time_ms AS ended FROM told JOIN "
            "openings USING (workflow, round) WHERE type = 'poweron.tasks.planned.v1' UNION ALL SELECT "
            "'plan_actions', selected - begun, selected FROM begun "
            "WHERE mode = 'Actionplan' AND step = 1) WHERE ms IS NOT NULL GROUP BY 1, 2"
        ),
    ),
    "ends of tasks": (
        "SELECT day, from_action, times FROM bi.transitions_by_day WHERE to_action = 'end'",
        (
            "SELECT coalesce(refined, noted) // 86400000, action, count(*) FROM (SELECT *, lead(action) OVER (PARTITION BY "
            "workflow, round, task ORDER BY attempt, step) AS after FROM times WHERE action IS NOT NULL) AS each WHERE "
            "after IS NULL AND EXISTS (FROM ends WHERE ends.workflow = each.workflow AND ends.round = each.round "
            "AND ends.task IN (0, each.task)) GROUP BY 1, 2"
        ),
    ),
    "task costs": (
        (
            "SELECT day, completed, (cost_usd * 1e9)::bigint, tokens, (cost_per_completed_usd * 1e9)::bigint "
            "FROM bi.task_costs_by_day WHERE tokens > 0 OR completed > 0"
        ),
        (
            "SELECT day, sum(completed)::BIGINT, sum(cost)::BIGINT, sum(tokens)::BIGINT, round(sum(cost) / nullif("
            "sum(completed), 0))::BIGINT FROM (SELECT day, 0 AS completed, (call ->> 'costNanoUsd')::BIGINT AS cost, "
            "(call ->> 'inputTokens')::BIGINT + (call ->> 'outputTokens')::BIGINT AS tokens FROM calls UNION ALL SELECT "
            "day, 1, 0, 0 FROM told WHERE type = 'poweron.task.reviewed.v1' AND data ->> 'status' = 'success') GROUP BY 1"
        ),
    ),
    "retries": (
        "SELECT day, kind, times FROM bi.retries_by_day",
        (
            "SELECT moment // 86400000, kind, sum(times)::BIGINT FROM (SELECT begun AS moment, 'task' AS kind, 1 AS times FROM begun "
            "WHERE attempt > 1 AND step = 1 UNION ALL SELECT coalesce(completed, noted), 'action', starts - 1 FROM times "
            "WHERE starts > 1 UNION ALL SELECT time_ms, 'answer', 1 FROM calls WHERE type LIKE '%.rejected.v1') GROUP BY 1, 2"
        ),
    ),
    "actions": (
        "SELECT day, action, runs, succeeded, tries, p50_ms, p95_ms, p99_ms FROM bi.actions_by_day",
        (
            "SELECT completed // 86400000, action, count(*), count(*) FILTER (success), sum(starts)::BIGINT, "
            "quantile_cont(took, 0.5), quantile_cont(took, 0.95), quantile_cont(took, 0.99) FROM times "
            "WHERE completed IS NOT NULL GROUP BY 1, 2"
        ),
    ),
    "stops": (
        "SELECT day, level, code, times FROM bi.stops_by_day WHERE level = 'round' AND code = 'cancelled'",
        "SELECT day, 'round', 'cancelled', count(*) FROM told WHERE type = 'poweron.round.cancelled.v1' GROUP BY 1",
    ),
    "dead letters": (
        "SELECT day, topic, dead_letters, bytes FROM bi.dead_letters_by_day",
        "SELECT time_ms // 86400000, topic, count(*), sum(size)::BIGINT FROM dead GROUP BY 1, 2",
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


@pytest.mark.parametrize("period", PERIODS)
async def test_the_views_say_what_duckdb_counts_in_the_events_also_after_a_rebuild(
    pool: Pool, tmp_path: Path, period: str
) -> None:
    stories, log = [wandering(number) for number in range(WORKFLOWS)], MemoryLog()
    write(log, stories)
    sizes, ms = _unreadable(log), PERIODS[period] * 1_000
    await catch_up(log, pool)
    dead = _told_of(log, sizes, tmp_path / "dead.jsonl")
    database = duckdb.connect()
    database.execute(EVENTS.format(file=_events(stories, tmp_path / "events.jsonl"), dead=dead, ms=ms))
    counted = {
        name: _sorted(database.execute(query.replace("86400000", str(ms))).fetchall())
        for name, (_, query) in QUESTIONS.items()
    }
    assert min(map(len, counted.values())) > 0
    for name in QUESTIONS:
        assert await _said(pool, name, period) == counted[name], name
    assert (await rebuild(log, pool)).differences == []
    assert {name: await _said(pool, name, period) for name in QUESTIONS} == counted


def _unreadable(log: MemoryLog) -> list[int]:
    """Records that are no events, behind the others; their sizes."""
    values = [b"{" * (number + 1) for number in range(60)]
    for value in values:
        log.write(EVENTS_TOPIC, b"x", value)
    return [*map(len, values)]


def _told_of(log: MemoryLog, sizes: list[int], path: Path) -> Path:
    """When a dead letter told of each of them, as lines of JSON."""
    letters = [record for partition in log._topics[topics.DEAD_LETTERS.name] for record in partition]
    assert len(letters) == len(sizes)
    with path.open("wb") as file:
        for letter, size in zip(letters, sizes, strict=True):
            file.write(orjson.dumps({"topic": EVENTS_TOPIC, "time_ms": letter.time_ms, "size": size}) + b"\n")
    return path


def _events(stories: list[tuple[Told, list[int]]], path: Path) -> Path:
    """All records as lines of JSON, each with its verdict and the broker's time."""
    with path.open("wb") as file:
        for told, times in stories:
            for seq, (value, verdict, time_ms) in enumerate(zip(told.values, told.verdicts, times, strict=True)):
                envelope = orjson.loads(value)
                line = {"workflow": told.id, "seq": seq, "time_ms": time_ms, "verdict": verdict}
                file.write(orjson.dumps({**line, "type": envelope["type"], "data": envelope["data"]}) + b"\n")
    return path


async def _said(pool: Pool, name: str, period: str) -> list[tuple[Any, ...]]:
    async with acquire(pool) as connection:
        rows = await connection.fetch(re.sub(r"day\b", period, QUESTIONS[name][0]))
    return _sorted(
        [(int(day.astimezone(UTC).timestamp()) // PERIODS[period], *rest) for day, *rest in map(tuple, rows)]
    )


def _sorted(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    plain = [tuple(round(cell, 3) if isinstance(cell, float) else cell for cell in row) for row in rows]
    return sorted(plain, key=str)
