"""Workflows as the simulated world leaves them behind: its log, record by record, with the verdicts of the full fold.

Crashes, late and doubled appends, forged openings, budgets used up, deadlines, refusals, approvals and nonsense.
"""

from collections.abc import Iterable, Iterator
from random import Random
from typing import NamedTuple

import pytest
from simulation.world import World
from structlog.testing import capture_logs

from poweron_events import topics
from poweron_events.fold.state import Verdict

DAYS = 5 * 86_400_000  # milliseconds over which worlds are spread


class LoggedRecord(NamedTuple):
    """A record as it lay in the log; one that is no event has no verdict."""

    key: bytes
    value: bytes
    time_ms: int
    verdict: Verdict | None


def simulated(seeds: Iterable[int]) -> Iterator[list[LoggedRecord]]:
    """The log of each world. Each begins at a time of its own and has workflows that no other has."""
    for seed in seeds:
        with pytest.MonkeyPatch.context() as patch, capture_logs():
            patch.setattr(topics, "PARTITIONS", topics.PARTITIONS)  # a world sets it; who reads on does not
            world = World(seed, f"/simulation/{seed}")
            world.run()
        later = Random(seed).randrange(DAYS)
        records = [(place, world.log.record(*place)) for place in world.full.records]
        yield [
            LoggedRecord(record.key or b"", record.value or b"", record.time_ms + later, world.full.verdicts.get(place))
            for place, record in records
        ]
