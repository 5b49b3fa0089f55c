"""Catching up: bringing the rows to given ends of the log, for readers that need everything up to there."""

from collections.abc import Mapping
from functools import partial

from poweron_events import topics
from poweron_events.log import EventLog
from poweron_projections.connection import Pool
from poweron_projections.rebuild import rebuild
from poweron_projections.row_writer import RowWriter


async def catch_up(log: EventLog, pool: Pool, ends: Mapping[int, int] | None = None) -> None:
    """Bring the rows to these ends of `poweron.events`, by default the current ones, and to all dead letters.

    Waits for a running projector for as long as it makes progress; if none is running, does the projection itself.
    Tables of an older release are rebuilt first.

    Raises:
        Unavailable: the log or Postgres cannot be reached.
        Conflict: there is no progress: the offsets do not account for some rows; a rebuild fixes that.
    """
    events, dead_letters = topics.EVENTS.name, topics.DEAD_LETTERS.name
    renew = partial(rebuild, log, pool)
    await RowWriter(log, pool, events, renew=renew).catch_up(await log.ends(events) if ends is None else ends)
    await RowWriter(log, pool, dead_letters, renew=renew).catch_up(await log.ends(dead_letters))
