"""Cutting what may be large into pieces that memory and deadlines allow."""

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from poweron_events.log import Message, Record

T = TypeVar("T", Record, Message)


class Pieces(Generic[T]):
    """Cuts what comes, in its order, into pieces of at most `most` items and `size` bytes.

    One that is larger by itself makes a piece of its own.
    """

    def __init__(self, *, most: int, size: int) -> None:
        self._most, self._size = most, size
        self._left: list[T] = []
        self._weight = 0

    def full(self, items: Iterable[T]) -> Iterator[list[T]]:
        """The pieces that are full when these have come."""
        for item in items:
            weight = item.size
            if len(self._left) == self._most or (self._left and self._weight + weight > self._size):
                yield from self.rest()
            self._left.append(item)
            self._weight += weight

    def rest(self) -> Iterator[list[T]]:
        """The piece that is not full yet, if there is any."""
        if self._left:
            left, self._left, self._weight = self._left, [], 0
            yield left

    def of(self, items: Iterable[T]) -> Iterator[list[T]]:
        """All of these in pieces."""
        yield from self.full(items)
        yield from self.rest()
