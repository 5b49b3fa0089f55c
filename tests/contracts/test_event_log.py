"""What `EventLog` promises, asked of every keeper."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack

import pytest

from poweron_events.errors import Refused
from poweron_events.log import EventLog, Follower, Message, Record
from poweron_events.log.kafka import connect
from poweron_events.log.memory import MemoryLog

TOPIC = "poweron.events"
DEADLINE = 20.0  # seconds


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.system)])
async def log(request: pytest.FixtureRequest) -> AsyncGenerator[EventLog, None]:
    if request.param == "memory":
        yield MemoryLog()
        return
    async with connect(request.getfixturevalue("kafka")) as log:
        yield log


async def _collect(follower: Follower, enough: Callable[[list[Record]], bool]) -> list[Record]:
    """What a follower delivers, every new partition from its beginning, until it is enough."""
    records: list[Record] = []
    async with asyncio.timeout(DEADLINE):
        while not enough(records):
            polled = await follower.poll(1.0)
            for partition in polled.assigned:
                await follower.seek(partition, 0)
            records += polled.records
    return records


def _values(records: Sequence[Record]) -> list[bytes]:
    return [record.value or b"" for record in records]


async def _own_partitions(follower: Follower, count: int) -> frozenset[int]:
    """Poll until the follower has been told of `count` partitions that are its own."""
    mine: frozenset[int] = frozenset()
    async with asyncio.timeout(DEADLINE):
        while len(mine) != count:
            polled = await follower.poll(0.2)
            mine = (mine - polled.revoked) | polled.assigned
    return mine


async def test_what_is_appended_is_read_back_in_order_with_its_bytes(log: EventLog) -> None:
    values = [b"first", b"second", *(b"%d " % number * 2_000 for number in range(60)), b"large" * 40_000, b"last"]
    assert list(await log.append(TOPIC, [Message(b"w", value) for value in values[:2]])) == [0, 1]
    many = log.append(TOPIC, [Message(b"w", value) for value in values[2:]])
    appended, *others = await asyncio.gather(many, *(log.append(TOPIC, [Message(b"w", b"beside")]) for _ in range(9)))
    assert sorted([*appended, *(offset for offsets in others for offset in offsets)]) == [*range(2, len(values) + 9)]
    async with log.follow(TOPIC, "readers") as follower:
        records = await _collect(follower, lambda found: len(found) == len(values) + 9)
    assert [value for value in _values(records) if value != b"beside"] == values
    assert [records[offset].value for offset in appended] == values[2:]
    assert {record.partition for record in records} == {log.partition_of(TOPIC, b"w")}
    assert all(record.key == b"w" and record.time_ms > 1_700_000_000_000 for record in records)


async def test_an_assigned_partition_is_silent_until_it_is_sought(log: EventLog) -> None:
    await log.append(TOPIC, [Message(b"w", b"one")])
    async with log.follow(TOPIC, "readers") as follower:
        await _own_partitions(follower, 12)
        assert (await follower.poll(0.3)).records == []
        await follower.seek(log.partition_of(TOPIC, b"w"), 0)
        records = await _collect(follower, lambda found: len(found) == 1)
    assert _values(records) == [b"one"]


async def test_a_reader_starts_where_it_seeks(log: EventLog) -> None:
    await log.append(TOPIC, [Message(b"w", b"%d" % number) for number in range(5)])
    async with log.follow(TOPIC, "readers") as follower:
        await _own_partitions(follower, 12)
        await follower.seek(log.partition_of(TOPIC, b"w"), 3)
        records = await _collect(follower, lambda found: len(found) == 2)
    assert _values(records) == [b"3", b"4"]


async def test_a_paused_partition_is_silent_and_loses_nothing(log: EventLog) -> None:
    partition = log.partition_of(TOPIC, b"w")
    async with log.follow(TOPIC, "readers") as follower:
        await _own_partitions(follower, 12)
        await follower.seek(partition, 0)
        follower.pause(frozenset({partition}))
        await log.append(TOPIC, [Message(b"w", b"held")])
        assert (await follower.poll(0.5)).records == []
        follower.pause(frozenset())
        records = await _collect(follower, lambda found: len(found) == 1)
    assert _values(records) == [b"held"]


async def test_the_end_is_known_with_the_delivery(log: EventLog) -> None:
    await log.append(TOPIC, [Message(b"w", b"%d" % number) for number in range(3)])
    partition = log.partition_of(TOPIC, b"w")
    async with log.follow(TOPIC, "readers") as follower:
        await _collect(follower, lambda found: len(found) == 3)
        assert follower.end(partition) == 3
    assert (await log.ends(TOPIC))[partition] == 3


async def test_members_of_a_group_share_the_partitions(log: EventLog) -> None:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(log.follow(TOPIC, "sharers"))
        await _own_partitions(first, 12)
        second = await stack.enter_async_context(log.follow(TOPIC, "sharers"))
        halves = await asyncio.gather(_rebalanced(first, 6), _own_partitions(second, 6))
    assert halves[0] | halves[1] == frozenset(range(12))


async def _rebalanced(follower: Follower, count: int) -> frozenset[int]:
    """Poll until everything was taken away and `count` partitions were given back."""
    mine = frozenset(range(12))
    async with asyncio.timeout(DEADLINE):
        while len(mine) != count:
            polled = await follower.poll(0.2)
            mine = (mine - polled.revoked) | polled.assigned
    return mine


async def test_a_group_remembers_its_commits(log: EventLog) -> None:
    partition = log.partition_of(TOPIC, b"w")
    await log.append(TOPIC, [Message(b"w", b"%d" % number) for number in range(3)])
    async with log.follow(TOPIC, "committers") as follower:
        await _own_partitions(follower, 12)
        assert await follower.committed(partition) == 0
        await follower.commit({partition: 2})
    async with log.follow(TOPIC, "committers") as follower:
        await _own_partitions(follower, 12)
        assert await follower.committed(partition) == 2


async def test_a_group_is_looked_at_without_joining_it(log: EventLog) -> None:
    partition = log.partition_of(TOPIC, b"w")
    nobody = await log.group_state(TOPIC, "members")
    assert (set(nobody.committed.values()), nobody.has_members) == ({0}, False)
    await log.append(TOPIC, [Message(b"w", b"%d" % number) for number in range(3)])
    async with log.follow(TOPIC, "members") as follower:
        await _own_partitions(follower, 12)
        await follower.commit({partition: 2})
        state = await log.group_state(TOPIC, "members")
        assert (state.committed[partition], state.has_members) == (2, True)
        assert (await follower.poll(0.2)).revoked == frozenset()
    left = await log.group_state(TOPIC, "members")
    assert (left.committed[partition], left.has_members) == (2, False)


async def test_a_group_begins_again_where_a_partition_is_shorter_than_it_remembers(log: EventLog) -> None:
    """Its topic was deleted and made again."""
    async with log.follow(TOPIC, "committers") as follower:
        await _own_partitions(follower, 12)
        await follower.commit({7: 5})
        assert await follower.committed(7) == 0


async def test_a_range_is_read_without_a_group(log: EventLog) -> None:
    await log.append(TOPIC, [Message(b"w", b"%d" % number) for number in range(5)])
    partition = log.partition_of(TOPIC, b"w")
    batches = [batch async for batch in log.read(TOPIC, {partition: 1}, {partition: 4})]
    assert _values([record for batch in batches for record in batch]) == [b"1", b"2", b"3"]


async def test_a_range_that_is_empty_ends_at_once(log: EventLog) -> None:
    assert [batch async for batch in log.read(TOPIC, {}, await log.ends(TOPIC))] == []


async def test_a_tail_waits_for_more(log: EventLog) -> None:
    partition = log.partition_of(TOPIC, b"w")
    await log.append(TOPIC, [Message(b"w", b"old"), Message(b"w", b"seen")])
    async with asyncio.timeout(DEADLINE):
        found: list[bytes] = []
        async for records in log.tail(TOPIC, {partition: 1}):
            found += _values(records)
            if found == [b"seen"]:
                await log.append(TOPIC, [Message(b"w", b"new")])
            if len(found) == 2:
                break
    assert found == [b"seen", b"new"]


async def test_an_oversized_message_is_refused_and_the_next_one_is_taken(log: EventLog) -> None:
    with pytest.raises(Refused, match="may take 1048576 bytes"):
        await log.append(TOPIC, [Message(b"w", b"x" * 2_000_000)])
    assert list(await log.append(TOPIC, [Message(b"w", b"small")])) == [0]


async def test_concurrent_appends_of_many_keys_keep_the_order_of_each(log: EventLog) -> None:
    async def write(key: int) -> None:
        for number in range(20):
            await log.append(TOPIC, [Message(b"%d" % key, b"%d" % number)])

    await asyncio.gather(*(write(key) for key in range(10)))
    async with log.follow(TOPIC, "readers") as follower:
        records = await _collect(follower, lambda found: len(found) == 200)
    for key in range(10):
        assert _values([record for record in records if record.key == b"%d" % key]) == [b"%d" % n for n in range(20)]
