"""Concurrent work: all of it completes, or none of it continues."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

Result = TypeVar("Result")


async def side_by_side(work: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """Run the work concurrently and return the results in its order; if one raises, the others are cancelled."""
    tasks = [asyncio.create_task(coroutine) for coroutine in work]
    try:
        return [*await asyncio.gather(*tasks)]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
