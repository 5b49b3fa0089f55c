"""Chance: what goes wrong, how often, and what to try of many things; all of it follows from the seed."""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import TypeVar

Choice = TypeVar("Choice")


class Chance:
    """Says where a fault strikes and counts it. Once there is calm, none does."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.calm = False
        self.struck: Counter[str] = Counter()

    def strikes(self, fault: str, probability: float) -> bool:
        """Whether a fault strikes now."""
        if self.calm or self.random.random() >= probability:
            return False
        self.struck[fault] += 1
        return True

    def between(self, least: float, most: float) -> float:
        return self.random.uniform(least, most)

    def one_of(self, choices: Sequence[Choice]) -> Choice:
        return self.random.choice(choices)

    def often(self, probability: float) -> bool:
        """Whether something that is no fault happens."""
        return self.random.random() < probability
