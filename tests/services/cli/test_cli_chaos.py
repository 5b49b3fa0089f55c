"""`poweron chaos` without servers: what signals do to a run, and how its tables are printed."""

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from poweron_services.cli.main import app
from poweron_services.experiments.chaos import experiment
from poweron_services.experiments.chaos.evidence import Evidence, LogSummary
from poweron_services.experiments.chaos.experiment import ExperimentCallbacks, ExperimentResult
from poweron_services.experiments.chaos.status import ExperimentStatus, FaultStatistics

FAULTS = [
    FaultStatistics("kafka_killed", injected=2, recovered=2, first=1_000, median=2_000, longest=3_000),
    FaultStatistics("rows_lost", injected=1, recovered=0, first=None, median=None, longest=None),
]


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("POWERON_HOME", str(tmp_path / "home"))


def status() -> ExperimentStatus:
    zeros = dict.fromkeys(("running", "completed", "cancelled", "failed", "events", "superseded"), 0)
    return ExperimentStatus(phase="injecting", elapsed=1, seconds=60, faults=FAULTS, requested=0, rate=0, **zeros)


def result() -> ExperimentResult:
    evidence = Evidence(requests=[], log=LogSummary(), effects=Counter())
    return ExperimentResult(
        status(), [], evidence, violations=[], interrupted=True, request_records=0, starts=4, home=None
    )


async def _signalled(*signals: signal.Signals) -> None:
    """Send them to ourselves; the last one tells that all have been heard."""
    heard = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, heard.set)
    for each in (*signals, signal.SIGUSR1):
        os.kill(os.getpid(), each)
    await heard.wait()


@pytest.mark.parametrize("signals", [(signal.SIGINT,), (signal.SIGINT, signal.SIGINT), (signal.SIGINT, signal.SIGTERM)])
def test_a_further_signal_does_not_cost_the_report(
    signals: tuple[signal.Signals, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(*, stopping: asyncio.Event, callbacks: ExperimentCallbacks, **_: object) -> ExperimentResult:
        callbacks.status(status())
        await _signalled(*signals)
        assert stopping.is_set()
        await asyncio.sleep(0)
        return result()

    monkeypatch.setattr(experiment, "run", run)
    ended = CliRunner().invoke(app, ["chaos"])
    assert ended.exit_code == 130
    assert "Clean so far: no violation after 3 faults." in ended.stdout


def test_a_signal_before_anything_was_struck_ends_at_once_and_lets_what_was_started_be_put_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put_away: list[str] = []

    async def run(**_: object) -> ExperimentResult:
        try:
            await _signalled(signal.SIGINT)
        finally:
            await _signalled(signal.SIGINT, signal.SIGTERM)
            put_away.append("servers")
        raise AssertionError

    monkeypatch.setattr(experiment, "run", run)
    ended = CliRunner().invoke(app, ["chaos"])
    assert (ended.exit_code, ended.stdout, put_away) == (130, "", ["servers"])
    assert ended.stderr.endswith("\nStopped before the first fault.\n")


def test_no_row_of_a_table_ends_in_blanks_where_nobody_looks_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(**_: object) -> ExperimentResult:
        return result()

    monkeypatch.setattr(experiment, "run", run)
    lines = CliRunner().invoke(app, ["chaos"]).stdout.splitlines()
    assert lines[0].endswith("median  longest")
    assert "faults                  3" in lines
    assert [line for line in lines if line != line.rstrip()] == []
