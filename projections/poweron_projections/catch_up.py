"""Catching up: the rows brought to an end of the log that was seen, for whoever is to read what the log said then."""

from collections.abc import Mapping
from functools import partial

from poweron_events import topics
from poweron_events.log import EventLog
from poweron_projections.connection import Pool
from poweron_projections.rebuild import rebuild
from poweron_projections.row_writer import RowWriter


async def catch_up(log: EventLog, pool: Pool, ends: Mapping[int, int] | None = None) -> None:
    """Bring the rows to these ends of `poweron.events`, by default those seen now, and to all dead letters.

    A living projector is waited for as long as it moves; where nobody projects, this does. Tables of an older
    release are rebuilt first.

    Raises:
        Unavailable: the log or Postgres cannot be reached.
        Conflict: nobody gets on: rows are there that the offsets do not know of; a rebuild mends that.
    """
    events, dead_letters = topics.EVENTS.name, topics.DEAD_LETTERS.name
    renew = partial(rebuild, log, pool)
    await RowWriter(log, pool, events, renew=renew).catch_up(await log.ends(events) if ends is None else ends)
    await RowWriter(log, pool, dead_letters, renew=renew).catch_up(await log.ends(dead_letters))
