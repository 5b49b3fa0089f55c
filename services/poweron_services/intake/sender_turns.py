"""Whose turn it is where several senders wait: one of each after the other, however many one of them has waiting."""

from collections import deque
from typing import Generic, TypeVar

Item = TypeVar("Item")


class SenderTurns(Generic[Item]):
    """What waits, by sender; those of one sender keep the order in which they came."""

    def __init__(self) -> None:
        self._lines: dict[str, deque[Item]] = {}  # whose turn is next comes first

    def add(self, sender: str, item: Item) -> None:
        self._lines.setdefault(sender, deque()).append(item)

    def remove(self, sender: str, item: Item) -> None:
        """Take out what waits no longer."""
        line = self._lines.get(sender)
        if line is not None and item in line:
            line.remove(item)
            if not line:
                del self._lines[sender]

    def next(self) -> Item | None:
        """Take out what is next; None where nothing waits."""
        if not self._lines:
            return None
        sender = next(iter(self._lines))
        line = self._lines.pop(sender)
        item = line.popleft()
        if line:
            self._lines[sender] = line  # its next turn is after everybody else's
        return item
