"""The views of `bi`: what they count, who may read them, and that they outlive a rebuild."""

import runpy
import uuid
from collections.abc import Iterable
from datetime import datetime
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
    refused,
    requested,
    reviewed,
    step,
    typical,
)
from poweron_events import topics
from poweron_events.actor import Actor
from poweron_events.dead_letter import DeadLetter
from poweron_events.log import Record
from poweron_events.log.memory import MemoryLog
from poweron_events.request import ForkedFrom, Requester
from poweron_events.round_events import RoundCancelled, RoundFailed, Totals
from poweron_projections import bi
from poweron_projections.connection import Pool, acquire, connect, schema_of
from poweron_projections.rebuild import rebuild
from poweron_projections.tables import ALL
from poweron_projections.verify import catch_up, verify

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


async def test_views_of_an_earlier_release_are_made_again_at_the_start(log: MemoryLog, pool: Pool) -> None:
    await log.append(EVENTS, typical().messages)
    await catch_up(log, pool)
    async with acquire(pool) as connection, connection.transaction():
        schema = bi.schema_beside(await schema_of(connection))
        await connection.execute(f"DROP VIEW {schema}.rounds; CREATE VIEW {schema}.rounds AS SELECT 1 AS round")
        await bi.keep(connection)
        assert len(await connection.fetch(f"SELECT status FROM {schema}.rounds")) == 1


MINUTE = 60_000
NOON = 1_795_262_400_000  # 2026-11-21 12:00 UTC


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
    anna, ben = Requester(name="anna"), Requester(name="ben@example.com")
    asked = Told("asked").tell(
        requested("asked", requester=anna, actor=Actor(id="anna", via="cli")),
        planned(),
        first.selection_rejected(),
        first.selected(),
    )
    asked.tell(
        first.parameters(),
        first.approval_requested(expires_ms=600_000),
        first.approval_granted("yes", requester=ben, actor=Actor(id="ben@example.com", via="http", verified=True)),
    )
    asked.tell(first.started(), first.done(success=False, outcome="failed", code="not_found", documents=()))
    asked.tell(first.observed(observation=NOTHING_SEEN), first.refined(classification="retry"))
    asked.tell(reviewed(status="retry"), second.selected(failed_calls=(FAILED_CALLS,)), second.parameters())
    asked.tell(second.started(), second.done(), second.observed(), second.refined(), reviewed(attempt=2), completed())
    asked.write(asked.values[3])  # delivered twice
    asked.tell(refused("late"))
    write(
        log,
        asked,
        seconds(0, 1, 2, 3, 4, 5, 305, 306, 309, 310, 312, 314, 315, 316, 317, 318, 319, 320, 321, 322, 323, 324),
    )
    crashed = Told("crashed").tell(requested("crashed", workflow_mode="Actionplan"), planned())
    crashed.tell(
        At(1).actions_planned(1),
        At(1).selected(decided_by="plan"),
        At(1).parameters(),
        At(1).started(1),
        At(1).started(2),
    )
    eve = Requester(name="Eve, whose name is a text")
    crashed.tell(
        cancellation().model_copy(update={"requester": eve, "actor": Actor(id=eve.name, kind="service")}),
        At(1).done(2, success=False, outcome="cancelled", documents=()),
    )
    crashed.tell(RoundCancelled(round=1, message="Cancelled as asked.", totals=Totals()))
    letter = DeadLetter(topic=topics.REQUESTS.name, partition=3, offset=7, reason="No JSON.", size=5)
    log._topics[topics.DEAD_LETTERS.name][0].append(
        Record(topics.DEAD_LETTERS.name, 0, 0, NOON + 90_000, b"x", letter.message().value, {})
    )
    write(log, crashed, seconds(3_600, 3_601, 3_603, 3_604, 3_605, 3_606, 3_676, 3_700, 3_701, 3_702))
    return [plain, asked, crashed]


async def test_every_view_says_cell_by_cell_what_is_counted_by_hand(log: MemoryLog, pool: Pool) -> None:
    stories = three_workflows(log)
    await catch_up(log, pool)
    names = {told.id: name for told, name in zip(stories, ("plain", "asked", "crashed"), strict=True)}
    expected = by_hand()
    assert expected.keys() == {view.name for view in bi.views()}
    for view in bi.views():
        found = [[_shown(cell, names) for cell in row.values()] for row in await rows_of(pool, view.name)]
        header, *rows = expected[view.name]
        assert header == [name for name, _ in view.columns], view.name
        assert sorted(found) == sorted(rows), view.name


def by_hand() -> dict[str, list[list[str]]]:
    """The tables of `bi_by_hand.txt` by their names, each with its header."""
    text = Path(__file__).with_name("bi_by_hand.txt").read_text(encoding="utf-8")
    sections = [section.splitlines() for section in text.split("\n## ")[1:]]
    return {name: [line.split() for line in lines if line] for name, *lines in sections}


def _shown(cell: Any, names: dict[str, str]) -> str:  # noqa: PLR0911 - one case per type
    """Ids as names, times as seconds after noon, money as nano-dollars."""
    match cell:
        case None | "":
            return {None: "-", "": "none"}[cell]
        case bool():
            return str(cell).lower()
        case datetime():
            return f"{cell.timestamp() - NOON / 1_000:g}"
        case Decimal():
            return str(int(cell.scaleb(9)))
        case float():
            return f"{round(cell, 3):.9g}"
        case uuid.UUID():
            return names[str(cell)]
        case _:
            return str(cell)


async def test_a_fork_that_stops_since_nothing_recorded_is_left_has_not_failed(log: MemoryLog, pool: Pool) -> None:
    first, why = At(1), {"error": "No result is recorded.", "code": "fork_needs_live"}
    told = Told("fork").tell(requested("fork"), planned(), first.selected(), first.parameters(), first.started())
    told.tell(
        first.done(success=False, outcome="not_begun", documents=(), **why), first.failed("observe", *why.values())
    )
    told.tell(RoundFailed(round=1, message="It stops.", reason=why["error"], code=why["code"], totals=Totals(steps=1)))
    write(log, told, seconds(0, 1, 2, 3, 4, 5, 6, 7))
    write(log, typical("plain", steps=1), seconds(0, 2, 5, 6, 7, 11, 12, 13, 15, 16))
    await catch_up(log, pool)
    (outcome,) = await rows_of(pool, "outcomes_by_day")
    counted = ("ended", "completed", "failed", "cancelled", "forks_stopped", "success_share")
    assert [outcome[name] for name in counted] == [2, 1, 0, 0, 1, 1.0]
    (actions,) = await rows_of(pool, "actions_by_day")
    assert (actions["runs"], actions["success_share"]) == (1, 1.0)


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


async def test_forks_are_counted_apart_from_production_runs(log: MemoryLog, pool: Pool) -> None:
    origin = typical("plain", steps=1)
    write(log, origin, seconds(0, 2, 5, 6, 7, 11, 12, 13, 15, 16))
    of = ForkedFrom(workflow=origin.id, seq=3, head="0" * 64)
    fork = Told("fork").tell(requested("fork", forked_from=of), planned(), *step(1), reviewed(), completed())
    write(log, fork, seconds(*range(20, 20 + len(fork.messages))))
    await catch_up(log, pool)
    for view in ("outcomes", "model_usage", "task_costs", "spending", "actions"):
        counted = await rows_of(pool, f"{view}_by_day")
        assert {row["fork"] for row in counted} == {False, True}, view
    assert {row["workflow_id"]: row["fork"] for row in await rows_of(pool, "rounds")} == {
        uuid.UUID(origin.id): False,
        uuid.UUID(fork.id): True,
    }
