"""Writes the dashboards next to this file: `uv run deploy/grafana/build.py`.

They read only the schema `bi`; the board of operations reads Prometheus.
"""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "dashboards"
SOURCE = {"type": "grafana-postgresql-datasource", "uid": "poweron-bi"}
PROMETHEUS = {"type": "prometheus", "uid": "poweron-prometheus"}
WIDTH = 24  # of a dashboard, in Grafana's units

IN_TIME = "$__timeFilter"
Panel = dict[str, Any]


def panel(kind: str, title: str, sql: str, *, width: int = 12, unit: str = "short", **options: Any) -> Panel:
    """Return a panel with one query; `kind` is a type of Grafana panel."""
    form = "time_series" if kind == "timeseries" else "table"
    target = {"refId": "A", "datasource": SOURCE, "format": form, "rawQuery": True, "editorMode": "code", "rawSql": sql}
    return {
        "type": kind,
        "title": title,
        "datasource": SOURCE,
        "targets": [target],
        "gridPos": {"w": width, "h": 4 if kind == "stat" else 9},
        "fieldConfig": {"defaults": {"unit": unit, **options.pop("defaults", {})}, "overrides": []},
        "options": options,
    }


def number(title: str, sql: str, unit: str = "short") -> Panel:
    return panel("stat", title, sql, width=4, unit=unit, reduceOptions={"calcs": ["lastNotNull"]})


def over_time(title: str, sql: str, unit: str = "short") -> Panel:
    """Return stacked columns over days; the query returns time, metric and value."""
    custom = {"drawStyle": "bars", "fillOpacity": 80, "lineWidth": 0, "stacking": {"mode": "normal"}}
    return panel("timeseries", title, sql, unit=unit, defaults={"custom": custom})


def lines(title: str, sql: str, unit: str = "ms") -> Panel:
    return panel("timeseries", title, sql, unit=unit, defaults={"custom": {"lineWidth": 2, "showPoints": "always"}})


def table(title: str, sql: str, width: int = 12) -> Panel:
    return panel("table", title, sql, width=width)


def measured(title: str, *queries: tuple[str, str], unit: str = "short", width: int = 12) -> Panel:
    """Return a panel with lines from Prometheus; each query has a legend, in which `{{label}}` is a label's value."""
    targets = [
        {"refId": chr(ord("A") + place), "datasource": PROMETHEUS, "expr": query, "legendFormat": legend, "range": True}
        for place, (query, legend) in enumerate(queries)
    ]
    return {
        "type": "timeseries",
        "title": title,
        "datasource": PROMETHEUS,
        "targets": targets,
        "gridPos": {"w": width, "h": 8},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0, "custom": {"lineWidth": 2}}, "overrides": []},
        "options": {"tooltip": {"mode": "multi", "sort": "desc"}},
    }


def reading(title: str, query: str, unit: str = "short", *, warning: float | None = None) -> Panel:
    """Return a panel with one number from Prometheus, which is red from `warning` on."""
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    steps += [] if warning is None else [{"color": "red", "value": warning}]
    target = {"refId": "A", "datasource": PROMETHEUS, "expr": query, "instant": True}
    return {
        "type": "stat",
        "title": title,
        "datasource": PROMETHEUS,
        "targets": [target],
        "gridPos": {"w": 4, "h": 4},
        "fieldConfig": {
            "defaults": {"unit": unit, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
        "options": {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value"},
    }


def p95(histogram: str, label: str) -> str:
    """Return the query for the 95th percentile of a histogram, by a label."""
    return f"histogram_quantile(0.95, sum by ({label}, le) (rate({histogram}_bucket[$__rate_interval])))"


OPERATIONS = [
    reading("Open workflows", "sum(max by (phase) (poweron_open_workflows))"),
    reading("Oldest turn", "max(poweron_oldest_turn_seconds)", "s", warning=600),
    reading("Waiting approvals", "max(poweron_pending_approvals)"),
    reading("Stuck workflows", "max(poweron_stuck_workflows)", warning=1),
    reading("Dead letters", "sum(max by (topic) (poweron_dead_letters))", warning=1),
    reading("Cost of the last hour", "sum(increase(poweron_model_cost_dollars_total[1h]))", "currencyUSD"),
    measured("Open workflows by phase", ("max by (phase) (poweron_open_workflows)", "{{phase}}")),
    measured("Waiting turns by role", ("max by (role) (poweron_waiting_turns)", "{{role}}")),
    measured("Age of the oldest turn", ("max by (role) (poweron_oldest_turn_seconds)", "{{role}}"), unit="s"),
    measured(
        "Lag",
        ("max by (group) (poweron_consumer_group_lag_records)", "{{group}}"),
        ("max(poweron_projector_lag_records)", "rows"),
    ),
    measured(
        "Events",
        ("sum by (type) (rate(poweron_events_total[$__rate_interval]))", "{{type}}"),
        unit="cps",
    ),
    measured(
        "Events that had no effect",
        ('sum by (verdict) (rate(poweron_events_total{verdict!="accepted"}[$__rate_interval]))', "{{verdict}}"),
        unit="cps",
    ),
    measured("How long stages take: 95 of 100", (p95("poweron_stage_seconds", "stage"), "{{stage}}"), unit="s"),
    measured("How long models take: 95 of 100", (p95("poweron_model_request_seconds", "model"), "{{model}}"), unit="s"),
    measured(
        "Requests without a usable answer",
        ("sum by (code) (rate(poweron_model_errors_total[$__rate_interval]))", "{{code}}"),
        unit="reqps",
    ),
    measured(
        "Tokens",
        (
            'sum by (model, kind) (rate(poweron_model_tokens_total{kind=~"input|output"}[$__rate_interval]))',
            "{{model}} {{kind}}",
        ),
        unit="cps",
    ),
    measured(
        "Cost per hour",
        ("sum by (model) (rate(poweron_model_cost_dollars_total[$__rate_interval])) * 3600", "{{model}}"),
        unit="currencyUSD",
    ),
    measured(
        "What waits for people",
        ("max(poweron_pending_approvals)", "approvals"),
        ("max(poweron_overdue_approvals)", "overdue approvals"),
        ("max(poweron_pending_budget_questions)", "budget questions"),
    ),
    measured(
        "Door: requests",
        ("sum by (route, status) (rate(poweron_http_request_seconds_count[$__rate_interval]))", "{{route}} {{status}}"),
        unit="reqps",
    ),
    measured("Door: 95 of 100 answer within", (p95("poweron_http_request_seconds", "route"), "{{route}}"), unit="s"),
    measured("Door: followers of streams", ("sum(poweron_stream_followers)", "followers")),
    measured(
        "Servers and polls",
        ("min by (server) (poweron_server_up)", "{{server}} answers"),
        ("max by (group) (poweron_poll_age_seconds)", "{{group}}: seconds since a poll"),
    ),
    measured("Processes by role", ("sum by (role) (poweron_role_played)", "{{role}}")),
    measured(
        "Memory by release",
        (
            "process_resident_memory_bytes * on (instance) group_left (release) poweron_build_info",
            "{{instance}} {{release}}",
        ),
        unit="bytes",
    ),
]

OVERVIEW = [
    number("Requests", f"SELECT SUM(opened) FROM bi.outcomes_by_day WHERE {IN_TIME}(day) AND NOT fork"),
    number(
        "Completed of ended",
        "SELECT SUM(completed)::float8 / NULLIF(SUM(ended - forks_stopped), 0) FROM bi.outcomes_by_day "
        f"WHERE {IN_TIME}(day) AND NOT fork",
        "percentunit",
    ),
    number(
        "Median time, without people",
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY duration_ms - waiting_for_people_ms) "
        f"FROM bi.rounds WHERE {IN_TIME}(ended_at) AND NOT fork",
        "ms",
    ),
    number(
        "Cost of models",
        f"SELECT SUM(cost_usd) FROM bi.model_usage_by_day WHERE {IN_TIME}(day) AND NOT fork",
        "currencyUSD",
    ),
    number(
        "Cost of a completed task",
        f"SELECT SUM(cost_usd) / NULLIF(SUM(completed), 0) FROM bi.task_costs_by_day WHERE {IN_TIME}(day) AND NOT fork",
        "currencyUSD",
    ),
    number("Open now", "SELECT COUNT(*) FROM bi.workflows WHERE is_open"),
    over_time(
        "How requests ended",
        "SELECT day AS time, metric, SUM(value) AS value FROM bi.outcomes_by_day "
        "CROSS JOIN LATERAL (VALUES ('completed', completed), ('failed', failed), ('cancelled', cancelled), "
        "('fork stopped', forks_stopped)) "
        f"AS ended (metric, value) WHERE {IN_TIME}(day) AND NOT fork GROUP BY 1, 2 ORDER BY 1",
    ),
    over_time(
        "Where the time went",
        "SELECT day AS time, stage AS metric, total_ms AS value FROM bi.stage_times_by_day "
        f"WHERE {IN_TIME}(day) AND NOT fork ORDER BY 1",
        "ms",
    ),
    table(
        "What followed what",
        'SELECT from_action AS "after", to_action AS "came", SUM(times) AS "times" FROM bi.transitions_by_day '
        f"WHERE {IN_TIME}(day) AND NOT fork GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 20",
    ),
    over_time(
        "Documents",
        "SELECT day AS time, origin AS metric, SUM(documents) AS value FROM bi.documents_by_day "
        f"WHERE {IN_TIME}(day) AND NOT fork GROUP BY 1, 2 ORDER BY 1",
    ),
    table(
        "The newest workflows",
        "SELECT workflow_id, status, stopped_by, steps, cost_usd, opened_at FROM bi.workflows "
        f"WHERE {IN_TIME}(opened_at) ORDER BY opened_at DESC LIMIT 50",
        width=WIDTH,
    ),
]

OF_ONE = "workflow_id::text = '$workflow'"
WORKFLOW = [
    table(
        "The workflow",
        "SELECT status, stopped_by, rounds, steps, input_tokens, output_tokens, cost_usd, opened_at, updated_at "
        f"FROM bi.workflows WHERE {OF_ONE}",
        width=WIDTH,
    ),
    table(
        "Its rounds",
        "SELECT round, mode, status, stopped_by, steps, cost_usd, duration_ms, waiting_for_people_ms, opened_at "
        f"FROM bi.rounds WHERE {OF_ONE} ORDER BY round",
    ),
    table(
        "Its tasks",
        "SELECT round, task, task_type, status, stopped_by, attempts, actions, tokens, cost_usd, duration_ms "
        f"FROM bi.tasks WHERE {OF_ONE} ORDER BY round, task",
    ),
    table(
        "Its steps",
        "SELECT round, task, attempt, step, status, action, outcome, error_code, decision, classification, tries, "
        "select_ms, parameterize_ms, approve_ms, claim_ms, execute_ms, observe_ms, refine_ms "
        f"FROM bi.steps WHERE {OF_ONE} ORDER BY round, task, attempt, step",
        width=WIDTH,
    ),
    table(
        "Its calls of models",
        "SELECT seq, stage, model, fate, code, calls, input_tokens, output_tokens, cost_usd, duration_ms, recorded_at "
        f"FROM bi.model_calls WHERE {OF_ONE} ORDER BY seq, position",
        width=WIDTH,
    ),
    table(
        "Tries of its actions",
        "SELECT round, task, attempt, step, try, action, outcome, duration_ms, started_at "
        f"FROM bi.action_tries WHERE {OF_ONE} ORDER BY started_at",
    ),
    table(
        "Its documents and approvals",
        f"SELECT 'document' AS kind, origin || ', ' || mime_type AS what, arrived_at AS time FROM bi.documents "
        f"WHERE {OF_ONE} UNION ALL SELECT 'approval', action || ', ' || answer, asked_at FROM bi.approvals "
        f"WHERE {OF_ONE} ORDER BY 3",
    ),
]

COST = [
    over_time(
        "What models cost",
        "SELECT day AS time, model AS metric, SUM(cost_usd) AS value FROM bi.model_usage_by_day "
        f"WHERE {IN_TIME}(day) AND NOT fork GROUP BY 1, 2 ORDER BY 1",
        "currencyUSD",
    ),
    over_time(
        "Tokens",
        "SELECT day AS time, model AS metric, SUM(input_tokens + output_tokens) AS value FROM bi.model_usage_by_day "
        f"WHERE {IN_TIME}(day) AND NOT fork GROUP BY 1, 2 ORDER BY 1",
    ),
    over_time(
        "What became of what was paid",
        "SELECT day AS time, fate AS metric, cost_usd AS value FROM bi.spending_by_day "
        f"WHERE {IN_TIME}(day) AND NOT fork ORDER BY 1",
        "currencyUSD",
    ),
    lines(
        "Cost of a completed task",
        "SELECT day AS time, cost_per_completed_usd AS value FROM bi.task_costs_by_day "
        f"WHERE {IN_TIME}(day) AND NOT fork ORDER BY 1",
        "currencyUSD",
    ),
    over_time(
        "What forks cost",
        "SELECT day AS time, fate AS metric, cost_usd AS value FROM bi.spending_by_day "
        f"WHERE {IN_TIME}(day) AND fork ORDER BY 1",
        "currencyUSD",
    ),
    table(
        "By model and stage",
        "SELECT provider, model, stage, SUM(calls) AS calls, SUM(failed_calls) AS failed, SUM(input_tokens) AS read, "
        "SUM(cached_input_tokens) AS cached, SUM(output_tokens) AS written, SUM(cost_usd) AS cost_usd "
        f"FROM bi.model_usage_by_day WHERE {IN_TIME}(day) AND NOT fork GROUP BY 1, 2, 3 ORDER BY 9 DESC",
    ),
    table(
        "The dearest workflows",
        "SELECT workflow_id, status, steps, input_tokens + output_tokens AS tokens, cost_usd FROM bi.workflows "
        f"WHERE {IN_TIME}(opened_at) ORDER BY cost_usd DESC, tokens DESC LIMIT 20",
    ),
]

RELIABILITY = [
    table(
        "Why things stopped",
        f"SELECT level, code, SUM(times) AS times FROM bi.stops_by_day WHERE {IN_TIME}(day) AND NOT fork "
        "GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 30",
    ),
    over_time(
        "What was done again",
        "SELECT day AS time, kind AS metric, times AS value FROM bi.retries_by_day "
        f"WHERE {IN_TIME}(day) AND NOT fork ORDER BY 1",
    ),
    lines(
        "How long stages took: 95 of 100",
        "SELECT hour AS time, stage AS metric, p95_ms AS value FROM bi.stage_times_by_hour "
        f"WHERE {IN_TIME}(hour) AND NOT by_people AND NOT fork ORDER BY 1",
    ),
    lines(
        "How long people took: median, 95th and 99th percentile",
        "SELECT day AS time, p50_ms AS median, p95_ms AS p95, p99_ms AS p99 FROM bi.stage_times_by_day "
        f"WHERE {IN_TIME}(day) AND by_people AND NOT fork ORDER BY 1",
    ),
    table(
        "Actions",
        "SELECT action, SUM(runs) AS runs, SUM(succeeded)::float8 / SUM(runs) AS succeeded, SUM(tries) AS tries, "
        f"MAX(p95_ms) AS worst_p95_ms FROM bi.actions_by_day WHERE {IN_TIME}(day) AND NOT fork "
        "GROUP BY 1 ORDER BY 2 DESC",
    ),
    table(
        "Approvals",
        "SELECT day, action, asked, granted, denied, expired, waiting, withdrawn, p50_ms FROM bi.approvals_by_day "
        f"WHERE {IN_TIME}(day) AND NOT fork ORDER BY 1 DESC, 2",
    ),
    table(
        "Why requests were refused",
        "SELECT code, SUM(requests) AS requests FROM bi.requests_by_day "
        f"WHERE {IN_TIME}(day) AND answer = 'refused' GROUP BY 1 ORDER BY 2 DESC",
    ),
    over_time(
        "Records that nobody can read",
        "SELECT day AS time, topic AS metric, dead_letters AS value FROM bi.dead_letters_by_day "
        f"WHERE {IN_TIME}(day) ORDER BY 1",
    ),
    table(
        "Workflows that are stuck",
        "SELECT workflow_id, status, stopped_by, updated_at FROM bi.workflows WHERE stuck ORDER BY updated_at DESC",
    ),
]

WORKFLOWS = {
    "name": "workflow",
    "label": "Workflow",
    "type": "query",
    "datasource": SOURCE,
    "query": "SELECT workflow_id::text FROM bi.workflows ORDER BY opened_at DESC LIMIT 500",
    "refresh": 1,
}


def dashboards() -> dict[str, dict[str, Any]]:
    """Return all dashboards by file name."""
    return {
        "overview.json": _dashboard("PowerOn: overview", "poweron-overview", OVERVIEW),
        "workflow.json": _dashboard("PowerOn: one workflow", "poweron-workflow", WORKFLOW, [WORKFLOWS]),
        "cost.json": _dashboard("PowerOn: cost", "poweron-cost", COST),
        "reliability.json": _dashboard("PowerOn: reliability", "poweron-reliability", RELIABILITY),
        "operations.json": _dashboard("PowerOn: operations", "poweron-operations", OPERATIONS, since="now-6h"),
    }


def queries() -> list[str]:
    """Return the SQL of every panel and of every variable."""
    return [
        each
        for board in dashboards().values()
        for each in (
            *(target["rawSql"] for one in board["panels"] for target in one["targets"] if "rawSql" in target),
            *(variable["query"] for variable in board["templating"]["list"]),
        )
    ]


def expressions() -> list[str]:
    """Return the query to Prometheus of every panel."""
    panels = dashboards()["operations.json"]["panels"]
    return [target["expr"] for panel_ in panels for target in panel_["targets"]]


def _dashboard(
    title: str,
    uid: str,
    panels: list[Panel],
    variables: list[dict[str, Any]] | None = None,
    *,
    since: str = "now-30d",
) -> dict[str, Any]:
    return {
        "uid": uid,
        "title": title,
        "tags": ["poweron"],
        "timezone": "utc",
        "schemaVersion": 39,
        "editable": True,
        "time": {"from": since, "to": "now"},
        "templating": {"list": variables or []},
        "panels": _placed(panels),
    }


def _placed(panels: list[Panel]) -> list[Panel]:
    """Return the panels arranged in rows, in their order."""
    placed, x, y, high = [], 0, 0, 0
    for number_, each in enumerate(panels, 1):
        size = each["gridPos"]
        if x + size["w"] > WIDTH:
            x, y, high = 0, y + high, 0
        placed.append({**each, "id": number_, "gridPos": {**size, "x": x, "y": y}})
        x, high = x + size["w"], max(high, size["h"])
    return placed


def text(dashboard: dict[str, Any]) -> str:
    return json.dumps(dashboard, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, dashboard in dashboards().items():
        (FOLDER / name).write_text(text(dashboard), encoding="utf-8")
