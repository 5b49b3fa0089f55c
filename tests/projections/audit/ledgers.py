"""A ledger for tests: its keys, and how it enters what a log in memory holds."""

from builders import Told
from poweron_events import topics
from poweron_events.log.memory import MemoryLog
from poweron_projections.audit.ledger import Ledger
from poweron_projections.audit.note_signatures import SigningKey
from poweron_projections.audit.notes import ED25519, ML_DSA_44_COSIGNATURE
from poweron_projections.connection import Pool
from poweron_projections.verify import catch_up

KEYS = [SigningKey("localhost/poweron/test", kind, bytes(32)) for kind in (ED25519, ML_DSA_44_COSIGNATURE)]
NOW_MS = 1_790_000_000_000


async def enter_all(log: MemoryLog, pool: Pool, *, sign: bool = True, now_ms: int = NOW_MS) -> Ledger:
    """Let a ledger enter and sign what is in the log, as after a restart."""
    await catch_up(log, pool)
    ledger = await Ledger.load(log, pool, KEYS)
    async for records in log.read(topics.EVENTS.name, ledger.positions, await log.ends(topics.EVENTS.name)):
        await ledger.enter(records)
    if sign:
        await ledger.sign(now_ms)
    await catch_up(log, pool)
    return ledger


def write(log: MemoryLog, *told: Told) -> None:
    """Append what was told to the log."""
    for message in (message for each in told for message in each.messages):
        log.write(topics.EVENTS.name, message.key, message.value)
