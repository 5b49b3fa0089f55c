"""How far the rows go: the next offset of each partition, moved by compare-and-set in the rows' transaction."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from poweron_events.errors import Conflict
from poweron_projections.connection import Connection
from poweron_projections.table_spec import Table


class OffsetRow(NamedTuple):
    """The first record of a partition that is not in the rows yet."""

    topic: str
    partition: int
    next_offset: int


OFFSETS = Table("offsets", OffsetRow, key=("topic", "partition"), keeps="first")

_READ: Final = "SELECT partition, next_offset FROM offsets WHERE topic = $1"

_READ_ALL: Final = "SELECT topic, partition, next_offset FROM offsets"

_MOVE: Final = """
UPDATE offsets
   SET next_offset = given.after
  FROM unnest($2::integer[], $3::bigint[], $4::bigint[]) AS given (partition, before, after)
 WHERE offsets.topic = $1 AND offsets.partition = given.partition AND offsets.next_offset = given.before
"""


MOST_IDLE_MS = 10_000  # for which Postgres waits for the next statement of a transaction that locks rows


async def stay(connection: Connection) -> None:
    """Keep any rebuild from replacing these tables until the transaction ends.

    Otherwise rows could go to the old tables and their offset to the new ones, and be lost. Call this first in a
    transaction: the statement that follows determines what the transaction sees.

    A process that freezes within the transaction blocks others only for a while: Postgres ends the transaction.
    """
    await connection.execute(
        f"SET LOCAL idle_in_transaction_session_timeout = {MOST_IDLE_MS}; LOCK TABLE offsets IN ROW EXCLUSIVE MODE"
    )


async def read(connection: Connection, topic: str) -> dict[int, int]:
    """Return the next offset of every partition that has a row."""
    return {row["partition"]: row["next_offset"] for row in await connection.fetch(_READ, topic)}


async def read_all(connection: Connection) -> Mapping[str, Mapping[int, int]]:
    """Return the next offset of every partition that has a row, by its topic; of other topics there is none."""
    found = defaultdict[str, dict[int, int]](dict)
    for row in await connection.fetch(_READ_ALL):
        found[row["topic"]][row["partition"]] = row["next_offset"]
    return found


async def begin(connection: Connection, topic: str, partitions: Iterable[int]) -> None:
    """Give each partition without a row one at offset 0."""
    rows = [OffsetRow(topic, partition, 0) for partition in sorted(partitions)]
    if not rows:
        return  # a group member without a partition, such as the second one on a topic with a single partition
    await connection.execute(OFFSETS.upsert, OFFSETS.given(rows))


async def move(connection: Connection, topic: str, before: Mapping[int, int], after: Mapping[int, int]) -> None:
    """Advance the offset of each partition in `after` from its value in `before`.

    Raises:
        Conflict: another projector has moved one of them.
    """
    partitions = sorted(after)
    moved = await connection.execute(
        _MOVE, topic, partitions, [before[place] for place in partitions], [after[place] for place in partitions]
    )
    if moved != f"UPDATE {len(partitions)}":
        raise Conflict(f"another projector has moved an offset of {topic!r} beyond {dict(before)!r}")
