"""A query that callers share: who asks at the same time gets the same answer, and answers come in the order of queries."""

import asyncio

from poweron_services.row_query import SharedQuery


async def test_callers_that_ask_together_share_a_query_and_a_slow_one_is_not_overtaken() -> None:
    """Given a first query that is slow, when another is asked for meanwhile, then it begins after the first has ended."""
    began, ended = list[int](), list[int]()

    async def ask() -> int:
        number = len(began)
        began.append(number)
        await asyncio.sleep(0.2 if number == 0 else 0)
        ended.append(number)
        return number

    query = SharedQuery(ask)
    first, shared = asyncio.create_task(query()), asyncio.create_task(query())
    await asyncio.sleep(0.05)
    assert began == [0]
    later = asyncio.create_task(query())
    assert await asyncio.gather(first, shared, later) == [0, 0, 1]
    assert (began, ended) == ([0, 1], [0, 1])
