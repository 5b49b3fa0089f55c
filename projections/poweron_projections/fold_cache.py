"""Records that several readers of one process decode and judge once, if they read them at nearly the same time.

Both are pure functions, so who remembers what they returned gets the same. A process that plays one of the readers
alone remembers nothing.
"""

from collections import OrderedDict
from typing import Final, TypeVar

from poweron_events.codec import Undecodable, read_record
from poweron_events.envelope import Recorded
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Verdict, Workflow
from poweron_events.log import Record

REMEMBERED: Final = 4_000  # records, some 30 MB; those of several seconds
MAX_REMEMBERED: Final = 16_384  # bytes of a record; larger ones are read again, so that many of them take no memory

T = TypeVar("T")
Judgement = tuple[Workflow, Workflow, Verdict]
"""A workflow before and after a record, and the verdict on the record."""


class FoldCache:
    """The newest records that were read, and what the fold returned."""

    def __init__(self) -> None:
        self._most = 0
        self._read = OrderedDict[tuple[int, int], tuple[Record, Recorded | Undecodable]]()
        self._judged = OrderedDict[tuple[int, int], tuple[Recorded, Judgement]]()

    def share(self, records: int = REMEMBERED) -> None:
        """Remember this many records from now on."""
        self._most = records

    def read(self, record: Record) -> Recorded | Undecodable:
        """Read a record as input for the fold, or return why it is not an event.

        The reason is kept without the traceback: its frames would hold whole batches until the next garbage collection.
        """
        place = (record.partition, record.offset)
        known = self._read.get(place)
        if known is not None and known[0] == record:
            return known[1]
        try:
            recorded: Recorded | Undecodable = read_record(record)
        except Undecodable as error:
            recorded = Undecodable(str(error))
        if self._most and len(record.value or b"") <= MAX_REMEMBERED:
            _put(self._read, place, (record, recorded), self._most)
        return recorded

    def judge(self, workflow: Workflow, recorded: Recorded) -> Judgement:
        """Fold a record into its workflow; the one that is returned as before is equal to the one given."""
        place = (recorded.partition, recorded.offset)
        known = self._judged.get(place)
        if known is not None and known[0] is recorded and (known[1][0] is workflow or known[1][0] == workflow):
            return known[1]
        judgement = (workflow, *evolve(workflow, recorded))
        if place in self._read:
            _put(self._judged, place, (recorded, judgement), self._most)
        return judgement


def _put(remembered: OrderedDict[tuple[int, int], T], place: tuple[int, int], value: T, most: int) -> None:
    remembered[place] = value
    if len(remembered) > most:
        remembered.popitem(last=False)  # a dict would search its first item behind all that were deleted


fold_cache: Final = FoldCache()
"""That of this process."""
