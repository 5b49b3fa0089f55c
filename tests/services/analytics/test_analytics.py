"""What is made of the views of `bi`: files that DuckDB reads back, a page that needs nothing else, dashboards."""

import re
import runpy
import uuid
from collections.abc import AsyncGenerator
from datetime import UTC, date, datetime
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from database_roles import database_role, reader
from wandering_workflows import wandering, write

from builders import Told
from poweron_events import topics
from poweron_events.codec import decode
from poweron_events.errors import Refused
from poweron_events.log.memory import MemoryLog
from poweron_projections import bi
from poweron_projections.connection import Pool, acquire, connect
from poweron_projections.rebuild import rebuild
from poweron_projections.verify import catch_up
from poweron_services.analytics import parquet_export
from poweron_services.analytics.html_report import report
from poweron_services.analytics.parquet_export import WrittenFile, export
from poweron_services.analytics.report_figures import read_figures

pytestmark = pytest.mark.system

EVENTS = topics.EVENTS.name
GRAFANA = Path(__file__).parents[3] / "deploy" / "grafana"


@pytest.fixture
async def pool(dsn: str) -> AsyncGenerator[Pool, None]:
    """A database of its own, so that the views are where dashboards look for them."""
    async with connect(dsn) as pool:
        yield pool


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


async def exported(pool: Pool, folder: Path, since: date | None = None) -> list[WrittenFile]:
    return [written async for written in export(pool, folder, since)]


async def test_what_is_exported_is_read_back_by_duckdb_as_the_views_say(
    log: MemoryLog, pool: Pool, tmp_path: Path
) -> None:
    write(log, map(wandering, range(40)))
    log.write(EVENTS, b"x", b"no event")
    await catch_up(log, pool)
    written = await exported(pool, tmp_path)
    assert {each.view for each in written} == {*parquet_export.OF_WORKFLOWS, "dead_letters"}
    for view in parquet_export.OF_WORKFLOWS:
        async with acquire(pool) as connection:
            expected = [tuple(row) for row in await connection.fetch(f"SELECT * FROM bi.{view}")]
        files = [str(each.path) for each in written if each.view == view]
        database = duckdb.connect()
        columns = [
            row[0]
            for row in database.execute(
                f"DESCRIBE SELECT * FROM read_parquet({files}, hive_partitioning = false)"
            ).fetchall()
        ]
        assert columns == [name for each in bi.views() if each.name == view for name, _ in each.columns]
        shown = ", ".join(f"epoch_us({name})" if name.endswith("_at") else name for name in columns)
        found = database.execute(f"SELECT {shown} FROM read_parquet({files}, hive_partitioning = false)").fetchall()
        assert sorted(map(_plain, found), key=str) == sorted(map(_plain, expected), key=str)


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_cell(cell) for cell in row)


def _cell(cell: Any) -> Any:
    match cell:
        case datetime():
            return round((cell - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000)
        case uuid.UUID():
            return str(cell)
        case Decimal():
            return cell.quantize(Decimal(10) ** -9)
        case _:
            return cell


async def test_a_second_export_writes_only_what_is_new(log: MemoryLog, pool: Pool, tmp_path: Path) -> None:
    write(log, map(wandering, range(10)))
    await catch_up(log, pool)
    first = await exported(pool, tmp_path)
    assert await exported(pool, tmp_path) == []
    await rebuild(log, pool)
    assert await exported(pool, tmp_path) == []
    told, times = wandering(10)
    write(log, [(told, times)])
    await catch_up(log, pool)
    second = await exported(pool, tmp_path)
    opened = datetime.fromtimestamp(times[0] / 1_000, UTC).date()
    assert {each.day for each in second} == {opened.isoformat()}
    assert 0 < len(second) < len(first)
    files = f"{tmp_path}/workflows/*/workflows.parquet"
    assert duckdb.sql(f"SELECT count(*) FROM read_parquet('{files}')").fetchall() == [(11,)]


async def test_days_before_since_are_left_alone(log: MemoryLog, pool: Pool, tmp_path: Path) -> None:
    write(log, map(wandering, range(30)))
    await catch_up(log, pool)
    written = await exported(pool, tmp_path, date(2026, 11, 20))
    assert min(each.day for each in written) == "2026-11-20"
    assert min(each.day for each in await exported(pool, tmp_path)) == "2026-11-18"


async def test_an_export_that_cannot_be_read_says_what_to_do(log: MemoryLog, pool: Pool, tmp_path: Path) -> None:
    (tmp_path / parquet_export.STATE).write_text("{")
    with pytest.raises(Refused, match="delete it, and every day is written again"):
        await exported(pool, tmp_path)


class Page(HTMLParser):
    """What a page is made of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.addresses = set[str](), list[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.addresses += [value or "" for name, value in attrs if name in {"src", "href", "srcset", "action"}]


async def test_a_report_is_one_page_with_the_figures_and_needs_nothing_else(log: MemoryLog, pool: Pool) -> None:
    stories = [wandering(number) for number in range(60)]
    write(log, stories)
    await catch_up(log, pool)
    figures = await read_figures(pool, date(2026, 11, 18), date(2026, 11, 24))
    text = report(figures, "2026-11-24 10:00 UTC")
    page = Page(text)
    assert page.tags.isdisjoint({"script", "link", "img", "iframe", "object", "embed"})
    assert "svg" in page.tags
    assert page.addresses == []
    assert not re.search(r"url\(|@import|https?:", text)
    opened = sum(
        event.startswith(("poweron.workflow.requested", "poweron.round.requested"))
        for told, _ in stories
        for event in accepted_types(told)
    )
    assert f"<b>{opened}</b>requests" in text


def accepted_types(told: Told) -> list[str]:
    return [
        decode(value).type for value, verdict in zip(told.values, told.verdicts, strict=True) if verdict == "accepted"
    ]


async def test_a_report_of_nothing_says_so(log: MemoryLog, pool: Pool) -> None:
    await catch_up(log, pool)
    text = report(await read_figures(pool, date(2026, 11, 1), date(2026, 11, 7)), "now")
    assert "There was nothing in these days." in text


async def test_every_panel_of_every_dashboard_has_an_answer_for_who_may_read_the_views_only(
    log: MemoryLog, dsn: str
) -> None:
    write(log, map(wandering, range(60)))
    build = runpy.run_path(str(GRAFANA / "build.py"))
    between = "BETWEEN '2026-11-01T00:00:00Z' AND '2026-12-01T00:00:00Z'"
    queries = [re.sub(r"\$__timeFilter\((\w+)\)", rf"\1 {between}", query) for query in build["queries"]()]
    async with database_role(dsn) as name, connect(dsn, bi_role=name) as pool:
        await catch_up(log, pool)
        async with reader(dsn, name) as connection:
            one = await connection.fetchval("SELECT workflow_id FROM bi.workflows WHERE steps > 1 LIMIT 1")
            unanswered = [each for each in queries if not await connection.fetch(each.replace("$workflow", str(one)))]
    assert all("dead_letters" in query or "stuck" in query or "action_tries" in query for query in unanswered)


def test_the_dashboards_are_those_that_the_script_makes() -> None:
    build = runpy.run_path(str(GRAFANA / "build.py"))
    made = {name: build["text"](dashboard) for name, dashboard in build["dashboards"]().items()}
    assert {path.name: path.read_text(encoding="utf-8") for path in (GRAFANA / "dashboards").iterdir()} == made
    source = yaml.safe_load((GRAFANA / "provisioning" / "datasources" / "poweron.yaml").read_text())["datasources"][0]
    assert {"type": source["type"], "uid": source["uid"]} == build["SOURCE"]
