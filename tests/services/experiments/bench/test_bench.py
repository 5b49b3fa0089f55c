"""What `poweron bench` makes of what it has measured."""

import asyncio
import fcntl
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest
from typer.testing import CliRunner

from builders import At, Told, planned, requested
from poweron_events.catalog import CATALOG
from poweron_events.errors import Refused
from poweron_services.cli import bench_command
from poweron_services.cli.bench_command import Measured
from poweron_services.cli.main import app
from poweron_services.experiments.bench import instant
from poweron_services.experiments.bench.benchmark import run_directories
from poweron_services.experiments.bench.figures import (
    FIGURE_LINES,
    BenchFigures,
    lines,
    measured_peer,
    peer_command,
    peer_lines,
    percentile,
    value,
    why_void,
)
from poweron_services.experiments.bench.processes import CpuMeter
from poweron_services.models.answers import (
    Answer,
    ParametersAnswer,
    PlanningAnswer,
    RefinementAnswer,
    ReviewAnswer,
    SelectionAnswer,
    parse,
)
from poweron_services.models.prompts import (
    ParametersPrompt,
    PlanningPrompt,
    Prompt,
    RefinementPrompt,
    ReviewPrompt,
    SelectionPrompt,
)
from poweron_services.roles.observation_builder import observe_build

GOOD = BenchFigures(
    iterations_per_second=1_200.0,
    ring_iterations_per_second=3_000.0,
    ring_projected_iterations_per_second=1_600.0,
    iteration_p50_ms=6.0,
    iteration_p99_ms=9.0,
    ring_p50_ms=5.0,
    cpu_seconds_per_1000_iterations=4.0,
    bytes_per_iteration=16_000.0,
    bytes_ratio_step_40_to_4=1.0,
    prompt_share_kept=0.62,
    rebuild_events_per_second=25_000.0,
    copy_events_per_second=80_000.0,
    fold_events_per_second=50_000.0,
    history_page_p50_ms=1.5,
    rate_share_of_2_processes=0.98,
    rate_share_of_4_processes=0.95,
    rate_share_of_8_processes=0.9,
    open_workflows_mb=300.0,
    door_followers=1_000.0,
    door_event_p50_ms=200.0,
    door_event_p95_ms=1_000.0,
    door_cpu_ms_per_follower_second=0.5,
    door_kb_per_follower=60.0,
    door_list_p95_ms=12.0,
    list_query_p95_ms=2.0,
    door_long_page_p50_ms=13.0,
    door_short_page_p50_ms=10.0,
    door_iterations_per_second=190.0,
    doorless_iterations_per_second=200.0,
    ledger_cpu_ratio=0.6,
    ledger_iterations_ratio=0.85,
    ledger_lag_p99_ms=1_000.0,
    ledger_bytes_per_iteration=3_000.0,
    ledger_rebuild_entries_per_second=40_000.0,
    bundle_events_per_second=5_000.0,
    export_ms=2_000.0,
    audit_verify_ms=10_000.0,
    ask_cold_ms=5_000.0,
    ask_warm_ms=900.0,
    prose_pages_per_second=60.0,
    columns_pages_per_second=60.0,
    tables_pages_per_second=30.0,
    mixed_pages_per_second=45.0,
)


def changed(**figures: float | None) -> BenchFigures:
    return GOOD.model_copy(update=figures)


def unmet(figures: BenchFigures) -> list[str]:
    return [line.figure for line in FIGURE_LINES if line.met(figures) is False]


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert [percentile(values, percent) for percent in (50, 99, 100)] == [50.0, 99.0, 100.0]
    assert percentile([7.0], 99) == 7.0


def test_a_figure_at_its_bound_is_good_enough() -> None:
    assert unmet(GOOD) == []


@pytest.mark.parametrize(
    ("figure", "too_much"),
    [
        ("iteration_p50_ms", 6.1),
        ("cpu_seconds_per_1000_iterations", 4.01),
        ("bytes_per_iteration", 16_001.0),
        ("bytes_ratio_step_40_to_4", 1.21),
        ("rebuild_events_per_second", 24_999.0),
        ("fold_events_per_second", 39_999.0),
        ("history_page_p50_ms", 5.1),
        ("tables_pages_per_second", 29.9),
        ("door_event_p95_ms", 1_001.0),
        ("door_kb_per_follower", 60.1),
        ("door_list_p95_ms", 12.1),
        ("door_long_page_p50_ms", 13.1),
        ("door_iterations_per_second", 189.0),
        ("ledger_cpu_ratio", 0.61),
        ("ledger_iterations_ratio", 0.84),
        ("audit_verify_ms", 10_001.0),
    ],
)
def test_a_figure_beyond_its_bound_is_named(figure: str, too_much: float) -> None:
    assert unmet(changed(**{figure: too_much})) == [figure]


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    assert {line.met(BenchFigures()) for line in FIGURE_LINES} == {None}


@pytest.mark.parametrize(
    ("figures", "void"),
    [
        (GOOD, None),
        (changed(ring_p50_ms=9.0, ring_iterations_per_second=1_000.0), None),
        (changed(ring_p50_ms=9.1), "The bare ring needed 9.1 ms for a lap, where 9 ms is the limit."),
        (changed(ring_iterations_per_second=999.0), "The bare ring made 999 laps/s, where 1,000 is the least."),
        (BenchFigures(), None),
    ],
)
def test_a_run_on_a_busy_machine_is_void(figures: BenchFigures, void: str | None) -> None:
    assert why_void(figures) == void


def test_where_the_broker_waits_for_the_disk_only_the_yardstick_judges_rates() -> None:
    slow = changed(ring_p50_ms=30.0, iteration_p50_ms=33.0, iterations_per_second=700.0)
    slow = slow.model_copy(update={"ring_projected_iterations_per_second": 900.0})
    assert why_void(slow, fsync=True) is None
    assert [line.figure for line in lines(fsync=True) if line.met(slow) is False] == []


def test_the_json_has_a_name_for_every_figure() -> None:
    assert list(BenchFigures().model_dump(by_alias=True)) == [
        "iterationsPerSecond",
        "ringIterationsPerSecond",
        "ringProjectedIterationsPerSecond",
        "iterationP50Ms",
        "iterationP99Ms",
        "ringP50Ms",
        "cpuSecondsPer1000Iterations",
        "bytesPerIteration",
        "bytesRatioStep40To4",
        "promptShareKept",
        "rebuildEventsPerSecond",
        "copyEventsPerSecond",
        "foldEventsPerSecond",
        "historyPageP50Ms",
        "rateShareOf2Processes",
        "rateShareOf4Processes",
        "rateShareOf8Processes",
        "openWorkflowsMb",
        "doorFollowers",
        "doorEventP50Ms",
        "doorEventP95Ms",
        "doorCpuMsPerFollowerSecond",
        "doorKbPerFollower",
        "doorListP95Ms",
        "listQueryP95Ms",
        "doorLongPageP50Ms",
        "doorShortPageP50Ms",
        "doorIterationsPerSecond",
        "doorlessIterationsPerSecond",
        "askColdMs",
        "askWarmMs",
        "prosePagesPerSecond",
        "columnsPagesPerSecond",
        "tablesPagesPerSecond",
        "mixedPagesPerSecond",
        "ledgerCpuRatio",
        "ledgerIterationsRatio",
        "ledgerLagP99Ms",
        "ledgerBytesPerIteration",
        "ledgerRebuildEntriesPerSecond",
        "bundleEventsPerSecond",
        "exportMs",
        "auditVerifyMs",
        "peerIterationsPerSecond",
        "peerIterationP50Ms",
        "peerCpuSecondsPer1000Iterations",
    ]


def test_every_line_shows_figures_that_there_are() -> None:
    named = {name for line in FIGURE_LINES for name in (line.figure, line.yardstick) if name}
    assert {name for name in named if value(GOOD, name) is None} == set()
    beside_a_peer = {line.yardstick for line in peer_lines(fsync=False)}
    assert set(BenchFigures.model_fields) - named - beside_a_peer == {
        "ring_iterations_per_second"
    }  # the legend tells it


def test_each_part_can_be_chosen() -> None:
    assert tuple(Measured) == bench_command.PARTS


# --- the model and the action ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "answer", "size"),
    [
        (PlanningPrompt, PlanningAnswer, None),
        (SelectionPrompt, SelectionAnswer, 600),
        (ParametersPrompt, ParametersAnswer, 200),
        (RefinementPrompt, RefinementAnswer, 150),
        (ReviewPrompt, ReviewAnswer, 150),
    ],
)
async def test_answers_fit_their_stage_and_have_the_size_of_real_ones(
    prompt: type[Prompt], answer: type[Answer], size: int | None
) -> None:
    model = instant.InstantModel()
    said = [(await model.complete(prompt.__new__(prompt))).text for _ in range(2)]
    assert [len(text) for text in said] == [size or len(text) for text in said]
    assert [type(parse(text, answer)) for text in said] == [answer, answer]
    assert said[0] != said[1] or size is None


async def test_the_action_says_two_kilobytes_of_which_an_observation_keeps_800_characters() -> None:
    order: Any = None
    done = await instant.InstantAction()(order)
    at = At()
    started = Told().tell(requested(), planned(), at.selected(), at.parameters(), at.started())
    completed = at.done(documents=(), notes=done.notes)
    observed = observe_build(started.workflow, completed, [], CATALOG)
    assert sum(map(len, completed.notes)) == 2_000
    assert sum(map(len, observed.observation.notes)) == 800


# --- the place --------------------------------------------------------------------------------------


async def test_what_a_killed_run_has_left_is_removed_and_so_is_what_this_one_writes(tmp_path: Path) -> None:
    left = tmp_path / "bench" / "measured" / "left"
    left.mkdir(parents=True)
    async with run_directories(tmp_path, lambda _: None) as (asked, measured):
        assert not left.exists()
        assert {asked.parent, measured.parent} == {tmp_path / "bench"}
    assert not (tmp_path / "bench").exists()


async def test_two_runs_at_a_time_would_measure_each_other(tmp_path: Path) -> None:
    with (tmp_path / "bench.lock").open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(Refused, match=r"Another `poweron bench` is running"):
            async with run_directories(tmp_path, lambda _: None):
                pass


# --- the meter --------------------------------------------------------------------------------------


def test_cpu_time_of_a_process_is_also_that_of_what_it_has_started() -> None:
    burning = "import time\nwhile time.process_time() < 0.3: pass"
    starting = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {burning!r}])\nprint()\ninput()"
    with subprocess.Popen([sys.executable, "-c", starting], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # what it has started has ended
        used = CpuMeter({"starting": psutil.Process(process.pid)}).read()["starting"]
        process.kill()
    assert used > 0.25  # the kernel counts in hundredths


# --- the command ------------------------------------------------------------------------------------


def told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, figures: BenchFigures, *options: str) -> tuple[int, str]:
    """Exit code and output of the command, had these figures been measured."""

    async def measured(*_: object, **__: object) -> BenchFigures:
        await asyncio.sleep(0)
        return figures

    monkeypatch.setattr(bench_command, "measure", measured)
    monkeypatch.setattr(bench_command, "interpreter_advice", lambda: "")
    done = CliRunner(env={"POWERON_HOME": str(tmp_path)}).invoke(app, ["bench", *options])
    return done.exit_code, done.output


def test_the_table_shows_ours_beside_the_yardstick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code, output = told(monkeypatch, tmp_path, changed(fold_events_per_second=10_000.0))
    rows = {cells[0]: cells[1:] for cells in (re.split(r" {2,}", line.strip()) for line in output.splitlines())}
    assert code == 0
    assert rows["iterations, 64 at once"] == ["1,200/s", "1,600/s", "0.75"]
    assert rows["one iteration, p50"] == ["6.00 ms", "5.00 ms", "1.20", "ratio ≤ 1.2", "yes"]
    assert rows["fold, events"] == ["10,000/s", "≥ 40,000/s", "no"]


def test_the_table_fits_an_ordinary_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _, output = told(monkeypatch, tmp_path, GOOD)
    table = output.partition("\n\n")[0].splitlines()
    assert len(table) == 1 + len(FIGURE_LINES)
    assert max(len(line.rstrip()) for line in table) <= 80


def test_a_void_run_says_so_and_ends_with_1(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code, output = told(monkeypatch, tmp_path, changed(ring_p50_ms=12.0))
    assert code == 1
    assert "This run is void: the machine was busy." in output


def test_json_is_one_object_that_also_says_why_the_run_is_void(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code, output = told(monkeypatch, tmp_path, changed(ring_p50_ms=12.0), "--json")
    found = orjson.loads(output.splitlines()[0])
    assert code == 1
    assert (found["ringP50Ms"], found["void"]) == (
        12.0,
        "The bare ring needed 12.0 ms for a lap, where 9 ms is the limit.",
    )


# --- beside a peer ----------------------------------------------------------------------------------

PEER = {"peer": "slow", "iter_p50_ms": 8.0, "iter_per_s": 300, "cpu_s_per_1000_iter": 5.0}


def peer_program(tmp_path: Path, *lines: str, ending: int = 0) -> tuple[str, ...]:
    program = tmp_path / "peer.py"
    program.write_text(f"import sys\nprint({chr(10).join(lines)!r})\nsys.exit({ending})\n")
    return peer_command(f"{sys.executable} {program}")


@pytest.mark.parametrize("prefix", ["", "RESULT "])
async def test_a_peer_tells_its_figures_in_a_line_of_json(tmp_path: Path, prefix: str) -> None:
    figures = await measured_peer(peer_program(tmp_path, "warming up", prefix + orjson.dumps(PEER).decode(), "bye"))
    assert (figures.iterations_per_second, figures.iteration_p50_ms) == (300, 8.0)


@pytest.mark.parametrize(
    ("line", "ending", "said"),
    [
        ("nothing", 0, "told 0 lines of figures"),
        (orjson.dumps(PEER).decode(), 3, "ended with 3"),
        (orjson.dumps(PEER | {"iter_per_s": 0}).decode(), 0, "told 0 lines of figures"),
    ],
)
async def test_a_peer_that_tells_no_figures_is_told_with_its_last_words(
    tmp_path: Path, line: str, ending: int, said: str
) -> None:
    with pytest.raises(Refused, match=said) as told:
        await measured_peer(peer_program(tmp_path, line, ending=ending))
    assert f"Its last words: {line}" in str(told.value)


def test_the_table_beside_a_peer_judges_by_the_peer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    beside = changed(peer_iterations_per_second=800.0, peer_iteration_p50_ms=12.0)
    _, output = told(monkeypatch, tmp_path, beside, "--peer", sys.executable)
    rows = {cells[0]: cells[1:] for cells in (re.split(r" {2,}", line.strip()) for line in output.splitlines())}
    assert "yardstick" not in output
    assert rows["iterations, 64 at once"] == ["1,200/s", "800/s", "1.50", "ratio ≥ 1", "yes"]
    assert rows["one iteration, p50"] == ["6.00 ms", "12.0 ms", "0.50", "ratio ≤ 0.65", "yes"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/no/such", "--peer: '/no/such' begins with no program of this machine; write it like `python peer.py`.\n"),
        ("'peer", '--peer: "\'peer" has a quote that is not closed; write it like `python peer.py`.\n'),
        ("", "--peer: '' begins with no program of this machine; write it like `python peer.py`.\n"),
    ],
)
def test_a_peer_that_cannot_be_run_is_told_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str, said: str
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert told(monkeypatch, tmp_path, GOOD, "--peer", line) == (2, said)
