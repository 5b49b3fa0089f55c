"""The faults that can be injected, and the plan of when to inject them; the same seed gives the same plan."""

import random
from dataclasses import dataclass
from typing import Final, Literal, get_args

from poweron_events.log.kafka_settings import REQUEST_TIMEOUT

FaultKind = Literal[
    "process_killed",
    "process_stopped",
    "process_frozen",
    "projectors_killed",
    "cancelled_while_stopped",
    "rebalance",
    "second_projector",
    "kafka_killed",
    "kafka_frozen",
    "postgres_killed",
    "offsets_lost",
    "rows_lost",
    "rows_rebuilt",
    "records_poisoned",
    "decompression_bombs",
    "opening_forged",
    "requests_flooded",
]

KINDS: Final[tuple[FaultKind, ...]] = get_args(FaultKind)

FAULT_NAMES: Final[dict[FaultKind, str]] = {
    "process_killed": "role process killed",
    "process_stopped": "role process stopped",
    "process_frozen": "role process frozen",
    "projectors_killed": "all projectors killed",
    "cancelled_while_stopped": "cancelled, all killed",
    "rebalance": "process joins and leaves",
    "second_projector": "one more projector",
    "kafka_killed": "Kafka killed",
    "kafka_frozen": "Kafka frozen",
    "postgres_killed": "Postgres killed",
    "offsets_lost": "offsets of requests lost",
    "rows_lost": "all rows dropped",
    "rows_rebuilt": "rows rebuilt beside",
    "records_poisoned": "unreadable records",
    "decompression_bombs": "decompression bombs",
    "opening_forged": "opening forged",
    "requests_flooded": "flood of duplicates",
}

SESSION_TIMEOUT = 3.0  # seconds until a consumer group drops a silent process

DURATIONS: Final[dict[FaultKind, tuple[float, float]]] = {
    "process_killed": (0.0, 2.0),
    "process_stopped": (0.0, 2.0),
    "process_frozen": (SESSION_TIMEOUT + 0.5, SESSION_TIMEOUT + 5.0),
    "projectors_killed": (0.5, 3.0),
    "cancelled_while_stopped": (0.0, 2.0),
    "rebalance": (2.0, 6.0),
    "second_projector": (2.0, 6.0),
    "kafka_killed": (0.0, 2.0),
    "kafka_frozen": (1.0, REQUEST_TIMEOUT + 2.0),
    "postgres_killed": (0.0, 3.0),
    "offsets_lost": (0.0, 0.0),
    "rows_lost": (0.0, 0.0),
    "rows_rebuilt": (0.0, 0.0),
    "records_poisoned": (0.0, 0.0),
    "decompression_bombs": (0.0, 0.0),
    "opening_forged": (0.0, 0.0),
    "requests_flooded": (0.0, 0.0),
}
"""The minimum and maximum seconds until a fault is undone by a start, a thaw or by leaving the group."""

FIRST = 1.0  # seconds
GAP = (1.5, 5.0)  # seconds between two faults; the second may begin while the first lasts


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: its time, kind and target, and the seconds until it is undone."""

    at: float
    kind: FaultKind
    target: int
    lasts: float


def plan_faults(seed: int, seconds: float) -> tuple[Fault, ...]:
    """Plan faults for this many seconds; every kind occurs equally often, give or take one."""
    rng = random.Random(f"faults {seed}")
    at, coming, planned = FIRST, list[FaultKind](), list[Fault]()
    while at < seconds:
        coming = coming or rng.sample(KINDS, len(KINDS))
        kind = coming.pop()
        planned.append(Fault(round(at, 3), kind, rng.randrange(1_000), round(rng.uniform(*DURATIONS[kind]), 3)))
        at += rng.uniform(*GAP)
    return tuple(planned)
