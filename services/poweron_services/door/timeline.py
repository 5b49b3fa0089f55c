"""The timeline of steps: a bar for each stage, on a scale on which idle time is folded."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from poweron_projections.workflow_excerpts import TimedStep

WIDTH: Final = 1_000.0
SHORTEST: Final = 3.0  # of a bar, so that it is seen
FOLDED: Final = 0.08  # of the width that a fold takes
IDLE_MS: Final = 1_500  # without work, from which on time is folded
STAGES: Final = ("select", "parameters", "act", "observe", "refine")


class StageSpan(NamedTuple):
    """A stage of a step, or the time that it waited for a person."""

    kind: str
    start_ms: int
    end_ms: int

    @property
    def ms(self) -> int:
        return self.end_ms - self.start_ms


class TimelineBar(NamedTuple):
    """A span as it is drawn."""

    kind: str
    x: float
    width: float


class TimelineRow(NamedTuple):
    """One step of the timeline."""

    step: TimedStep
    bars: Sequence[TimelineBar]
    spans: Sequence[StageSpan]
    result: str
    """Its result in a word: `denied` or `expired` if it could not run, `cancelled`, `failed`, or its status."""
    gap_ms: int
    """How long nothing ran before it, if that time is folded; 0 otherwise."""

    @property
    def has_failed(self) -> bool:
        """Whether it came to no result."""
        return self.result in ("denied", "expired", "failed")

    @property
    def ms(self) -> int:
        """How long its stages took."""
        return sum(span.ms for span in self.spans if span.kind != "wait")

    @property
    def wait_ms(self) -> int:
        """How long it waited for a person."""
        return sum(span.ms for span in self.spans if span.kind == "wait")


def spans(step: TimedStep, now_ms: int) -> Iterator[StageSpan]:
    """Yield what a step did one after the other; the last one lasts until now if the step is not over."""
    starts = (step.begun_ms, step.selected_ms, step.claimed_ms, step.completed_ms, step.observed_ms)
    ends = (step.selected_ms, step.parameterized_ms, step.completed_ms, step.observed_ms, step.refined_ms)
    for kind, start, end in zip(STAGES, starts, ends, strict=True):
        if kind == "act" and step.approval_ms is not None:
            answered = step.approval_answered_ms or step.claimed_ms or step.ended_ms or now_ms
            yield StageSpan("wait", step.approval_ms, max(answered, step.approval_ms))
        if start is None or (kind == "act" and step.approval == "denied"):
            continue
        over = end or ((step.approval_ms or step.claimed_ms) if kind == "parameters" else None)
        yield StageSpan(kind, start, max(start, over or step.ended_ms or now_ms))
        if over is None:
            return


def timeline(steps: Sequence[TimedStep], now_ms: int) -> list[TimelineRow]:
    """Return the rows of these steps, which are in order."""
    by_step = [(step, [*spans(step, now_ms)]) for step in steps]
    scale = _Scale([span for _, parts in by_step for span in parts])
    rows, end = list[TimelineRow](), 0
    for step, parts in by_step:
        bars = [TimelineBar(span.kind, *scale.place(span)) for span in parts]
        gap = parts[0].start_ms - end if parts and end else 0
        rows.append(TimelineRow(step, bars, parts, result_word(step), gap if gap > IDLE_MS else 0))
        end = max([end, *(span.end_ms for span in parts)])
    return rows


def result_word(step: TimedStep) -> str:
    """Return the result of a step in a word."""
    if step.approval == "denied":
        return "denied" if step.approval_by or step.approval_actor else "expired"
    if step.outcome == "denied":
        return "denied"
    if step.outcome == "cancelled" or (step.stopped_by == "cancelled" and step.outcome in (None, "not_begun")):
        return "cancelled"
    if step.success is False or step.error or step.refusals:
        return "failed"
    return "waits for approval" if step.approval == "asked" else step.status


class _Scale:
    """Maps times to places; time in which nothing worked is folded to a short stretch."""

    def __init__(self, parts: Sequence[StageSpan]) -> None:
        busy = _union([(span.start_ms, span.end_ms) for span in parts if span.kind != "wait"])
        total = sum(end - start for start, end in busy) or 1
        fold = max(total * FOLDED, 1.0)
        self._points = list[tuple[int, float]]()
        at, last = 0.0, None
        for start, end in busy:
            if last is not None:
                gap = start - last
                at += gap if gap <= IDLE_MS else fold
            self._points.append((start, at))
            at += end - start
            self._points.append((end, at))
            last = end
        if any(span.kind == "wait" and (last is None or span.end_ms > last) for span in parts):
            at += fold
            self._points.append((max(span.end_ms for span in parts), at))
        self._length = at or 1.0

    def place(self, span: StageSpan) -> tuple[float, float]:
        """Return where a span begins, and how wide it is."""
        start, end = self._at(span.start_ms), self._at(span.end_ms)
        width = max(SHORTEST, (end - start) / self._length * WIDTH)
        x = min(start / self._length * WIDTH, WIDTH - width)
        return round(x, 1), round(width, 1)

    def _at(self, ms: int) -> float:
        for (start, place), (end, next_place) in pairwise(self._points):
            if ms <= start:
                return place
            if ms <= end:
                return place + (next_place - place) * (ms - start) / (end - start)
        return self._length


def _union(intervals: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    result = list[tuple[int, int]]()
    for start, end in sorted(intervals):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result
