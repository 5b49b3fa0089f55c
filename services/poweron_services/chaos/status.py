"""The picture: how a run stands at one moment, for whoever looks on."""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final, Literal

from poweron_services.chaos.faults import KINDS, Kind
from poweron_services.chaos.recovery import Strike, Watch

LATELY: Final = 10.0  # seconds

Stage = Literal["starting", "striking", "resting", "mustering", "judging"]


@dataclass(frozen=True, slots=True)
class Tally:
    """One kind of fault: how often it struck, how often everything went on again, and after how many ms."""

    kind: Kind
    struck: int
    recovered: int
    first: float | None
    """Median until something went on."""
    median: float | None
    """Median until everything that was open had gone on."""
    longest: float | None


@dataclass(frozen=True, slots=True)
class Picture:
    """How it stands; times in seconds."""

    stage: Stage
    elapsed: float
    seconds: float
    tallies: Sequence[Tally]
    requested: int
    running: int
    completed: int
    cancelled: int
    failed: int
    events: int
    superseded: int
    rate: float
    """Events a second, of late."""


def tallies(strikes: Sequence[Strike]) -> list[Tally]:
    """The faults that struck, by kind."""
    return [
        _tally(kind, [each for each in strikes if each.kind == kind])
        for kind in KINDS
        if any(each.kind == kind for each in strikes)
    ]


def _tally(kind: Kind, strikes: Sequence[Strike]) -> Tally:
    first = [each.first_ms - each.struck_ms for each in strikes if each.first_ms is not None]
    whole = [each.all_ms - each.struck_ms for each in strikes if each.all_ms is not None]
    return Tally(
        kind=kind,
        struck=len(strikes),
        recovered=len(whole),
        first=median(first) if first else None,
        median=median(whole) if whole else None,
        longest=max(whole, default=None),
    )


class Camera:
    """Takes pictures of a watch."""

    def __init__(self, watch: Watch, seconds: float) -> None:
        self._watch = watch
        self._seconds = seconds
        self._began: float | None = None
        self._ended: float | None = None
        self._lately: deque[tuple[float, int]] = deque([(time.monotonic(), 0)])

    def begin(self) -> None:
        """The clock of the run starts now."""
        self._began = time.monotonic()

    def end(self) -> None:
        """It stops now."""
        self._ended = time.monotonic()

    def take(self, stage: Stage, requested: int) -> Picture:
        watch, now = self._watch, time.monotonic()
        while len(self._lately) > 1 and self._lately[0][0] < now - LATELY:
            self._lately.popleft()
        since, events = self._lately[0]
        self._lately.append((now, watch.events))
        return Picture(
            stage=stage,
            elapsed=0.0 if self._began is None else (self._ended or now) - self._began,
            seconds=self._seconds,
            tallies=tallies(watch.strikes),
            requested=requested,
            running=len(watch.open),
            completed=watch.endings["completed"],
            cancelled=watch.endings["cancelled"],
            failed=watch.endings["failed"],
            events=watch.events,
            superseded=watch.superseded,
            rate=(watch.events - events) / max(now - since, 0.1),
        )
