"""The time of heads: as of then, the ledger had entered everything that was in the log."""

from collections.abc import Mapping


class LedgerClock:
    """Tells as of when a ledger is complete, which never goes back.

    A ledger under load is always a little behind, so the ends of the log are noted and found passed the next time.
    """

    def __init__(self, as_of_ms: int = 0) -> None:
        """Continue from the time of the last heads, in ms since 1970."""
        self._as_of_ms = as_of_ms
        self._noted: tuple[Mapping[int, int], int] | None = None

    def as_of_ms(self, positions: Mapping[int, int], ends: Mapping[int, int], now_ms: int) -> int:
        """Return the time as of which everything is entered.

        Args:
            positions: how far each partition is entered.
            ends: where the log ends now.
            now_ms: the time now, in ms since 1970.
        """
        if _has_passed(positions, ends):
            self._as_of_ms, self._noted = max(self._as_of_ms, now_ms), None
        elif self._noted is None or _has_passed(positions, self._noted[0]):
            if self._noted is not None:
                self._as_of_ms = max(self._as_of_ms, self._noted[1])
            self._noted = (ends, now_ms)
        return self._as_of_ms


def _has_passed(positions: Mapping[int, int], ends: Mapping[int, int]) -> bool:
    return all(positions.get(partition, 0) >= end for partition, end in ends.items())
