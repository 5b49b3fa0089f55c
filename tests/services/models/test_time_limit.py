"""The clock of a time limit stands still while its round is paused."""

import asyncio

from poweron_services.models.time_limit import TimeLimit

SECONDS = 0.05


async def test_a_stopped_clock_neither_ends_the_work_nor_forbids_another_try() -> None:
    limit = TimeLimit(SECONDS, pauses=True)
    async with limit:
        limit.stop()
        with limit.paused():
            await asyncio.sleep(2 * SECONDS)
            assert limit.allows(0)
        assert limit.allows(0), "it was stopped twice and goes on once"
        limit.go_on()
        assert (limit.is_over, limit.allows(0)) == (False, True)
        assert not limit.allows(2 * SECONDS)
