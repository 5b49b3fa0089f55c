"""The heads that the ledger lists: how far each workflow is that changed since the heads before, or is open.

They follow from the entries and from the rounds, so no row holds them.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import orjson

from poweron_projections.audit.ledger_entry import Head
from poweron_projections.audit.verifier.period_rules import complete_until
from poweron_projections.connection import Connection, Found

_HEADS_BEFORE: Final = "SELECT max(place) FROM ledger_entries WHERE kind = 'heads' AND place < $1"
_LAST_HEADS: Final = "SELECT entry FROM ledger_entries WHERE kind = 'heads' ORDER BY place DESC LIMIT 1"

_LISTED: Final = """
WITH named AS (
    SELECT workflow_id FROM ledger_entries WHERE place > $1 AND workflow_id IS NOT NULL
    UNION
    SELECT workflow_id FROM rounds WHERE ended_seq IS NULL
)
SELECT named.workflow_id, last.seq, last.leaf, last.place > $1 AS is_changed,
       EXISTS (
           SELECT FROM rounds
            WHERE rounds.workflow_id = named.workflow_id AND opening_seq <= last.seq
              AND (ended_seq IS NULL OR ended_seq > last.seq)
       ) AS is_open
  FROM named
 CROSS JOIN LATERAL (
       SELECT seq, leaf, place FROM ledger_entries
        WHERE workflow_id = named.workflow_id AND place < $2
        ORDER BY seq DESC LIMIT 1
  ) last
"""


class ListedHeads(NamedTuple):
    """The workflows with entries since the heads before, and the open ones; many are both."""

    changed: Sequence[Head]
    open: Sequence[Head]

    @property
    def all(self) -> list[Head]:
        """Each of them once."""
        return list({head.workflow_id: head for head in (*self.open, *self.changed)}.values())


async def listed_heads(connection: Connection, place: int) -> ListedHeads:
    """Return the heads that an entry at this place lists, or would list.

    The rows must hold all records that were entered before it.
    """
    before = await connection.fetchval(_HEADS_BEFORE, place)
    found = await connection.fetch(_LISTED, -1 if before is None else before, place)
    return ListedHeads(
        changed=[_head(row) for row in found if row["is_changed"]], open=[_head(row) for row in found if row["is_open"]]
    )


async def last_complete_ms(connection: Connection) -> int:
    """Return as of when the last heads are complete, in ms since 1970; 0 if there are none."""
    entry = await connection.fetchval(_LAST_HEADS)
    return 0 if entry is None else complete_until(orjson.loads(entry))


def _head(row: Found) -> Head:
    return Head(str(row["workflow_id"]), row["seq"], row["leaf"].hex())
