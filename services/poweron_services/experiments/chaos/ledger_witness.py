"""The witness of a run's ledger, in the process that injects the faults, and the check of both at the end."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from poweron_events.task_cancellation import cancel_task
from poweron_projections.audit.checkpoint_witness import Witness, WitnessState
from poweron_projections.audit.full_verification import verify_everything
from poweron_projections.audit.ledger_status import witness_alarm
from poweron_projections.audit.note_signatures import is_signed_by
from poweron_projections.audit.tlog_policy import TlogPolicy
from poweron_projections.audit.verifier.bundle_claims import Trust
from poweron_services.client.connect import Connections
from poweron_services.client.witness_client import witnesses_of
from poweron_services.settings.config import Settings
from poweron_services.settings.ledger_keys import ledger_keys
from poweron_services.wiring import now_ms
from poweron_services.witness.witness_keys import witness_keys
from poweron_services.witness.witness_server import listening_at, serve_witness

FOLDER: Final = "witness"
POLICY: Final = "witnesses.policy"


@dataclass(frozen=True, slots=True)
class ChaosWitness:
    """A witness, and the file that tells the ledgers where it is."""

    witness: Witness
    policy: Path


@asynccontextmanager
async def ledger_witness(home: Path) -> AsyncGenerator[ChaosWitness, None]:
    """Serve a witness of the ledger in this data directory while the block lasts."""
    folder, ledgers = home / FOLDER, [key.public for key in ledger_keys(Settings.model_construct(home=home))]
    witness = Witness(witness_keys(folder, None), ledgers, WitnessState(folder))
    sock = listening_at("127.0.0.1", 0)
    place = f"http://127.0.0.1:{sock.getsockname()[1]}"
    lines = [f"witness w{number} {key.public} {place}\n" for number, key in enumerate(witness.keys)]
    policy = home / POLICY
    policy.write_text(f"{''.join(lines)}group both all w0 w1\nquorum both\n", encoding="utf-8")
    serving = asyncio.create_task(serve_witness(witness, sock))
    try:
        yield ChaosWitness(witness, policy)
    finally:
        await cancel_task(serving)


async def wrong_claims(connections: Connections, beside: ChaosWitness) -> list[str]:
    """Verify the whole ledger, and ask its witness; return what is wrong, in sentences. The rows are left to others."""
    log, keys = connections.log.unguarded, ledger_keys(connections.settings)
    trust = replace(Trust(keys[0].public), is_made_with=is_signed_by)
    found = await verify_everything(log, trust, _unasked)
    wrong = [f"{claim.id}: {claim.detail}." for claim in found.claims if claim.status == "fail"]
    if not beside.witness.known_size(keys[0].name):
        wrong.append("The witness has cosigned nothing.")
    async with witnesses_of(TlogPolicy.parse(beside.policy.read_bytes())) as witnesses:
        alarm = await witness_alarm(log, connections.pool, witnesses, keys, now_ms())
    return [*wrong, *([str(alarm)] if alarm is not None else [])]


async def _unasked() -> str:
    return ""
