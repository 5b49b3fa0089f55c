"""Splitting large sequences into pieces that memory and deadlines allow."""

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from poweron_events.log import Message, Record

T = TypeVar("T", Record, Message)


class Pieces(Generic[T]):
    """Splits items, in their order, into pieces of at most `most` items and `size` bytes.

    An item that is larger than that makes a piece of its own.
    """

    def __init__(self, *, most: int, size: int) -> None:
        self._most, self._size = most, size
        self._left: list[T] = []
        self._weight = 0

    def full(self, items: Iterable[T]) -> Iterator[list[T]]:
        """Add these items and yield the pieces that are now full."""
        for item in items:
            weight = item.size
            if len(self._left) == self._most or (self._left and self._weight + weight > self._size):
                yield from self.rest()
            self._left.append(item)
            self._weight += weight

    def rest(self) -> Iterator[list[T]]:
        """Yield the last piece, which is not full, if there is one."""
        if self._left:
            left, self._left, self._weight = self._left, [], 0
            yield left

    def of(self, items: Iterable[T]) -> Iterator[list[T]]:
        """Yield all items in pieces."""
        yield from self.full(items)
        yield from self.rest()
