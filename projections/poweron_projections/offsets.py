"""How far the rows go: the next offset of each partition, moved by compare-and-set in the rows' transaction."""

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

_MOVE: Final = """
UPDATE offsets
   SET next_offset = given.after
  FROM unnest($2::integer[], $3::bigint[], $4::bigint[]) AS given (partition, before, after)
 WHERE offsets.topic = $1 AND offsets.partition = given.partition AND offsets.next_offset = given.before
"""


MOST_IDLE_MS = 10_000  # that Postgres waits for the next statement of a transaction which locks rows


async def stay(connection: Connection) -> None:
    """Let no rebuild put other tables in place of these until the transaction ends.

    Otherwise rows could go to the tables of before and their offset to those of after, and be lost. To be called
    first in a transaction: what is seen is settled by the statement that follows.

    A process that is frozen within the transaction holds up the others for a while only: Postgres ends it.
    """
    await connection.execute(
        f"SET LOCAL idle_in_transaction_session_timeout = {MOST_IDLE_MS}; LOCK TABLE offsets IN ROW EXCLUSIVE MODE"
    )


async def read(connection: Connection, topic: str) -> dict[int, int]:
    """The next offset of every partition that has a row."""
    return {row["partition"]: row["next_offset"] for row in await connection.fetch(_READ, topic)}


async def begin(connection: Connection, topic: str, partitions: Iterable[int]) -> None:
    """Give each partition a row, at 0 where it had none."""
    rows = [OffsetRow(topic, partition, 0) for partition in sorted(partitions)]
    if not rows:
        return  # a member of the group that has no partition, as the second on a topic with one
    await connection.execute(OFFSETS.upsert, OFFSETS.given(rows))


async def move(connection: Connection, topic: str, before: Mapping[int, int], after: Mapping[int, int]) -> None:
    """Move the offset of each partition in `after` on from where it was seen.

    Raises:
        Conflict: another projector has moved one of them.
    """
    partitions = sorted(after)
    moved = await connection.execute(
        _MOVE, topic, partitions, [before[place] for place in partitions], [after[place] for place in partitions]
    )
    if moved != f"UPDATE {len(partitions)}":
        raise Conflict(f"another projector has moved an offset of {topic!r} beyond {dict(before)!r}")
