"""The processes as rows: they go on from what the rows hold, and say who could act at a time."""

from typing import Any

import pytest
from process_records import INSTANCE, Process, instance_ended, instance_started

from builders import Told, requested, two_policies
from poweron_events import topics
from poweron_events.log import Record
from poweron_events.log.memory import MemoryLog
from poweron_projections import bi, reader
from poweron_projections.connection import Pool, acquire, schema_of
from poweron_projections.rebuild import rebuild
from poweron_projections.verify import catch_up, verify
from poweron_projections.workflow_filter import matching

EVENTS = topics.EVENTS.name


def put(log: MemoryLog, told: Told, *times: int) -> None:
    """Write the records of a story as the broker takes them at these times (ms)."""
    number = log.partition_of(EVENTS, told.id.encode())
    partition = log._topics[EVENTS][number]
    for message, time_ms in zip(told.messages[-len(times) :], times, strict=True):
        partition.append(Record(EVENTS, number, len(partition), time_ms, message.key, message.value, {}))


async def test_a_process_that_ends_much_later_has_one_row_with_both_times(log: MemoryLog, pool: Pool) -> None:
    told = Process().tell(instance_started())
    put(log, told, 1_000)
    await catch_up(log, pool)
    assert await ended(pool) is None
    put(log, told.tell(instance_ended()), 5_000)
    await catch_up(log, pool)
    assert await ended(pool) == "1970-01-01T00:00:05.000Z"
    assert (await verify(log, pool)).differences == []
    assert (await rebuild(log, pool)).differences == []
    found = await reader.instance(pool, INSTANCE)
    assert found is not None
    assert (found.record, found.started) == (instance_started(), "1970-01-01T00:00:01.000Z")


async def ended(pool: Pool) -> Any:
    found = await reader.instance(pool, INSTANCE)
    assert found is not None
    return found.ended


async def test_a_second_start_or_end_changes_no_row(log: MemoryLog, pool: Pool) -> None:
    told = Process().tell(instance_started(), instance_ended())
    put(log, told, 1_000, 5_000)
    await catch_up(log, pool)
    put(log, told.tell(instance_started(release="9"), instance_ended()), 6_000, 7_000)
    await catch_up(log, pool)
    assert await ended(pool) == "1970-01-01T00:00:05.000Z"
    assert (await verify(log, pool)).differences == []


async def test_a_forged_workflow_under_the_key_of_a_process_ends_it_for_every_reader_alike(
    log: MemoryLog, pool: Pool
) -> None:
    told = Process().tell(instance_started(), requested())
    put(log, told, 1_000, 2_000)
    await catch_up(log, pool)
    put(log, told.tell(instance_ended()), 3_000)
    await catch_up(log, pool)
    assert told.verdicts == ["accepted", "accepted", "superseded"]
    assert (await verify(log, pool)).differences == []


async def test_the_processes_of_a_time_are_those_that_had_started_and_not_ended(log: MemoryLog, pool: Pool) -> None:
    put(log, Process("host-1-a").tell(instance_started("host-1-a"), instance_ended("host-1-a")), 1_000, 3_000)
    put(log, Process("host-2-b").tell(instance_started("host-2-b")), 2_000)
    await catch_up(log, pool)

    async def names(time_ms: int) -> list[str]:
        return [entry.instance for entry in await reader.instances_at(pool, time_ms)]

    assert await names(999) == []
    assert await names(1_000) == ["host-1-a"]
    assert await names(2_000) == ["host-1-a", "host-2-b"]
    assert await names(3_000) == ["host-2-b"]


async def test_processes_and_policies_are_no_workflows(log: MemoryLog, pool: Pool) -> None:
    told = Process().tell(instance_started())
    put(log, told, 1_000)
    put(log, two_policies(), 10, 20)
    await catch_up(log, pool)
    put(log, told.tell(instance_ended()), 2_000)
    await catch_up(log, pool)
    assert await reader.workflows(pool) == []
    assert await reader.workflow(pool, told.id) is None
    assert (await matching(pool, [], limit=10)).count == 0
    async with acquire(pool) as connection:
        assert await connection.fetchval("SELECT count(*) FROM workflow_overview") == 0
        schema = bi.schema_beside(await schema_of(connection))
        assert await connection.fetchval(f"SELECT count(*) FROM {schema}.workflows") == 0
    assert (await verify(log, pool)).differences == []


@pytest.mark.parametrize(("time_ms", "number"), [(9, None), (10, 1), (19, 1), (20, 2)])
async def test_the_policy_of_a_time_is_the_newest_until_then(
    log: MemoryLog, pool: Pool, time_ms: int, number: int | None
) -> None:
    put(log, two_policies(), 10, 20)
    await catch_up(log, pool)
    found = await reader.policy_at(pool, time_ms)
    assert (found and found.number) == number
