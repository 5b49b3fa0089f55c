"""The interface of embedders, which turn texts into vectors, and the nearness of two vectors."""

from collections import OrderedDict
from collections.abc import Sequence
from operator import mul
from threading import Lock
from typing import Final, Protocol

Vector = Sequence[float]
"""A vector of length 1, so that the dot product of two is the cosine of the angle between them."""

MOST_REMEMBERED: Final = 5_000  # vectors of passages, which a follow-up question needs again


class Embedder(Protocol):
    """Turns questions and passages into vectors, in the thread of the caller; a call may take a second.

    Raises `Unavailable` if it cannot be reached now.
    """

    @property
    def name(self) -> str:
        """The model that the vectors come from, such as `multilingual-e5-small`."""

    @property
    def near(self) -> float | None:
        """The nearness below which a passage has nothing to do with a question; None if it was not measured."""

    def question(self, text: str) -> Vector: ...

    def passages(self, texts: Sequence[str]) -> list[Vector]: ...


def nearness(first: Vector, second: Vector) -> float:
    """Return the cosine of the angle between two vectors: 1 if they mean the same."""
    return float(sum(map(mul, first, second)))


class _Around:
    """A wrapper around an embedder, with the same name."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    @property
    def name(self) -> str:
        return self._embedder.name

    @property
    def near(self) -> float | None:
        return self._embedder.near

    def question(self, text: str) -> Vector:
        return self._embedder.question(text)

    def passages(self, texts: Sequence[str]) -> list[Vector]:
        return self._embedder.passages(texts)


class Remembering(_Around):
    """A wrapper that caches the vectors of passages."""

    def __init__(self, embedder: Embedder) -> None:
        super().__init__(embedder)
        self._known: OrderedDict[str, Vector] = OrderedDict()
        self._lock = Lock()

    def passages(self, texts: Sequence[str]) -> list[Vector]:
        with self._lock:
            unknown = [text for text in dict.fromkeys(texts) if text not in self._known]
            vectors = dict(zip(unknown, self._embedder.passages(unknown), strict=True)) if unknown else {}
            vectors |= {text: self._known[text] for text in texts if text not in vectors}
            self._known |= vectors
            while len(self._known) > MOST_REMEMBERED:
                self._known.popitem(last=False)
            return [vectors[text] for text in texts]


class Watched(_Around):
    """A wrapper that records whether its embedder was asked a question."""

    was_asked = False

    def question(self, text: str) -> Vector:
        self.was_asked = True
        return super().question(text)
