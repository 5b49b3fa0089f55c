"""The figures of a run, the bounds that they should meet, and the figures of a peer.

A peer is any command that runs the same workload and prints its figures. The workload is 200 workflows of 5 iterations
of 5 durable steps, 64 at once; then one workflow at a time.
"""

import asyncio
import math
import shlex
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from pydantic import BaseModel, Field, ValidationError

from poweron_events.errors import Refused
from poweron_events.event import Model
from poweron_services.settings.setting_types import command_of

RING_P50_MS = 9.0  # above this, the machine was busy
RING_ITERATIONS = 1_000.0  # per second; below this, the machine was busy


class BenchFigures(Model):
    """The measurements of a run; None for those that were not requested. Rates are per second."""

    iterations_per_second: float | None = None
    """Measured until the rows of all iterations are in Postgres."""
    ring_iterations_per_second: float | None = None
    ring_projected_iterations_per_second: float | None = None
    """Measured until each record of the ring is in Postgres."""
    iteration_p50_ms: float | None = None
    iteration_p99_ms: float | None = None
    ring_p50_ms: float | None = None
    cpu_seconds_per_1000_iterations: float | None = None
    bytes_per_iteration: float | None = None
    bytes_ratio_step_40_to_4: float | None = None
    prompt_share_kept: float | None = None
    """The share of prompt characters, from 0 to 1, in the prefix that a prompt has in common with the previous one."""
    rebuild_events_per_second: float | None = None
    copy_events_per_second: float | None = None
    fold_events_per_second: float | None = None
    history_page_p50_ms: float | None = None
    rate_share_of_2_processes: float | None = None
    """The rate of two processes, divided by twice the rate of one; so are the next two fields for four and eight."""
    rate_share_of_4_processes: float | None = None
    rate_share_of_8_processes: float | None = None
    open_workflows_mb: float | None = None
    """The memory of a process of all roles that holds 5,000 open workflows."""
    door_followers: float | None = None
    """The clients that followed one workflow at ten records a second; the next four fields are about them."""
    door_event_p50_ms: float | None = None
    """From the moment before a record is appended until a client has it."""
    door_event_p95_ms: float | None = None
    door_cpu_ms_per_follower_second: float | None = None
    door_kb_per_follower: float | None = None
    door_list_p95_ms: float | None = None
    list_query_p95_ms: float | None = None
    """The same list without HTTP."""
    door_long_page_p50_ms: float | None = None
    """The page of a workflow with 10,000 events."""
    door_short_page_p50_ms: float | None = None
    door_iterations_per_second: float | None = None
    """The rate of the roles beside a door without clients."""
    doorless_iterations_per_second: float | None = None
    ask_cold_ms: float | None = None
    ask_warm_ms: float | None = None
    prose_pages_per_second: float | None = None
    """PDF pages per CPU second; the next three fields use the same unit."""
    columns_pages_per_second: float | None = None
    tables_pages_per_second: float | None = None
    mixed_pages_per_second: float | None = None
    ledger_cpu_ratio: float | None = None
    """The CPU time that a projector's process needs more with a ledger and its rows, divided by that without one."""
    ledger_iterations_ratio: float | None = None
    """The rate of the roles beside a ledger, divided by their rate without one."""
    ledger_lag_p99_ms: float | None = None
    """From when the broker got a record until it got its entry."""
    ledger_bytes_per_iteration: float | None = None
    ledger_rebuild_entries_per_second: float | None = None
    bundle_events_per_second: float | None = None
    """Events that an auditor's script verifies, its start included."""
    export_ms: float | None = None
    """The bundle of a workflow with 1,000 events among a million."""
    audit_verify_ms: float | None = None
    """The verification of everything, with 100,000 events."""
    peer_iterations_per_second: float | None = None
    """The peer's figure, measured in turn with ours; so are the next two fields."""
    peer_iteration_p50_ms: float | None = None
    peer_cpu_seconds_per_1000_iterations: float | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    """An upper or lower bound for a figure."""

    kind: Literal["at most", "at least"]
    value: float

    def met(self, value: float) -> bool:
        return value <= self.value if self.kind == "at most" else value >= self.value


@dataclass(frozen=True, slots=True)
class FigureLine:
    """A figure and its yardstick; `share` bounds the figure divided by the yardstick, `bound` the figure itself."""

    name: str
    figure: str
    unit: str
    yardstick: str | None = None
    bound: Bound | None = None
    share: Bound | None = None

    def met(self, figures: BenchFigures) -> bool | None:
        """Return whether all bounds are met, or None if there are no bounds or the figure was not measured."""
        ours = value(figures, self.figure)
        if ours is None:
            return None
        ratio = self.ratio(figures)
        judged = [bound.met(found) for bound, found in ((self.bound, ours), (self.share, ratio)) if bound and found]
        return all(judged) if judged else None

    def ratio(self, figures: BenchFigures) -> float | None:
        ours = value(figures, self.figure)
        theirs = value(figures, self.yardstick) if self.yardstick else None
        return ours / theirs if ours is not None and theirs else None


LEAST_PAGES = Bound("at least", 30)
LEAST_SHARE = Bound("at least", 0.85)

FIGURE_LINES: tuple[FigureLine, ...] = (
    FigureLine(
        "one iteration, p50",
        "iteration_p50_ms",
        "ms",
        yardstick="ring_p50_ms",
        share=Bound("at most", 1.2),
    ),
    FigureLine("one iteration, p99", "iteration_p99_ms", "ms"),
    FigureLine(
        "iterations, 64 at once",
        "iterations_per_second",
        "/s",
        yardstick="ring_projected_iterations_per_second",
    ),
    FigureLine(
        "CPU, 1,000 iterations",
        "cpu_seconds_per_1000_iterations",
        "s",
        bound=Bound("at most", 4.0),
    ),
    FigureLine("disk, one iteration", "bytes_per_iteration", "B", bound=Bound("at most", 16_000)),
    FigureLine("bytes, step 40 / step 4", "bytes_ratio_step_40_to_4", "", bound=Bound("at most", 1.2)),
    FigureLine("prompts kept, ten steps", "prompt_share_kept", ""),
    FigureLine("page of history, p50", "history_page_p50_ms", "ms", bound=Bound("at most", 5)),
    FigureLine(
        "rebuild, events",
        "rebuild_events_per_second",
        "/s",
        yardstick="copy_events_per_second",
        bound=Bound("at least", 25_000),
    ),
    FigureLine("fold, events", "fold_events_per_second", "/s", bound=Bound("at least", 40_000)),
    FigureLine("2 processes / 2 times one", "rate_share_of_2_processes", "", bound=LEAST_SHARE),
    FigureLine("4 processes / 4 times one", "rate_share_of_4_processes", "", bound=LEAST_SHARE),
    FigureLine("8 processes / 8 times one", "rate_share_of_8_processes", "", bound=LEAST_SHARE),
    FigureLine("5,000 open workflows", "open_workflows_mb", "MB", bound=Bound("at most", 400)),
    FigureLine("followers of a workflow", "door_followers", ""),
    FigureLine("event to a follower, p50", "door_event_p50_ms", "ms"),
    FigureLine("event to a follower, p95", "door_event_p95_ms", "ms", bound=Bound("at most", 1_000)),
    FigureLine("CPU, a follower's second", "door_cpu_ms_per_follower_second", "ms", bound=Bound("at most", 0.5)),
    FigureLine("memory, a follower", "door_kb_per_follower", "kB", bound=Bound("at most", 60)),
    FigureLine(
        "list of workflows, p95", "door_list_p95_ms", "ms", yardstick="list_query_p95_ms", share=Bound("at most", 6)
    ),
    FigureLine(
        "page, 10,000 / 100 events",
        "door_long_page_p50_ms",
        "ms",
        yardstick="door_short_page_p50_ms",
        share=Bound("at most", 1.3),
    ),
    FigureLine(
        "iterations beside a door",
        "door_iterations_per_second",
        "/s",
        yardstick="doorless_iterations_per_second",
        share=Bound("at least", 0.95),
    ),
    FigureLine("ledger, CPU / projector", "ledger_cpu_ratio", "", bound=Bound("at most", 0.6)),
    FigureLine("iterations beside a ledger", "ledger_iterations_ratio", "", bound=Bound("at least", 0.85)),
    FigureLine("record to entry, p99", "ledger_lag_p99_ms", "ms", bound=Bound("at most", 1_000)),
    FigureLine("ledger, one iteration", "ledger_bytes_per_iteration", "B", bound=Bound("at most", 3_000)),
    FigureLine("rows of the ledger", "ledger_rebuild_entries_per_second", "/s", bound=Bound("at least", 40_000)),
    FigureLine("bundle verified, events", "bundle_events_per_second", "/s", bound=Bound("at least", 5_000)),
    FigureLine("bundle of 1,000 events", "export_ms", "ms", bound=Bound("at most", 2_000)),
    FigureLine("100,000 events verified", "audit_verify_ms", "ms", bound=Bound("at most", 10_000)),
    FigureLine("first step, cold", "ask_cold_ms", "ms"),
    FigureLine("first step, warm", "ask_warm_ms", "ms"),
    FigureLine("PDF of prose, pages", "prose_pages_per_second", "/s", bound=LEAST_PAGES),
    FigureLine("PDF of columns, pages", "columns_pages_per_second", "/s", bound=LEAST_PAGES),
    FigureLine("PDF of tables, pages", "tables_pages_per_second", "/s", bound=LEAST_PAGES),
    FigureLine("PDF of all these, pages", "mixed_pages_per_second", "/s", bound=LEAST_PAGES),
)


PEER_LINES: tuple[FigureLine, ...] = (
    FigureLine(
        "one iteration, p50", "iteration_p50_ms", "ms", yardstick="peer_iteration_p50_ms", share=Bound("at most", 0.65)
    ),
    FigureLine(
        "iterations, 64 at once",
        "iterations_per_second",
        "/s",
        yardstick="peer_iterations_per_second",
        share=Bound("at least", 1.0),
    ),
    FigureLine(
        "CPU, 1,000 iterations",
        "cpu_seconds_per_1000_iterations",
        "s",
        yardstick="peer_cpu_seconds_per_1000_iterations",
    ),
)
"""The lines to show if a peer was measured in turn with PowerOn."""
LEAST_WITH_FSYNC = Bound("at least", 0.9)  # times the peer's rate, if the broker waits for the disk


def peer_lines(*, fsync: bool) -> tuple[FigureLine, ...]:
    """Return the lines to show for a comparison with a peer."""
    one, rate, cpu = PEER_LINES
    return (one, replace(rate, share=LEAST_WITH_FSYNC) if fsync else rate, cpu)


def lines(*, fsync: bool) -> tuple[FigureLine, ...]:
    """Return the lines to show; if the broker waits for the disk, rates are judged only against their yardsticks."""
    return tuple(replace(line, bound=None) if fsync and line.yardstick else line for line in FIGURE_LINES)


def value(figures: BenchFigures, name: str) -> float | None:
    """Return a figure by its name."""
    found: float | None = getattr(figures, name)
    return found


def why_void(figures: BenchFigures, *, fsync: bool = False) -> str | None:
    """Return why the run says nothing about PowerOn, or None if the run counts.

    If the broker waits for the disk, a slow ring does not show that the machine was busy.
    """
    if fsync:
        return None
    p50, rate = figures.ring_p50_ms, figures.ring_iterations_per_second
    if p50 is not None and p50 > RING_P50_MS:
        return f"The bare ring needed {p50:.1f} ms for a lap, where {RING_P50_MS:g} ms is the limit."
    if rate is not None and rate < RING_ITERATIONS:
        return f"The bare ring made {rate:,.0f} laps/s, where {RING_ITERATIONS:,.0f} is the least."
    return None


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least this percentage of the values does not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


DEADLINE: Final = 600.0  # seconds for one run
LAST_WORDS: Final = 500  # characters

COMMAND_EXAMPLE: Final = "python peer.py"
EXAMPLE: Final = '{"peer": "name", "iter_p50_ms": 8.1, "iter_per_s": 305, "cpu_s_per_1000_iter": 5.4}'


class PeerFigures(BaseModel):
    """The figures of one run of a peer."""

    peer: str = "peer"
    iteration_p50_ms: float = Field(alias="iter_p50_ms", gt=0)
    """Measured with one workflow at a time."""
    iterations_per_second: float = Field(alias="iter_per_s", gt=0)
    cpu_seconds_per_1000_iterations: float = Field(alias="cpu_s_per_1000_iter", gt=0)
    """The CPU time of all its processes."""

    def told(self) -> str:
        return speed_told(self.peer, self.iterations_per_second, self.iteration_p50_ms)


def speed_told(who: str, iterations_per_second: float, iteration_p50_ms: float) -> str:
    """Return one side's speed in one turn, as a sentence."""
    return f"{who}: {iterations_per_second:,.0f} iterations/s, one in {iteration_p50_ms:.1f} ms."


def peer_command(line: str) -> tuple[str, ...]:
    """Return the command that a user has given.

    Raises:
        Refused: it cannot be run on this machine.
    """
    try:
        return command_of(line, like=COMMAND_EXAMPLE)
    except ValueError as error:
        raise Refused(f"--peer: {error}.") from error


async def measured_peer(command: Sequence[str]) -> PeerFigures:
    """Run the command once and return the figures of the last line that has any.

    Raises:
        Refused: it fails, times out or prints no figures; the message includes the end of its output, if it ended.
    """
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE, stdin=asyncio.subprocess.DEVNULL)
    try:
        async with asyncio.timeout(DEADLINE):
            printed, complained = await process.communicate()
    except TimeoutError as error:
        raise Refused(f"The peer {shlex.join(command)} did not end within {DEADLINE:g} s.") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    found = [figures for line in printed.decode(errors="replace").splitlines() if (figures := _figures(line))]
    if process.returncode or not found:
        words = (complained or printed).decode(errors="replace").strip()[-LAST_WORDS:]
        raise Refused(
            f"The peer {shlex.join(command)} ended with {process.returncode} and told {len(found)} lines of figures; "
            f"a line like {EXAMPLE} is wanted. Its last words: {words}"
        )
    return found[-1]


def _figures(line: str) -> PeerFigures | None:
    try:
        return PeerFigures.model_validate_json(line.strip().removeprefix("RESULT "))
    except ValidationError:
        return None
