"""A ledger asks its witnesses: they cosign, and the ledger goes on without those that do not answer, but not against one."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from ledgers import KEYS, WITNESS_KEYS, NearWitness, enter_all, witness_in, write
from living import running
from tables import wipe

from builders import Told, exported, requested
from poweron_events import topics
from poweron_events.log.memory import MemoryLog
from poweron_events.task_cancellation import cancel_task
from poweron_projections.audit import ledger_role
from poweron_projections.audit.checkpoint import Checkpoint
from poweron_projections.audit.checkpoint_witness import CONFLICT, INCONSISTENT, Witness, WitnessState
from poweron_projections.audit.ledger_witnesses import LedgerWitnesses
from poweron_projections.audit.note_signatures import SigningKey, is_signed_by
from poweron_projections.audit.notes import ED25519_COSIGNATURE, SignedNote
from poweron_projections.audit.verifier.cosignatures import cosignatures_of
from poweron_projections.audit.witness_request import WitnessAnswer, WitnessRequest
from poweron_projections.connection import Pool

PUBLIC = [key.public for key in WITNESS_KEYS]


class DeadWitness(NearWitness):
    """A witness that never answers."""

    async def add_checkpoint(self, body: bytes) -> WitnessAnswer:
        return await asyncio.Event().wait()  # type: ignore[return-value] # it never returns


class OldWitness(NearWitness):
    """A witness by an older text of the protocol: it answers 409, without a size, to another root of the same size."""

    async def add_checkpoint(self, body: bytes) -> WitnessAnswer:
        answer = await super().add_checkpoint(body)
        is_of_same_size = (request := WitnessRequest.parse(body)).old_size == request.checkpoint.size
        return WitnessAnswer(CONFLICT, b"") if answer.status == INCONSISTENT and is_of_same_size else answer


async def _notes(log: MemoryLog) -> list[SignedNote]:
    ends = await log.ends(topics.CHECKPOINTS.name)
    batches = [batch async for batch in log.read(topics.CHECKPOINTS.name, {}, ends)]
    return [SignedNote.parse((record.value or b"").decode()) for batch in batches for record in batch]


async def _until_signed(log: MemoryLog, count: int) -> None:
    async with asyncio.timeout(20):
        while len(await _notes(log)) < count:  # noqa: ASYNC110 - as in `living`
            await asyncio.sleep(0.01)


@asynccontextmanager
async def _role(log: MemoryLog, pool: Pool, *witnesses: NearWitness) -> AsyncGenerator[None, None]:
    """The role, which signs exports at once, and a projector."""
    asked = LedgerWitnesses(witnesses, answer_within=0.5)
    async with running(log, pool):
        playing = asyncio.create_task(ledger_role.run(log, pool, KEYS, "1.0", witnesses=asked))
        try:
            yield
        finally:
            await cancel_task(playing)


async def test_each_checkpoint_is_cosigned_and_the_next_one_continues_it(
    log: MemoryLog, pool: Pool, tmp_path: Path
) -> None:
    witness = witness_in(tmp_path)
    for count in (1, 2):
        async with _role(log, pool, NearWitness(witness)):
            write(log, Told(f"workflow {count}").tell(requested(), exported()))
            await _until_signed(log, count)
    notes = await _notes(log)
    assert [{*cosignatures_of(note, PUBLIC, is_signed_by)} for note in notes] == [{*PUBLIC}] * len(notes)
    assert f"\n{witness.known_size(KEYS[0].name)}\n" in notes[-1].text


async def test_a_witness_that_does_not_answer_delays_no_entries_and_is_reported_once(
    log: MemoryLog, pool: Pool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dead, near = DeadWitness(witness_in(tmp_path), name="http://dead.example"), NearWitness(witness_in(tmp_path))
    async with _role(log, pool, dead, near):
        for count in (1, 2):
            write(log, Told(f"workflow {count}").tell(requested(), exported()))
            await _until_signed(log, count)
    silent = [line for line in caplog.records if line.message == "witness_silent"]
    assert [line.__dict__["witness"] for line in silent] == ["http://dead.example"]
    assert {*cosignatures_of((await _notes(log))[0], PUBLIC, is_signed_by)} == {*PUBLIC}


@pytest.mark.parametrize("rewritten", [[], ["uno"], ["uno", "two"], ["uno", "two", "three"]])
async def test_nothing_is_signed_once_a_witness_has_seen_more_or_something_else(
    log: MemoryLog, pool: Pool, tmp_path: Path, caplog: pytest.LogCaptureFixture, rewritten: list[str]
) -> None:
    witness = witness_in(tmp_path)
    write(log, Told("one").tell(requested(), exported()), Told("two").tell(requested(), exported()))
    await enter_all(log, pool, witness=witness)
    await wipe(pool)
    other = MemoryLog()
    if rewritten:
        write(other, *(Told(name).tell(requested(), exported()) for name in rewritten))
        await enter_all(other, pool)
    entered, signed = await other.ends(topics.LEDGER.name), await _notes(other)
    write(other, Told("more").tell(requested(), exported()))
    for kind in (NearWitness, OldWitness):
        caplog.clear()
        async with _role(other, pool, kind(witness)):
            await _until_alarm(caplog)
    assert (await other.ends(topics.LEDGER.name), await _notes(other)) == (entered, signed)


async def test_after_an_alarm_nothing_is_signed_at_the_end_either(
    log: MemoryLog, pool: Pool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    near = NearWitness(witness_in(tmp_path / "first"))
    async with _role(log, pool, near):
        write(log, Told("one").tell(requested(), exported()))
        await _until_signed(log, 1)
        near.witness = Witness(WITNESS_KEYS, near.witness.ledgers, WitnessState(tmp_path / "second"))
        near.witness.add_checkpoint(bytes(request_of_size(100)))
        write(log, Told("two").tell(requested(), exported()))
        await _until_alarm(caplog)
    assert len(await _notes(log)) == 1


def request_of_size(size: int) -> WitnessRequest:
    """A checkpoint that the ledger's key has signed for somebody else."""
    text = str(Checkpoint(KEYS[0].name, size, bytes(32)))
    return WitnessRequest(0, [], SignedNote(text, [KEYS[0].sign(text)]))


async def _until_alarm(caplog: pytest.LogCaptureFixture) -> None:
    async with asyncio.timeout(20):
        while not any(line.message == "ledger_alarm" for line in caplog.records):  # noqa: ASYNC110 - as in `living`
            await asyncio.sleep(0.01)


async def test_a_ledger_that_another_one_has_overtaken_raises_no_alarm(
    log: MemoryLog, pool: Pool, tmp_path: Path
) -> None:
    witness = witness_in(tmp_path)
    write(log, Told("one").tell(requested(), exported()))
    behind = await (await enter_all(log, pool, sign=False)).signed_tree(1)
    write(log, Told("two").tell(requested(), exported()))
    await enter_all(log, pool, witness=witness)
    assert await LedgerWitnesses([NearWitness(witness)]).cosigned(log, pool, behind) == behind


async def test_only_cosignatures_of_the_keys_in_the_policy_count(
    log: MemoryLog, pool: Pool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(log, Told("one").tell(requested(), exported()))
    note = await (await enter_all(log, pool, sign=False)).signed_tree(1)
    other = SigningKey("witness.example/w1", ED25519_COSIGNATURE, b"o" * 32).public
    stranger = NearWitness(witness_in(tmp_path), keys=[other])
    assert await LedgerWitnesses([stranger]).cosigned(log, pool, note) == note
    assert "other keys" in caplog.records[-1].__dict__["error"]
