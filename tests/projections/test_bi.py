"""The views of `bi`: what they count, who may read them, and that they outlive a rebuild."""

import runpy
import uuid
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from database_roles import database_role, reader
from servers import Pair

from builders import (
    FAILED_CALLS,
    NOTHING_SEEN,
    At,
    Told,
    cancellation,
    completed,
    planned,
    requested,
    reviewed,
    step,
    typical,
)
from poweron_events import topics
from poweron_events.log import Record
from poweron_events.log.memory import MemoryLog
from poweron_events.outcome import RoundCancelled, Totals
from poweron_projections import bi
from poweron_projections.catch_up import catch_up
from poweron_projections.connection import Pool, acquire, connect, schema_of
from poweron_projections.rebuild import rebuild
from poweron_projections.tables import ALL
from poweron_projections.verify import verify

EVENTS = topics.EVENTS.name


async def rows_of(pool: Pool, view: str, order: str = "1") -> list[dict[str, Any]]:
    async with acquire(pool) as connection:
        schema = bi.schema_beside(await schema_of(connection))
        return [dict(row) for row in await connection.fetch(f"SELECT * FROM {schema}.{view} ORDER BY {order}")]


async def test_every_view_is_made_and_every_column_of_it_has_a_comment(log: MemoryLog, pool: Pool) -> None:
    await log.append(EVENTS, typical().messages)
    await catch_up(log, pool)
    async with acquire(pool) as connection:
        schema = bi.schema_beside(await schema_of(connection))
        found = await connection.fetch(
            """
            SELECT relname, obj_description(pg_class.oid) AS view, attname, col_description(attrelid, attnum) AS column
              FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
             WHERE relnamespace = to_regnamespace($1) AND relkind = 'v' ORDER BY relname, attnum
            """,
            schema,
        )
    expected = [(view.name, view.comment, *column) for view in bi.views() for column in view.columns]
    assert sorted(tuple(row) for row in found) == sorted(expected)
    for view in bi.views():
        await rows_of(pool, view.name)


MINUTE = 60_000
NOON = 1_795_262_400_000  # 2026-11-21 12:00 UTC
DAY = "2026-11-21"


def write(log: MemoryLog, told: Told, times: Iterable[int]) -> None:
    """Append a story as the broker would have taken it at these times."""
    for message, time_ms in zip(told.messages, times, strict=True):
        number = log.partition_of(EVENTS, message.key)
        partition = log._topics[EVENTS][number]
        partition.append(Record(EVENTS, number, len(partition), time_ms, message.key, message.value, {}))


def seconds(*after: float) -> list[int]:
    """Moments this many seconds after noon."""
    return [NOON + int(each * 1_000) for each in after]


def three_workflows(log: MemoryLog) -> list[Told]:
    """One that succeeds, one that is approved, refused and retried, one that fails after a crash."""
    plain = typical("plain", steps=1)
    write(log, plain, seconds(0, 2, 5, 6, 7, 11, 12, 13, 15, 16))
    first, second = At(1), At(1, attempt=2)
    asked = Told("asked").tell(requested("asked"), planned(), first.selection_rejected(), first.selected())
    asked.tell(first.parameters(), first.approval_requested(expires_ms=600_000), first.approval_granted("yes"))
    asked.tell(first.started(), first.done(success=False, outcome="failed", code="not_found", documents=()))
    asked.tell(first.observed(observation=NOTHING_SEEN), first.refined(classification="retry"))
    asked.tell(reviewed(status="retry"), second.selected(failed_calls=(FAILED_CALLS,)), second.parameters())
    asked.tell(second.started(), second.done(), second.observed(), second.refined(), reviewed(attempt=2), completed())
    asked.write(asked.values[3])  # delivered twice
    write(
        log, asked, seconds(0, 1, 2, 3, 4, 5, 305, 306, 309, 310, 312, 314, 315, 316, 317, 318, 319, 320, 321, 322, 323)
    )
    crashed = Told("crashed").tell(requested("crashed", workflow_mode="Actionplan"), planned())
    crashed.tell(
        At(1).actions_planned(1),
        At(1).selected(decided_by="plan"),
        At(1).parameters(),
        At(1).started(1),
        At(1).started(2),
    )
    crashed.tell(cancellation(), At(1).done(2, success=False, outcome="cancelled", documents=()))
    crashed.tell(RoundCancelled(round=1, message="Cancelled as asked.", totals=Totals()))
    write(log, crashed, seconds(3_600, 3_601, 3_603, 3_604, 3_605, 3_606, 3_676, 3_700, 3_701, 3_702))
    return [plain, asked, crashed]


async def test_the_views_count_what_is_counted_by_hand(log: MemoryLog, pool: Pool) -> None:
    """Each call costs 3,000 nano-dollars for 120 tokens; the failed ones 900 for 78."""
    three_workflows(log)
    await catch_up(log, pool)
    for view, expected in BY_HAND.items():
        found = [tuple(row.values())[1:] for row in await rows_of(pool, view)]
        assert sorted(found, key=str) == sorted(expected, key=str), view
        assert {row["day"].isoformat() for row in await rows_of(pool, view)} == {f"{DAY}T00:00:00+00:00"}
    hours = [(row["hour"].hour, row["mode"], row["opened"]) for row in await rows_of(pool, "outcomes_by_hour")]
    assert hours == [(12, "React", 2), (13, "Actionplan", 1)]


def usd(nano: int) -> Decimal:
    return Decimal(nano).scaleb(-9)


CANCELLED = [("round", "cancelled", 1), ("task", "cancelled", 1), ("step", "cancelled", 1)]

BY_HAND: dict[str, list[tuple[Any, ...]]] = {
    "outcomes_by_day": [
        ("Actionplan", 1, 1, 0, 0, 1, 0.0, 1, 102_000.0, 102_000.0, 102_000.0, 0),
        ("React", 2, 2, 2, 0, 0, 1.0, 3, 19_000.0, 21_700.0, 21_940.0, 300_000),
    ],
    "stops_by_day": [("action", "not_found", 1), ("model_call", "model_busy", 3), *CANCELLED],
    "stage_times_by_day": [
        ("plan", False, 3, 1_000.0, 1_900.0, 1_980.0, 4_000),
        ("plan_actions", False, 1, 3_000.0, 3_000.0, 3_000.0, 3_000),
        ("select", False, 3, 2_000.0, 2_900.0, 2_980.0, 6_000),
        ("parameterize", False, 4, 1_000.0, 1_000.0, 1_000.0, 4_000),
        ("approve", True, 1, 300_000.0, 300_000.0, 300_000.0, 300_000),
        ("claim", False, 4, 1_000.0, 1_000.0, 1_000.0, 4_000),
        ("execute", False, 4, 3_500.0, 81_349.99999999997, 92_269.99999999997, 103_000),
        ("observe", False, 3, 1_000.0, 1_000.0, 1_000.0, 3_000),
        ("refine", False, 3, 1_000.0, 1_900.0, 1_980.0, 4_000),
        ("review", False, 3, 2_000.0, 2_000.0, 2_000.0, 5_000),
    ],
    "model_usage_by_day": [
        ("builtin", "extractive", "plan", 3, 0, 300, 60, 0, 0, usd(9_000), 15),
        ("builtin", "extractive", "plan_actions", 1, 0, 100, 20, 0, 0, usd(3_000), 5),
        ("builtin", "extractive", "select", 6, 0, 600, 120, 0, 0, usd(18_000), 30),
        ("", "", "select", 0, 3, 70, 8, 0, 0, usd(900), 1_200),
        ("builtin", "extractive", "parameterize", 4, 0, 400, 80, 0, 0, usd(12_000), 20),
        ("builtin", "extractive", "refine", 3, 0, 300, 60, 0, 0, usd(9_000), 15),
        ("builtin", "extractive", "review", 3, 0, 300, 60, 0, 0, usd(9_000), 15),
    ],
    "task_costs_by_day": [(3, 2, usd(69_000 + 900 - 9_000), usd(30_450), 20 * 120 + 78)],
    "spending_by_day": [
        ("used", 14, 1_680, usd(42_000)),
        ("retried", 4, 480, usd(12_000)),
        ("refused", 1, 120, usd(3_000)),
        ("superseded", 1, 120, usd(3_000)),
        ("failed", 3, 78, usd(900)),
    ],
    "retries_by_day": [("action", 1), ("task", 1), ("answer", 1)],
    "transitions_by_day": [
        ("start", "document.extract", 3),
        ("document.extract", "document.extract", 1),
        ("document.extract", "end", 3),
    ],
    "actions_by_day": [("document.extract", 4, 2, 0.5, 5, 12.0, 12.0, 12.0)],
    "documents_by_day": [
        ("request", "application/pdf", 3, 3_000, 0, 0),
        ("action", "application/pdf", 2, 2_000, 0, 0),
    ],
    "approvals_by_day": [("document.extract", 1, 1, 0, 0, 0, 0, 300_000.0, 300_000.0, 300_000.0)],
}


async def test_the_views_are_the_same_after_a_rebuild_and_verify_leaves_them_alone(log: MemoryLog, pool: Pool) -> None:
    three_workflows(log)
    await catch_up(log, pool)
    before = {view.name: await rows_of(pool, view.name) for view in bi.views()}
    assert (await rebuild(log, pool)).differences == []
    assert (await verify(log, pool)).differences == []
    assert {view.name: await rows_of(pool, view.name) for view in bi.views()} == before


async def test_a_role_may_read_the_views_and_nothing_else_also_after_a_rebuild(log: MemoryLog, pair: Pair) -> None:
    three_workflows(log)
    async with database_role(pair.postgres) as name, connect(pair.postgres, schema=name, bi_role=name) as pool:
        await catch_up(log, pool)
        await may_read_only_the_views(pair, name)
        await rebuild(log, pool)
        await may_read_only_the_views(pair, name)
        await forget(pool, name)


async def may_read_only_the_views(pair: Pair, name: str) -> None:
    others = [f"SELECT FROM {name}.{table.name}" for table in ALL]
    others += [f"SELECT FROM {name}.approvals", f"SELECT FROM {name}.workflow_overview", f"CREATE SCHEMA {name}_own"]
    others += [
        f"DELETE FROM {name}_bi.steps",
        f"CREATE TABLE {name}_bi.own ()",
        "SELECT pg_read_file('postgresql.conf')",
    ]
    async with reader(pair.postgres, name) as connection:
        for view in bi.views():
            await connection.fetch(f"SELECT * FROM {name}_bi.{view.name}")
        for statement in others:
            with pytest.raises(asyncpg.exceptions.InsufficientPrivilegeError):
                await connection.execute(statement)


async def test_a_role_that_is_not_there_is_told_and_given_its_rights_once_it_is(
    log: MemoryLog, pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    three_workflows(log)
    name = f"t{uuid.uuid4().hex}"
    async with connect(pair.postgres, schema=name, bi_role=name) as pool:
        await catch_up(log, pool)
        assert [(each.message, each.role) for each in caplog.records][:1] == [("bi_role_missing", name)]
        async with database_role(pair.postgres, name):
            await catch_up(log, pool)
            async with reader(pair.postgres, name) as connection:
                assert await connection.fetchval(f"SELECT version FROM {name}_bi.version") == bi.VERSION
        await forget(pool, name)


async def forget(pool: Pool, name: str) -> None:
    async with acquire(pool) as connection:
        await connection.execute(f"DROP SCHEMA {name}, {name}_bi CASCADE")


def test_the_page_for_analysts_is_made_of_the_comments() -> None:
    docs = Path(__file__).parents[2] / "docs"
    assert (docs / "bi.md").read_text(encoding="utf-8") == runpy.run_path(str(docs / "bi_page.py"))["page"]()


async def test_no_view_shows_what_people_or_models_wrote(log: MemoryLog, pool: Pool) -> None:
    three_workflows(log)
    await catch_up(log, pool)
    shown = str([await rows_of(pool, view.name) for view in bi.views()])
    for written in ("grand total", "Find the total", "Read the estimate", "No such action", "estimate.pdf", "text.md"):
        assert written not in shown


async def test_each_review_is_counted_once_however_the_attempt_came_to_it(log: MemoryLog, pool: Pool) -> None:
    """After a plan that is done, a plan that failed, a refusal, and after a `continue` that no step was left for."""
    planned_, again = At(1), At(1, attempt=2)
    plan = Told("plan").tell(requested("plan", workflow_mode="Actionplan"), planned(), planned_.actions_planned(1))
    plan.tell(planned_.selected(), planned_.parameters(), planned_.started(), planned_.done())
    plan.tell(planned_.observed(observation=NOTHING_SEEN), planned_.rejected("review"), reviewed(status="retry"))
    plan.tell(again.actions_planned(1), again.selected(), again.parameters(), again.started(), again.done())
    plan.tell(again.observed(), reviewed(attempt=2), completed())
    write(log, plan, seconds(*range(9), *range(17, 24), 33, 34))
    limit = Told("limit").tell(requested("limit", max_steps=1), planned(), *step(1, decision="continue"), reviewed())
    write(log, limit, seconds(*range(8), 10))
    refusal = Told("refusal").tell(requested("refusal"), planned(), At(1).selection_rejected())
    refusal.tell(At(1).selection_rejected(2), reviewed(status="failed"))
    write(log, refusal, seconds(0, 1, 2, 3, 8))
    stopped = Told("stopped").tell(requested("stopped"), planned(), *step(1), cancellation())
    write(log, stopped, seconds(*range(9)))
    await catch_up(log, pool)
    for _ in range(2):
        reviews = [row for row in await rows_of(pool, "stage_times_by_day") if row["stage"] == "review"]
        assert [(row["times"], row["p50_ms"], row["total_ms"]) for row in reviews] == [(4, 7_500, 28_000)]
        assert (await rebuild(log, pool)).differences == []
