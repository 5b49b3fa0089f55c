"""A run of `poweron bench`, from the first to the last part, with very little of everything."""

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import orjson
import pytest
from processes import command_lines
from servers import furnished

from poweron_services.embedded.folders import Folders
from poweron_services.experiments.bench.benchmark import PARTS, BenchmarkPlan, measure
from poweron_services.experiments.bench.figures import BenchFigures

LITTLE = BenchmarkPlan(
    processes=2,
    times=1, workflows=4, steps=2, at_once=2, alone=1, alone_steps=3, laps_alone=5,
    asks=1, pages=3, events=80, page_rows=200, page_workflows=2,
    scaled_processes=(1, 2), scaled_at_once=1, scaled_steps=1, open_workflows=5,
    followers=10, followers_that_do_not_read=1, followed_seconds=2, listed_workflows=100, long_workflow_events=200,
    ledger_rows=2_000, bundle_events=1_000,
)  # fmt: skip
PEER = {"peer": "slow", "iter_p50_ms": 8.1, "iter_per_s": 305, "cpu_s_per_1000_iter": 5.4}


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def password_of(home: Path) -> str:
    path = Folders.of(home).kafka_password
    return path.read_text() if path.exists() else "none was made yet"


FEW = ("latency", "throughput")


@pytest.mark.system
@pytest.mark.timeout(600)
@pytest.mark.parametrize("parts", [FEW, pytest.param(PARTS, marks=pytest.mark.soak)], ids=["few parts", "all parts"])
async def test_a_run_measures_its_parts_and_leaves_nothing_behind(
    tmp_path: Path, software: Path, parts: Sequence[str]
) -> None:
    said: list[str] = []
    told: list[str] = []

    def progress(sentence: str) -> None:
        said.append(sentence)
        told.extend(line for line in command_lines() if password_of(tmp_path / "bench" / "measured") in line)

    made: list[tuple[int, int]] = []

    def iterated(done: int, total: int) -> None:
        made.append((done, total))

    home = furnished(tmp_path, software)
    figures = await measure(home, progress, parts=parts, plan=LITTLE, on_iterations=iterated)

    assert made[0][1] == LITTLE.iterations(parts)
    assert all(before[0] < after[0] <= after[1] for before, after in pairwise(made))

    measured = {name for name in BenchFigures.model_fields if getattr(figures, name) is not None}
    if parts == PARTS:
        not_asked = {"rate_share_of_4_processes", "rate_share_of_8_processes"}
        assert {name for name in BenchFigures.model_fields if not name.startswith("peer_")} - measured == not_asked
        assert figures.bytes_ratio_step_40_to_4 == pytest.approx(1, abs=0.2)
    else:
        assert {"iteration_p50_ms", "iterations_per_second"} <= measured
        assert not measured & {"ask_cold_ms", "rebuild_events_per_second", "rate_share_of_2_processes"}
    assert said[-1] == "Removing what the measurement wrote…"
    assert names(tmp_path) <= {"servers", "bench.lock"}
    assert told == []  # children hear the password of Kafka elsewhere


@pytest.mark.system
@pytest.mark.timeout(600)
@pytest.mark.soak
async def test_a_run_beside_a_peer_takes_turns_and_tells_both(tmp_path: Path, software: Path) -> None:
    said: list[str] = []
    made: list[tuple[int, int]] = []
    program = tmp_path / "peer.py"
    program.write_text(f"print({orjson.dumps(PEER).decode()!r})\n")

    figures = await measure(
        furnished(tmp_path, software),
        said.append,
        peer=(sys.executable, str(program)),
        plan=replace(LITTLE, beside_a_peer=2),
        on_iterations=lambda done, total: made.append((done, total)),
    )

    assert made[-1] == (26, 26)  # 4 to warm up, then twice 3 with one workflow at a time and 8 with two
    assert (figures.peer_iterations_per_second, figures.peer_iteration_p50_ms) == (305, 8.1)
    turns = [line for line in said if "slow" in line]
    assert len(turns) == 2
    ours = r"  Ours: [\d,]+ iterations/s, one in \d+\.\d ms\."
    assert all(re.fullmatch(rf"{ours} slow: 305 iterations/s, one in 8\.1 ms\.", line) for line in turns)
