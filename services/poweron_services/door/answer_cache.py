"""The checked answers that a door has shown: parsing one and searching its sources takes much processor time."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Final, Generic, TypeVar

from poweron_events.task_cancellation import retrieve_error

MOST: Final = 100  # answers

Checked = TypeVar("Checked")


class AnswerCache(Generic[Checked]):
    """The last 100 checked answers, by everything that the check depends on."""

    def __init__(self, working: set["asyncio.Task[Any]"]) -> None:
        """`working` has the checks that still run; its owner cancels them."""
        self._working = working
        self._checks: OrderedDict[Hashable, asyncio.Task[Checked]] = OrderedDict()

    async def get(self, key: Hashable, check: Callable[[], Coroutine[Any, Any, Checked]]) -> Checked:
        """Return the answer of this key; concurrent callers share one check, and a failed check is repeated."""
        checking = self._checks.get(key)
        if checking is None or (checking.done() and _has_failed(checking)):
            checking = self._checks[key] = asyncio.create_task(check())
            retrieve_error(checking)  # callers get it themselves, but all of them may be gone
            self._working.add(checking)
            checking.add_done_callback(self._working.discard)
        self._checks.move_to_end(key)
        if len(self._checks) > MOST:
            self._checks.popitem(last=False)
        return await asyncio.shield(checking)


def _has_failed(check: "asyncio.Task[Any]") -> bool:
    return check.cancelled() or check.exception() is not None
