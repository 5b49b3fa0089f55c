"""The views of `bi` equal what DuckDB counts in the events themselves, for 500 workflows that went every way."""

import hashlib
from collections.abc import AsyncGenerator, Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pytest
from simulated_workflows import LoggedRecord, simulated
from wandering_workflows import ENDINGS, wandering

from builders import Told
from poweron_events import topics
from poweron_events.log import Record
from poweron_events.log.memory import MemoryLog
from poweron_events.request import POLICY_ID
from poweron_projections import bi
from poweron_projections.connection import Pool, acquire, connect
from poweron_projections.rebuild import rebuild
from poweron_projections.verify import catch_up

pytestmark = pytest.mark.system

EVENTS, DEAD_LETTERS = topics.EVENTS.name, topics.DEAD_LETTERS.name
WORKFLOWS = 410
ROWS, PERIODS = (Path(__file__).with_name(f"bi_{name}_by_duckdb.sql") for name in ("rows", "periods"))

Rows = list[tuple[Any, ...]]


@pytest.fixture
async def pool(dsn: str) -> AsyncGenerator[Pool, None]:
    async with connect(dsn) as pool:
        yield pool


async def test_every_view_says_what_duckdb_counts_in_wandering_workflows(pool: Pool, tmp_path: Path) -> None:
    stories = [wandering(number) for number in range(WORKFLOWS)]
    records = [record for told, times in stories for record in _logged(told, times)]
    records += [LoggedRecord(b"x", b"{" * (number + 1), 0, None) for number in range(60)]
    counted = await _compare(pool, records, tmp_path)
    assert [name for name, rows in counted.items() if not rows] == []
    assert {code for _, _, level, code, _ in counted["stops_by_day"] if level == "round"} == ENDINGS


@pytest.fixture(
    params=[
        pytest.param(100, marks=pytest.mark.soak),
        pytest.param(WORKFLOWS, marks=[pytest.mark.soak, pytest.mark.timeout(600)]),
    ],
    ids=lambda workflows: f"{workflows} workflows",
)
def worlds(request: pytest.FixtureRequest) -> list[LoggedRecord]:
    """The logs of so many worlds that there are that many workflows; a world has a loop of its own.

    Worlds with policies are left out: DuckDB does not count whose approvals are enough.
    """
    records, workflows = list[LoggedRecord](), set[bytes]()
    for log in simulated(count()):
        if any(record.key == POLICY_ID.encode() for record in log):
            continue
        records += log
        workflows |= {record.key for record in log}
        if len(workflows) >= request.param:
            break
    return records


async def test_every_view_says_what_duckdb_counts_in_simulated_workflows(
    worlds: list[LoggedRecord], pool: Pool, tmp_path: Path
) -> None:
    counted = await _compare(pool, worlds, tmp_path)
    assert [name for name, rows in counted.items() if not rows] == []
    ends = {code for _, _, level, code, _ in counted["stops_by_day"] if level == "round"}
    assert ends >= {"answers_rejected", "cancelled", "deadline", "judged_by_model", "retry_limit", "token_budget"}


def _logged(told: Told, times: Sequence[int]) -> Iterable[LoggedRecord]:
    for value, verdict, time_ms in zip(told.values, told.verdicts, times, strict=True):
        yield LoggedRecord(told.id.encode(), value, time_ms, verdict)


async def _compare(pool: Pool, records: Sequence[LoggedRecord], folder: Path) -> dict[str, Rows]:
    """What DuckDB counts, view by view; our views say the same, also after a rebuild."""
    log = _log(records)
    await catch_up(log, pool)
    counted = _counted(_events(records, folder / "events.jsonl"), _letters(log, folder / "dead.jsonl"))
    for view in bi.views():
        assert await _said(pool, view) == counted[view.name], view.name
    assert (await rebuild(log, pool)).differences == []
    assert {view.name: await _said(pool, view) for view in bi.views()} == counted
    return counted


def _log(records: Iterable[LoggedRecord]) -> MemoryLog:
    """The log that holds these records, as the broker would have taken them at their times."""
    log = MemoryLog()
    for key, value, time_ms, _ in records:
        number = log.partition_of(EVENTS, key)
        partition = log._topics[EVENTS][number]
        partition.append(Record(EVENTS, number, len(partition), time_ms, key, value, {}))
    return log


def _counted(events: Path, letters: Path) -> dict[str, Rows]:
    """What DuckDB makes of the events: the counterpart of each view, which has its columns."""
    database = duckdb.connect()
    database.execute(ROWS.read_text(encoding="utf-8").replace("{events}", str(events)).replace("{dead}", str(letters)))
    for period, seconds in bi.PERIODS.items():
        script = PERIODS.read_text(encoding="utf-8")
        database.execute(script.replace("{period}", period).replace("{ms}", str(seconds * 1_000)))
    counted = dict[str, Rows]()
    for view in bi.views():
        found = database.execute(f"FROM {view.name}")
        assert [column[0] for column in found.description or ()] == [name for name, _ in view.columns], view.name
        counted[view.name] = _sorted(found.fetchall())
    return counted


def _events(records: Iterable[LoggedRecord], path: Path) -> Path:
    """All events as lines of JSON, each with its number, its verdict and the broker's time."""
    seqs = dict[bytes, int]()
    with path.open("wb") as file:
        for key, value, time_ms, verdict in records:
            if verdict is not None:
                seq = seqs[key] = seqs.get(key, -1) + 1
                line = {"workflow": key.decode(), "seq": seq, "time_ms": time_ms, "verdict": verdict}
                file.write(orjson.dumps(line | _envelope(value)) + b"\n")
    return path


def _envelope(value: bytes) -> dict[str, Any]:
    given = orjson.loads(value)
    cause = {
        "id": given.get("causationid"),
        "sha256": given.get("causationhash"),
        "offset": given.get("causationoffset"),
    }
    told = {"type": given["type"], "id": given["id"], "data": given["data"], "cause": cause}
    return told | {"sha256": hashlib.sha256(value).hexdigest()}


def _letters(log: MemoryLog, path: Path) -> Path:
    """Which records the dead letters tell of and when, as lines of JSON."""
    with path.open("wb") as file:
        for letter in (letter for partition in log._topics[DEAD_LETTERS] for letter in partition):
            told = orjson.loads(letter.value or b"")
            unreadable = log._topics[told["topic"]][told["partition"]][told["offset"]]
            line = {name: told[name] for name in ("topic", "partition")} | {"log_offset": told["offset"]}
            line |= {"size": len(unreadable.value or b""), "time_ms": letter.time_ms}
            file.write(orjson.dumps(line) + b"\n")
    return path


async def _said(pool: Pool, view: bi.BiView) -> Rows:
    async with acquire(pool) as connection:
        return _sorted(await connection.fetch(f"SELECT * FROM bi.{view.name}"))


def _sorted(rows: Iterable[Sequence[Any]]) -> Rows:
    return sorted((tuple(map(_plain, row)) for row in rows), key=str)


def _plain(cell: Any) -> Any:
    """Times as milliseconds, money as nano-dollars, ids as text."""
    match cell:
        case datetime():
            return round(cell.timestamp() * 1_000)
        case Decimal():
            return int(cell.scaleb(9))
        case float():
            return round(cell, 3)
        case None | bool() | int() | str():
            return cell
        case _:
            return str(cell)
