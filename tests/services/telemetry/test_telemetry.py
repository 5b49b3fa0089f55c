"""Log lines tell of the work, and never stop it."""

import asyncio
import gc
import json
import logging
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import structlog
from aiokafka.conn import create_conn
from aiokafka.errors import KafkaConnectionError

from poweron_events.log.kafka_settings import KafkaSettings
from poweron_services import telemetry
from poweron_services.telemetry import logs
from poweron_services.telemetry.logs import A_SECOND, MESSAGES, Thinned

FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has a file that is always full")
def test_a_log_line_that_finds_no_room_on_the_disk_is_lost_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = FULL.open("w", buffering=1)
    monkeypatch.setattr("sys.stderr", stderr)
    telemetry.configure("info")
    for _ in range(1_000):
        structlog.get_logger().error("the disk is full", error="x" * 1_000)
    logging.getLogger("asyncio").error("a library has something to say")
    with pytest.raises(OSError, match="No space left"):
        stderr.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(logs.time, "monotonic", lambda: now[0])
    return now


def told(thinned: Thinned, message: str, times: int, level: str = "warning") -> list[Any]:
    lines = []
    for _ in range(times):
        try:
            lines.append(thinned(None, level, {"event": message}))
        except structlog.DropEvent:
            continue
    return lines


@pytest.mark.req("E-09")
def test_a_message_is_told_a_few_times_a_second_and_then_how_often_it_was_left_out(clock: list[float]) -> None:
    thinned = Thinned()
    assert len(told(thinned, "stage_waits", 1_000)) == A_SECOND
    assert len(told(thinned, "append_retried", 3)) == 3
    clock[0] += 1
    first, second = told(thinned, "stage_waits", 2)
    assert first == {"event": "stage_waits", "left_out": 990}
    assert second == {"event": "stage_waits"}


def test_a_line_of_a_library_is_told_whatever_its_level_and_its_fields_are(capsys: pytest.CaptureFixture[str]) -> None:
    telemetry.configure("info")
    logging.getLogger("lib").log(25, "between", extra={"event": "x", "level": "y", "more": 1})
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["level"], line["more"]) == ("between", "info", 1)


def test_every_error_is_told(clock: list[float]) -> None:
    assert len(told(Thinned(), "work_retried", 1_000, "error")) == 1_000


def test_messages_that_are_all_different_are_not_remembered_for_ever(clock: list[float]) -> None:
    thinned = Thinned()
    for number in range(3 * MESSAGES):
        clock[0] += 1
        told(thinned, f"message {number}", 1)
    assert len(thinned._told) <= MESSAGES


def test_a_stage_that_waits_is_told_once_per_trouble_and_for_a_model_at_each_try(tmp_path: Path) -> None:
    told = list[tuple[str, str, str, float | None]]()
    telemetry.configure(
        "warning", telemetry.LogFile(tmp_path / "log"), telemetry.StageWaitReporter(lambda *line: told.append(line))
    )
    log = structlog.get_logger()
    for code, trouble in [("b", "busy"), ("a", "away for 1.5 s"), ("a", "away for 20.4 s"), *[("b", "busy")] * 20]:
        log.warning(telemetry.STAGE_WAITS, workflow_id="w", stage="plan", code=code, error=trouble)
    log.warning("append_retried", workflow_id="w", error="away")
    for seconds in (0.5, 1.0, None):
        log.warning(telemetry.MODEL_WAITS, workflow_id="w", stage="plan", code="c", error="500", seconds=seconds)
    log.warning(telemetry.STAGE_WAITS, workflow_id="w", stage="select", code="b", error="busy")
    assert told == [
        ("w", "plan", "busy", None),
        ("w", "plan", "away for 1.5 s", None),
        ("w", "plan", "500", 0.5),
        ("w", "plan", "500", 1.0),
        ("w", "select", "busy", None),
    ]


def test_an_outage_is_reported_once_a_minute(clock: list[float]) -> None:
    thinned = Thinned()
    assert len(told(thinned, "disk_full", 1_000, "error")) == 1
    assert len(told(thinned, "server_outage", 1_000, "error")) == 1
    clock[0] += 61
    assert len(told(thinned, "disk_full", 1_000, "error")) == 1


async def forget_a_task_that_raises(error: Exception) -> None:
    async def work() -> None:
        raise error

    asyncio.get_running_loop().create_task(work())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    gc.collect()


@pytest.mark.parametrize(
    ("error", "event", "level"),
    [
        (asyncpg.ConnectionDoesNotExistError("connection was closed"), "connection_lost", "info"),
        (KafkaConnectionError("no broker"), "connection_lost", "info"),
        (ConnectionResetError("reset by peer"), "connection_lost", "info"),
        (ZeroDivisionError("a mistake"), "background_task_error", "error"),
    ],
)
async def test_a_task_that_nobody_waits_for_is_logged_with_a_code(
    error: Exception, event: str, level: str, capsys: pytest.CaptureFixture[str]
) -> None:
    telemetry.configure("info")
    await forget_a_task_that_raises(error)
    (line,) = map(json.loads, capsys.readouterr().err.splitlines())
    assert (line["event"], line["level"]) == (event, level)
    assert str(error) in (line["error"] if level == "info" else line["exception"])


async def test_a_connection_that_a_cancelled_client_leaves_open_is_no_error(
    kafka: KafkaSettings, capsys: pytest.CaptureFixture[str]
) -> None:
    telemetry.configure("info")
    host, _, port = kafka.bootstrap.rpartition(":")
    connection = await create_conn(host, int(port))
    with pytest.warns(ResourceWarning):
        del connection
    (line,) = map(json.loads, capsys.readouterr().err.splitlines())
    assert (line["event"], line["level"]) == ("connection_lost", "info")


def test_an_error_line_of_a_library_is_a_warning_and_one_of_our_own_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    telemetry.configure("info")
    logging.getLogger("library.client").error("Unable to connect to %s", "node 1", extra={"node": 1})
    logging.getLogger("poweron_events.retry").error("disk_full", extra={"error": "no room"})
    library, ours = map(json.loads, capsys.readouterr().err.splitlines())
    assert (library["event"], library["level"], library["node"]) == ("Unable to connect to node 1", "warning", 1)
    assert (ours["event"], ours["level"], ours["error"]) == ("disk_full", "error", "no room")
