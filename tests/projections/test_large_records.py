"""However large records are, no batch of them and no append outgrows what memory and deadlines allow."""

import gc
from collections.abc import Awaitable, Callable, Generator, Sequence

import pytest
from tables import count

from poweron_events import topics
from poweron_events.log import Message, Record
from poweron_events.log.memory import MemoryLog
from poweron_projections import rows
from poweron_projections.connection import Pool
from poweron_projections.folder import LookUp
from poweron_projections.projection import Changes, read
from poweron_projections.rebuild import rebuild
from poweron_projections.verify import catch_up

EVENTS = topics.EVENTS.name
DEAD_LETTERS = topics.DEAD_LETTERS.name
LARGE = b"\xff" * topics.MAX_RECORD


@pytest.mark.req("E-14")
@pytest.mark.parametrize("make", [catch_up, rebuild])
async def test_large_records_that_are_no_events_are_taken_and_told_in_pieces(
    log: MemoryLog, pool: Pool, make: Callable[[MemoryLog, Pool], Awaitable[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(40):
        log.write(EVENTS, b"w", LARGE)
    batches, appends = folded(monkeypatch), appended(monkeypatch)
    await make(log, pool)
    assert await count(pool, "records") == await count(pool, "dead_letters") == 40
    assert sum((await log.ends(DEAD_LETTERS)).values()) == 40
    assert max(batches) <= 8 * 2**20
    assert max(appends) <= 2 * 2**20


@pytest.mark.req("X-06")
@pytest.mark.usefixtures("uncollected")
def test_a_record_that_is_no_event_leaves_nothing_for_the_garbage_collector() -> None:
    """What a batch holds would stay with it: a gigabyte, until enough other objects were made."""

    def batch() -> int:
        reads = [read(Record(EVENTS, 0, offset, 0, b"w", LARGE, {})) for offset in range(10)]
        return len(reads)

    assert batch() == 10
    assert [each for each in gc.get_objects() if isinstance(each, Record) and each.value is LARGE] == []


@pytest.fixture
def uncollected() -> Generator[None, None, None]:
    """No garbage of others, and none that is collected meanwhile."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def folded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of every batch from now on."""
    sizes: list[int] = []
    fold = rows.Rows.fold

    async def measured(self: rows.Rows, topic: str, records: Sequence[Record], look_up: LookUp) -> Changes:
        sizes.append(sum(len(record.value or b"") for record in records))
        return await fold(self, topic, records, look_up)

    monkeypatch.setattr(rows.Rows, "fold", measured)
    return sizes


def appended(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of every append from now on."""
    sizes: list[int] = []
    append = MemoryLog.append

    async def measured(self: MemoryLog, topic: str, messages: Sequence[Message]) -> Sequence[int]:
        sizes.append(sum(len(message.value) for message in messages))
        return await append(self, topic, messages)

    monkeypatch.setattr(MemoryLog, "append", measured)
    return sizes
