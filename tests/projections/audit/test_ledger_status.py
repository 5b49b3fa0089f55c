"""What a ledger checks before it signs is what `audit status` shows, and a new key needs the word of the old one."""

from pathlib import Path

import pytest
from ledgers import KEYS, NOW_MS, WITNESS_KEYS, NearWitness, enter_all, witness_in, write
from tables import wipe

from builders import Told, requested, typical
from poweron_events import topics
from poweron_events.log.memory import MemoryLog
from poweron_projections.audit.checkpoint import Checkpoint
from poweron_projections.audit.ledger import Ledger, LedgerAlarm
from poweron_projections.audit.ledger_role import begun_ledger
from poweron_projections.audit.ledger_status import (
    LedgerStatus,
    StatusLimits,
    beyond,
    ledger_alarm,
    ledger_status,
    newest_checkpoint,
    witness_alarm,
)
from poweron_projections.audit.ledger_witnesses import LedgerWitnesses
from poweron_projections.audit.note_signatures import SigningKey, verified
from poweron_projections.audit.notes import ED25519_COSIGNATURE, SignedNote, VerifierKey
from poweron_projections.audit.tlog_policy import TlogPolicy
from poweron_projections.connection import Pool, acquire
from poweron_projections.verify import catch_up

OTHERS = [SigningKey(key.name, key.algorithm, b"x" * 32) for key in KEYS]
LIMITS = StatusLimits(lag_ms=60_000, checkpoint_age_seconds=7_200, witness_age_seconds=7_200)


def publics(*keys: SigningKey) -> list[VerifierKey]:
    return [key.public for key in keys]


async def begin(log: MemoryLog, pool: Pool, *keys: list[SigningKey]) -> Ledger:
    """A ledger that begins with these keys, once the rows have caught up."""
    await catch_up(log, pool)
    ledger = await begun_ledger(log, pool, keys, "1.0")
    await catch_up(log, pool)
    return ledger


async def last_note(pool: Pool) -> SignedNote:
    async with acquire(pool) as connection:
        note = await newest_checkpoint(connection)
    assert note is not None
    return SignedNote.parse(note)


async def test_the_status_says_how_far_the_ledger_is_beyond_the_rows_too(log: MemoryLog, pool: Pool) -> None:
    write(log, typical("1"))
    await enter_all(log, pool)
    write(log, Told("two").tell(requested("two")))
    (newest,) = [record for some in log._topics[topics.CHECKPOINTS.name] for record in some]
    status = await ledger_status(log, pool, newest.time_ms + 5_000)
    newest_record = max(
        (records[-1] for records in log._topics[topics.EVENTS.name] if records), key=lambda at: at.time_ms
    )
    records = len(typical("1").values)
    assert status.model_dump() == {
        "entries": records + 1,
        "lag_records": 1,
        "lag_ms": newest.time_ms + 5_000 - newest_record.time_ms,
        "checkpoint_size": records + 1,
        "checkpoint_age_seconds": 5,
        "witness_age_seconds": None,
        "quorum_met": None,
        "rejects": 0,
        "repeated": 0,
        "erased": 0,
        "projection_lag": 1,
        "last_verified": None,
    }


async def test_the_status_says_when_witnesses_have_cosigned(log: MemoryLog, pool: Pool) -> None:
    write(log, typical("1"))
    await enter_all(log, pool)
    witness = SigningKey("witness.example/w", ED25519_COSIGNATURE, b"w" * 32)
    policy = TlogPolicy.parse(f"witness one {witness.public}\nquorum one\n".encode())
    status = await ledger_status(log, pool, NOW_MS, policy=policy)
    assert (status.witness_age_seconds, status.quorum_met) == (None, False)
    note = await last_note(pool)
    cosigned = note._replace(signatures=[*note.signatures, witness.sign(note.text, NOW_MS // 1000)])
    log.write(topics.CHECKPOINTS.name, b"ledger", str(cosigned).encode())
    await catch_up(log, pool)
    status = await ledger_status(log, pool, NOW_MS + 9_000, policy=policy)
    assert (status.witness_age_seconds, status.quorum_met) == (9, True)


def test_values_beyond_their_limits_are_named() -> None:
    fine = LedgerStatus(
        entries=5,
        lag_records=1,
        lag_ms=60_000,
        checkpoint_size=4,
        checkpoint_age_seconds=7_200,
        witness_age_seconds=None,
        quorum_met=None,
        rejects=1,
        repeated=1,
        erased=0,
        projection_lag=9,
        last_verified=None,
    )
    assert beyond(fine, LIMITS) == []
    assert beyond(fine.model_copy(update={"lag_ms": 60_001}), LIMITS) == ["lagMs"]
    assert beyond(fine.model_copy(update={"checkpoint_age_seconds": 7_201}), LIMITS) == ["checkpointAgeSeconds"]
    assert beyond(fine.model_copy(update={"checkpoint_size": None}), LIMITS) == ["checkpointAgeSeconds"]
    assert beyond(fine.model_copy(update={"witness_age_seconds": 7_201}), LIMITS) == ["witnessAgeSeconds"]
    assert beyond(fine.model_copy(update={"quorum_met": False}), LIMITS) == ["quorumMet"]


async def test_the_status_says_when_witnesses_cosigned_last_and_whether_they_are_enough(
    log: MemoryLog, pool: Pool, tmp_path: Path
) -> None:
    witness = witness_in(tmp_path)
    stranger = SigningKey("w2", ED25519_COSIGNATURE, b"2" * 32)
    lines = f"witness a {WITNESS_KEYS[0].public}\nwitness b {stranger.public}\ngroup both all a b\nquorum "

    async def told(quorum: str) -> tuple[int | None, bool | None]:
        policy = TlogPolicy.parse(f"{lines}{quorum}\n".encode())
        status = await ledger_status(log, pool, NOW_MS + 5_000, policy=policy)
        return status.witness_age_seconds, status.quorum_met

    await enter_all(log, pool)
    assert (await told("a"), await told("none")) == ((None, False), (None, None))
    await enter_all(log, pool, witness=witness)
    await enter_all(log, pool)
    assert (await told("a"), await told("both")) == ((5, True), (5, False))


async def test_the_status_alarms_once_a_witness_has_seen_more(log: MemoryLog, pool: Pool, tmp_path: Path) -> None:
    witnesses = LedgerWitnesses([NearWitness(witness_in(tmp_path))])
    for events in ((), (Told("one").tell(requested()),)):
        write(log, *events)
        await enter_all(log, pool, sign=bool(events))
        assert await witness_alarm(log, pool, witnesses, KEYS, NOW_MS) is None
    await wipe(pool)
    other = MemoryLog()
    await catch_up(other, pool)
    assert "entries were lost" in str(await witness_alarm(other, pool, witnesses, KEYS, NOW_MS))
    assert await witness_alarm(other, pool, witnesses, [], NOW_MS) is None
    assert await witness_alarm(other, pool, LedgerWitnesses(), KEYS, NOW_MS) is None


async def test_once_the_log_or_the_ledger_was_changed_nothing_is_signed_and_the_status_alarms(
    log: MemoryLog, pool: Pool
) -> None:
    write(log, Told("one").tell(requested()))
    await enter_all(log, pool)
    assert await ledger_alarm(log, pool, publics(*KEYS)) is None
    await _expect_alarm(log, pool, "another key", OTHERS)
    changed = log._topics[topics.EVENTS.name]
    (partition,) = (number for number, records in enumerate(changed) if records)
    genuine = changed[partition][:]
    changed[partition][-1] = genuine[-1]._replace(value=b"{}")
    await _expect_alarm(log, pool, "is not the one that was entered")
    del changed[partition][-1]
    await _expect_alarm(log, pool, "records were lost")
    changed[partition][:] = genuine
    (entries,) = log._topics[topics.LEDGER.name]
    removed = entries.pop()
    await _expect_alarm(log, pool, "entries were removed")
    entries.append(removed)
    async with acquire(pool) as connection:
        await connection.execute("UPDATE ledger_entries SET leaf = $1 WHERE place = 0", bytes(32))
    await _expect_alarm(log, pool, "were removed or changed")


async def _expect_alarm(log: MemoryLog, pool: Pool, match: str, keys: list[SigningKey] = KEYS) -> None:
    with pytest.raises(LedgerAlarm, match=match):
        await begun_ledger(log, pool, [keys], "1.0")
    alarm = await ledger_alarm(log, pool, publics(*keys))
    assert match in str(alarm)


async def test_a_new_key_is_announced_under_the_old_one_and_then_signs(log: MemoryLog, pool: Pool) -> None:
    write(log, typical("1"))
    await (await begin(log, pool, KEYS)).sign(NOW_MS)
    await begin(log, pool, OTHERS, KEYS)
    announcement = await last_note(pool)
    assert {key.id for key, _ in verified(announcement, publics(*KEYS, *OTHERS))} == {key.public.id for key in KEYS}
    assert await ledger_alarm(log, pool) is None
    await (await begin(log, pool, OTHERS, KEYS)).sign(NOW_MS)
    await catch_up(log, pool)
    assert {key.id for key, _ in verified(await last_note(pool), publics(*OTHERS))} == {key.public.id for key in OTHERS}
    assert await ledger_alarm(log, pool, publics(*OTHERS)) is None
    await _expect_alarm(log, pool, "another key")
    size = Checkpoint.parse((await last_note(pool)).text).size
    await begin(log, pool, OTHERS)
    assert Checkpoint.parse((await last_note(pool)).text).size == size
