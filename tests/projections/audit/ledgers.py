"""A ledger for tests: its keys, its witness, and how it enters what a log in memory holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from builders import Told
from poweron_events import topics
from poweron_events.log.memory import MemoryLog
from poweron_projections.audit.checkpoint_witness import Witness, WitnessState
from poweron_projections.audit.ledger import Ledger
from poweron_projections.audit.ledger_witnesses import LedgerWitnesses
from poweron_projections.audit.note_signatures import SigningKey
from poweron_projections.audit.notes import ED25519, ED25519_COSIGNATURE, ML_DSA_44_COSIGNATURE, VerifierKey
from poweron_projections.audit.witness_request import WitnessAnswer
from poweron_projections.connection import Pool
from poweron_projections.verify import catch_up

KEYS = [SigningKey("localhost/poweron/test", kind, bytes(32)) for kind in (ED25519, ML_DSA_44_COSIGNATURE)]
WITNESS_KEYS = [
    SigningKey("witness.example/w1", kind, b"w" * 32) for kind in (ED25519_COSIGNATURE, ML_DSA_44_COSIGNATURE)
]
NOW_MS = 1_790_000_000_000


def witness_in(folder: Path) -> Witness:
    """A witness that knows the ledger, with its state in this folder."""
    return Witness(WITNESS_KEYS, [KEYS[0].public], WitnessState(folder), lambda: NOW_MS / 1000)


@dataclass
class NearWitness:
    """A witness that is asked without HTTP."""

    witness: Witness
    name: str = "http://witness.example"
    keys: Sequence[VerifierKey] = tuple(key.public for key in WITNESS_KEYS)

    async def add_checkpoint(self, body: bytes) -> WitnessAnswer:
        return self.witness.add_checkpoint(body)


async def enter_all(
    log: MemoryLog, pool: Pool, *, sign: bool = True, witness: Witness | None = None, now_ms: int = NOW_MS
) -> Ledger:
    """Let a ledger enter and sign what is in the log, as after a restart; `witness` cosigns it."""
    await catch_up(log, pool)
    ledger = await Ledger.load(log, pool, KEYS)
    async for records in log.read(topics.EVENTS.name, ledger.positions, await log.ends(topics.EVENTS.name)):
        await ledger.enter(records)
    if sign:
        note = await ledger.signed_tree(now_ms)
        await catch_up(log, pool)
        asked = LedgerWitnesses([NearWitness(witness)] if witness is not None else [])
        await ledger.publish(await asked.cosigned(log, pool, note))
    await catch_up(log, pool)
    return ledger


def write(log: MemoryLog, *told: Told, time_ms: int | None = None) -> None:
    """Append what was told to the log, at a time of its own if it is given."""
    for message in (message for each in told for message in each.messages):
        log.write(topics.EVENTS.name, message.key, message.value, time_ms=time_ms)
