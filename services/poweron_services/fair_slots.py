"""Slots that the senders of requests take in turn, regardless of how much work one of them has waiting.

Each takes one at a turn, or as many as its weight. The worker sets `current_sender` to the sender of the current
workflow, and `current_weight`; every task that it starts inherits the values.
"""

import asyncio
from collections import deque
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Item = TypeVar("Item")

current_sender: ContextVar[str] = ContextVar("current_sender", default="")
"""The CloudEvent `source` of the current request; empty if there is none."""
current_weight: ContextVar[int] = ContextVar("current_weight", default=1)
"""How many items the current sender takes at each turn."""


@dataclass(slots=True)
class _Line(Generic[Item]):
    """The items of one sender that wait."""

    weight: int
    items: deque[Item] = field(default_factory=deque)
    taken: int = 0
    """How many it has taken at its current turn."""


class SenderTurns(Generic[Item]):
    """A queue for each sender; the senders take turns, and each sender's items keep their order."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line[Item]] = {}  # the sender whose turn it is comes first

    def add(self, sender: str, item: Item, weight: int = 1) -> None:
        """Add an item of a sender that takes `weight` items at each turn."""
        line = self._lines.setdefault(sender, _Line(weight))
        line.weight = weight
        line.items.append(item)

    def remove(self, sender: str, item: Item) -> None:
        """Remove an item that no longer waits."""
        line = self._lines.get(sender)
        if line is not None and item in line.items:
            line.items.remove(item)
            if not line.items:
                del self._lines[sender]

    def next(self) -> Item | None:
        """Remove and return the next item; None if nothing waits."""
        if not self._lines:
            return None
        sender, line = next(iter(self._lines.items()))
        item = line.items.popleft()
        line.taken += 1
        if not line.items or line.taken >= line.weight:
            del self._lines[sender]
            line.taken = 0
            if line.items:
                self._lines[sender] = line  # its next turn is after all other senders'
        return item


class FairSlots:
    """A semaphore whose waiters are served in turns by sender, and in order within one sender."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting = SenderTurns[asyncio.Future[None]]()

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(self, *_: object) -> None:
        self.release()

    def locked(self) -> bool:
        """Return whether `acquire` would have to wait."""
        return not self._free

    async def acquire(self) -> None:
        """Take a slot, at once if one is free; a waiter that is cancelled leaves the queue."""
        if self._free:
            self._free -= 1
            return
        sender, turn = current_sender.get(), asyncio.get_running_loop().create_future()
        self._waiting.add(sender, turn, current_weight.get())
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._waiting.remove(sender, turn)
            else:
                self.release()  # it was given a slot before it was cancelled
            raise

    def release(self) -> None:
        """Hand the slot to the next waiter, or keep it free if there is none."""
        while (turn := self._waiting.next()) is not None:
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
