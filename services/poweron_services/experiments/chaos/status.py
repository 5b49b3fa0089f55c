"""The status of an experiment at one moment, to show to the user."""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final, Literal

from poweron_services.experiments.chaos.faults import KINDS, FaultKind, InjectedFault, RecoveryMonitor

RATE_WINDOW: Final = 10.0  # seconds

ExperimentPhase = Literal["starting", "injecting", "recovering", "checking_halves", "judging"]


@dataclass(frozen=True, slots=True)
class FaultStatistics:
    """One kind of fault: how often it was injected, how often all workflows recovered, and after how many ms."""

    kind: FaultKind
    injected: int
    recovered: int
    first: float | None
    """The median time until the first workflow made progress."""
    median: float | None
    """The median time until every workflow that was open had made progress."""
    longest: float | None


@dataclass(frozen=True, slots=True)
class ExperimentStatus:
    """The status of an experiment; times in seconds."""

    phase: ExperimentPhase
    elapsed: float
    seconds: float
    faults: Sequence[FaultStatistics]
    requested: int
    running: int
    completed: int
    cancelled: int
    failed: int
    events: int
    superseded: int
    rate: float
    """Events per second, over the last `RATE_WINDOW` seconds."""


def fault_statistics(faults: Sequence[InjectedFault]) -> list[FaultStatistics]:
    """Return statistics of the injected faults, by kind."""
    return [
        _statistics(kind, [each for each in faults if each.kind == kind])
        for kind in KINDS
        if any(each.kind == kind for each in faults)
    ]


def _statistics(kind: FaultKind, faults: Sequence[InjectedFault]) -> FaultStatistics:
    first = [each.first_ms - each.injected_ms for each in faults if each.first_ms is not None]
    whole = [each.all_ms - each.injected_ms for each in faults if each.all_ms is not None]
    return FaultStatistics(
        kind=kind,
        injected=len(faults),
        recovered=len(whole),
        first=median(first) if first else None,
        median=median(whole) if whole else None,
        longest=max(whole, default=None),
    )


class StatusObserver:
    """Derives the status of an experiment from its monitor."""

    def __init__(self, monitor: RecoveryMonitor, seconds: float) -> None:
        self._monitor = monitor
        self._seconds = seconds
        self._began: float | None = None
        self._ended: float | None = None
        self._recent: deque[tuple[float, int]] = deque([(time.monotonic(), 0)])

    def begin(self) -> None:
        """Start the clock of the experiment."""
        self._began = time.monotonic()

    def end(self) -> None:
        """Stop the clock of the experiment."""
        self._ended = time.monotonic()

    def status(self, phase: ExperimentPhase, requested: int) -> ExperimentStatus:
        monitor = self._monitor
        return ExperimentStatus(
            phase=phase,
            elapsed=0.0 if self._began is None else (self._ended or time.monotonic()) - self._began,
            seconds=self._seconds,
            faults=fault_statistics(monitor.faults),
            requested=requested,
            running=len(monitor.open),
            completed=monitor.endings["completed"],
            cancelled=monitor.endings["cancelled"],
            failed=monitor.endings["failed"],
            events=monitor.events,
            superseded=monitor.superseded,
            rate=self._rate(monitor.events, time.monotonic()),
        )

    def _rate(self, events: int, now: float) -> float:
        while len(self._recent) > 1 and self._recent[0][0] < now - RATE_WINDOW:
            self._recent.popleft()
        since, before = self._recent[0]
        self._recent.append((now, events))
        return (events - before) / max(now - since, 0.1)
