"""Work that is done side by side: all of it, or none of it goes on."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

Result = TypeVar("Result")


async def side_by_side(work: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """The results in the order of the work; where one raises, the others are cancelled."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        return [*await asyncio.gather(*tasks)]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
