"""The role `ledger`: keeps the ledger, as the only process of its group that does so.

The process that holds the ledger's partition writes; after an error it begins where the topic ends. It signs nothing
that contradicts the last checkpoint or the log; work goes on without it meanwhile.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Final

from poweron_events import topics
from poweron_events.errors import Conflict, PowerOnError, Refused
from poweron_events.log import EventLog, Follower
from poweron_events.retry import Backoff
from poweron_events.task_cancellation import cancel_task
from poweron_projections.audit.ledger import TURN, Ledger, LedgerAlarm, signed_checkpoint
from poweron_projections.audit.ledger_check import check_ledger
from poweron_projections.audit.ledger_entry import epoch_entry, key_entry
from poweron_projections.audit.ledger_witnesses import LedgerWitnesses
from poweron_projections.audit.note_signatures import SigningKey
from poweron_projections.audit.notes import SignedNote
from poweron_projections.connection import Pool

log = logging.getLogger(__name__)

GROUP: Final = "poweron.ledger"
POLL: Final = 0.2  # seconds
SIGN_AFTER: Final = 10.0  # seconds
SIGN_ENTRIES: Final = 1_000
GATHER: Final = 0.25  # seconds for which records gather before they are entered: many at once cost far less
LOOK: Final = 0.5  # seconds between two looks whether it is time to sign
STABLE: Final = 10.0  # seconds without an error after which pauses are short again
IDLE_SIGN: Final = 3_600.0  # seconds after which it signs again although nothing was entered
STOP_TIMEOUT: Final = 5.0  # seconds
ALARM_PERIOD: Final = 60.0  # seconds between two attempts after an alarm


async def run(
    event_log: EventLog,
    pool: Pool,
    keys: Sequence[SigningKey],
    release: str,
    *,
    retired: Sequence[Sequence[SigningKey]] = (),
    witnesses: LedgerWitnesses | None = None,
) -> None:
    """Keep the ledger whenever this process holds its partition, until cancelled; errors are retried.

    Args:
        event_log: the log, whose events are entered.
        pool: the rows, which say what was entered before.
        keys: sign the checkpoints; all have the name of the ledger.
        release: of this software, for the record.
        retired: the keys that signed before; if the last checkpoint is theirs, they announce the new ones.
        witnesses: cosign the checkpoints, if they answer in time.
    """
    asked = witnesses or LedgerWitnesses()
    begin = partial(_write, event_log, pool, (keys, *retired), release, asked)
    async with event_log.follow(topics.LEDGER.name, GROUP) as follower:
        writing: asyncio.Task[None] | None = None
        try:
            while True:
                held = await _held(follower, was=writing is not None)
                if held and writing is None:
                    writing = asyncio.create_task(_keep(begin))
                elif not held and writing is not None:
                    await cancel_task(writing, STOP_TIMEOUT)
                    writing = None
                elif writing is not None and writing.done():
                    writing.result()
        finally:
            if writing is not None:
                await cancel_task(writing, STOP_TIMEOUT)


async def _held(follower: Follower, *, was: bool) -> bool:
    """Poll once; return whether this process holds the partition."""
    try:
        polled = await follower.poll(POLL)
    except PowerOnError:
        await asyncio.sleep(POLL)
        return was
    return bool(polled.assigned) or (was and not polled.revoked)


async def _keep(write: Callable[[], Awaitable[None]]) -> None:
    """Write the ledger until cancelled; after an error begin again."""
    backoff, loop = Backoff(), asyncio.get_running_loop()
    while True:
        began = loop.time()
        try:
            await write()
        except Refused as error:
            log.error("ledger_alarm", extra={"error": str(error)})  # noqa: TRY400 - its frames tell nothing
            await asyncio.sleep(ALARM_PERIOD)
        except PowerOnError as error:
            backoff = backoff if loop.time() < began + STABLE else Backoff()
            pause = backoff.next()
            if not isinstance(error, Conflict):
                log.warning("ledger_retried", extra={"error": str(error), "pause": pause})
            await asyncio.sleep(pause)


async def _write(
    event_log: EventLog,
    pool: Pool,
    keys: Sequence[Sequence[SigningKey]],
    release: str,
    witnesses: LedgerWitnesses,
) -> None:
    ledger = await begun_ledger(event_log, pool, keys, release, witnesses)
    writer = _Writer(ledger, witnesses)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(writer.enter_all())
            group.create_task(writer.sign_in_time())
            group.create_task(writer.publish_cosigned())
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from errors


async def begun_ledger(
    event_log: EventLog,
    pool: Pool,
    keys: Sequence[Sequence[SigningKey]],
    release: str,
    witnesses: LedgerWitnesses | None = None,
) -> Ledger:
    """Return a ledger that continues what was signed, and that has entered who writes it from now on.

    The first of these keys sign; one of them must have signed the last checkpoint. If those were others, they sign the
    entry that announces the new ones: who trusts them learns the new ones from it. No witness may have seen more.

    Raises:
        LedgerAlarm: something was changed or lost.
        Conflict: another ledger has written in the meantime.
        Unavailable: the log or Postgres cannot be reached.
    """
    ledger = await Ledger.load(event_log, pool, keys[0])
    publics = [[key.public for key in pair] for pair in keys]
    entries, known = (ledger.tree.size, ledger.tree.size), [key for pair in publics for key in pair]
    last = await check_ledger(event_log, pool, entries=entries, positions=ledger.positions, keys=known)
    signer = 0 if last is None else next(place for place, pair in enumerate(publics) if {*pair} & {*last.signers})
    if witnesses:
        seen = None if last is None else last.checkpoint
        await witnesses.cosigned(event_log, pool, signed_checkpoint(seen, keys[signer], _now_ms()))
    if last is None or signer:
        await ledger.append([key_entry([str(key) for key in publics[0]], time_ms=_now_ms())])
    if signer:
        note = await ledger.signed_tree(_now_ms(), keys[signer])
        await ledger.publish(await witnesses.cosigned(event_log, pool, note) if witnesses else note)
    size = 0 if last is None else last.checkpoint.size
    await ledger.append([epoch_entry(code=release, last=size, time_ms=_now_ms())])
    return ledger


class _Writer:
    """Enters what arrives, and signs in time; only one of both at once."""

    def __init__(self, ledger: Ledger, witnesses: LedgerWitnesses) -> None:
        self._ledger, self._witnesses = ledger, witnesses
        self._signed: asyncio.Queue[SignedNote] = asyncio.Queue()  # checkpoints that are not published yet
        self._lock = asyncio.Lock()
        self._is_whole = True  # false while the ledger may be ahead of its topic, and after an alarm
        self._signed_at = asyncio.get_running_loop().time() - SIGN_AFTER  # what was entered before is signed soon

    async def enter_all(self) -> None:
        ledger = self._ledger
        try:
            async with aclosing(ledger.log.tail(topics.EVENTS.name, ledger.positions)) as tail:
                async for records in tail:
                    async with self._lock:
                        self._is_whole = False
                        await ledger.enter(records)
                        self._is_whole = True
                        if ledger.is_export_entered or ledger.tree.size - ledger.signed >= SIGN_ENTRIES:
                            await self._sign()
                    if len(records) < TURN:  # more are ready after a standstill
                        await asyncio.sleep(GATHER)
        except asyncio.CancelledError:
            if self._is_whole and ledger.has_new_entries:
                with suppress(PowerOnError):
                    await self._sign()
                    await self._publish_all()
            raise

    async def sign_in_time(self) -> None:
        while True:
            await asyncio.sleep(LOOK)
            async with self._lock:
                await self._ledger.complete_until(_now_ms())
            since = asyncio.get_running_loop().time() - self._signed_at
            if since >= (SIGN_AFTER if self._ledger.has_new_entries else IDLE_SIGN):
                async with self._lock:
                    await self._sign()

    async def publish_cosigned(self) -> None:
        """Publish each checkpoint once the witnesses have answered; entries do not wait for that.

        If several wait, witnesses see the newest only, as it proves the others.
        """
        while True:
            note = await self._signed.get()
            while not self._signed.empty():
                await self._ledger.publish(note)
                note = self._signed.get_nowait()
            try:
                cosigned = await self._witnesses.cosigned(self._ledger.log, self._ledger.pool, note)
            except asyncio.CancelledError:
                with suppress(PowerOnError):
                    await self._ledger.publish(note)
                raise
            except LedgerAlarm:
                self._is_whole = False  # nothing is signed any more, also not at the end
                raise
            await self._ledger.publish(cosigned)

    async def _sign(self) -> None:
        self._is_whole = False
        note = await self._ledger.signed_tree(_now_ms())
        if self._witnesses:
            self._signed.put_nowait(note)
        else:
            await self._ledger.publish(note)
        self._is_whole = True
        self._signed_at = asyncio.get_running_loop().time()

    async def _publish_all(self) -> None:
        """Publish what waits for witnesses, without them: at the end there is no time to wait."""
        while not self._signed.empty():
            await self._ledger.publish(self._signed.get_nowait())


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
