"""The verification of everything finds what was changed, wherever that was: in the log, the ledger or the rows."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from forger import edited
from histories import histories
from hypothesis import HealthCheck, given, settings
from ledgers import KEYS, NOW_MS, WITNESS_KEYS, enter_all, witness_in, write
from tables import wipe

from builders import (
    Told,
    cancellation,
    completed,
    document,
    follow_up,
    identity,
    planned,
    requested,
    reviewed,
    step,
    typical,
)
from poweron_events import topics
from poweron_events.actor import Actor
from poweron_events.archive_events import ContentErased
from poweron_events.content import ContentStore
from poweron_events.content_place import ContentFolder
from poweron_events.errors import Unavailable
from poweron_events.log import Message, Record
from poweron_events.log.memory import MemoryLog
from poweron_events.round_events import RoundCancelled, Totals
from poweron_projections.audit.full_verification import FullVerification, verify_everything
from poweron_projections.audit.ledger_entry import key_entry
from poweron_projections.audit.ledger_role import begun_ledger
from poweron_projections.audit.note_signatures import SigningKey, is_signed_by
from poweron_projections.audit.notes import ED25519_COSIGNATURE, SignedNote
from poweron_projections.audit.verifier.bundle_claims import Trust
from poweron_projections.connection import Pool, acquire
from poweron_projections.verify import catch_up, first_difference
from poweron_services.client.content_claim import wrong_contents

VKEY = KEYS[0].public
OTHERS = [SigningKey(key.name, key.algorithm, b"x" * 32) for key in KEYS]
WITNESS = SigningKey("witness.example/w", ED25519_COSIGNATURE, b"w" * 32)
ROUNDS = Told("rounds").tell(requested("rounds"), planned(), *step(1), reviewed(), completed())
ROUNDS.tell(follow_up(2, "2"), planned(1, 2))


async def verified(log: MemoryLog, pool: Pool, **trust: Any) -> FullVerification:
    given = Trust(**{"key": VKEY, "now_s": lambda: NOW_MS / 1000 + 60, **trust})
    return await verify_everything(log, given, partial(first_difference, log, pool))


async def failed(log: MemoryLog, pool: Pool, **trust: Any) -> set[str]:
    """The claims that do not hold."""
    verification = await verified(log, pool, **trust)
    found = {claim.id for claim in verification.claims if claim.status == "fail"}
    assert verification.is_ok == (not found)
    return found


@pytest.fixture
async def ledger(log: MemoryLog, pool: Pool) -> MemoryLog:
    """The log of a ledger that was signed twice."""
    write(log, typical("1"))
    await enter_all(log, pool)
    write(log, ROUNDS, typical("other"))
    await enter_all(log, pool)
    return log


def partition(log: MemoryLog, topic: str, holding: bytes = b"") -> list[Record]:
    """The records of the first partition in which one contains these bytes."""
    return next(records for records in log._topics[topic] if any(holding in (each.value or b"") for each in records))


def replaced(records: list[Record], place: int, value: bytes) -> None:
    records[place] = records[place]._replace(value=value)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(first=histories(), second=histories())
async def test_what_a_ledger_writes_holds(pool: Pool, first: list[Message], second: list[Message]) -> None:
    await wipe(pool)
    log = MemoryLog()
    for part in (first, second):
        for message in part:
            log.write(topics.EVENTS.name, message.key, message.value)
        await enter_all(log, pool)
    verification = await verified(log, pool)
    assert {claim.id: claim.detail for claim in verification.claims if claim.status == "fail"} == {}
    assert verification.size == len(partition(log, topics.LEDGER.name))


async def test_everything_has_these_claims(ledger: MemoryLog, pool: Pool) -> None:
    verification = await verified(ledger, pool)
    assert [(claim.id, claim.status) for claim in verification.claims] == [
        *((name, "ok") for name in ("V2", "V3", "V4", "V5", "V6")),
        ("V7", "not_checked"),
        ("V8", "ok"),
        ("V9", "not_checked"),
        ("V10", "not_checked"),
        *((name, "ok") for name in ("V11", "V12", "V13")),
        ("V14", "not_checked"),
    ]
    assert (verification.events, verification.origin) == (
        len([*typical("1").values, *ROUNDS.values, *typical("other").values]),
        VKEY.name,
    )
    assert await failed(ledger, pool, max_age_s=60) == set()
    assert await failed(ledger, pool, max_age_s=59) == {"V14"}
    assert await failed(ledger, pool, witnesses=[WITNESS.public], is_made_with=is_signed_by) == {"V7"}
    notes = partition(ledger, topics.CHECKPOINTS.name)
    signed = SignedNote.parse((notes[-1].value or b"").decode())
    cosigned = signed._replace(signatures=[*signed.signatures, WITNESS.sign(signed.text, NOW_MS // 1000)])
    replaced(notes, -1, str(cosigned).encode())
    assert "V7" not in await failed(ledger, pool, witnesses=[WITNESS.public], is_made_with=is_signed_by)


async def test_a_changed_record_is_found(ledger: MemoryLog, pool: Pool) -> None:
    records = partition(ledger, topics.EVENTS.name)
    replaced(records, 2, edited(records[2].value or b"", source="/poweron/forger/1"))
    assert "V3" in await failed(ledger, pool)


async def test_a_record_that_is_not_entered_is_found(log: MemoryLog, pool: Pool) -> None:
    write(log, typical("1"))
    await enter_all(log, pool)
    entries, (_, genuine) = partition(log, topics.LEDGER.name), partition(log, topics.EVENTS.name)[:2]
    assert orjson.loads(entries[1].value or b"")["off"] == genuine.offset
    del entries[1]
    for place, entry in enumerate(entries):
        entries[place] = entry._replace(offset=place)
    assert {"V4", "V5"} <= await failed(log, pool)


Change = Callable[[dict[str, Any]], dict[str, Any]]


@pytest.mark.parametrize(
    ("change", "claims"),
    [
        (lambda entry: entry | {"verdict": "superseded"}, {"V5", "V12"}),
        (lambda entry: entry | {"prev": "0" * 64}, {"V4", "V5"}),
        (lambda entry: entry | {"len": 1}, {"V3", "V5"}),
        (lambda entry: entry | {"note": "forged"}, {"V3", "V5"}),
        (lambda entry: entry | {"type": "poweron.forged.v1"}, {"V3", "V5"}),
    ],
)
async def test_a_changed_entry_is_found(ledger: MemoryLog, pool: Pool, change: Change, claims: set[str]) -> None:
    entries = partition(ledger, topics.LEDGER.name)
    place = next(number for number, each in enumerate(entries) if b'"seq":2' in (each.value or b""))
    replaced(
        entries, place, orjson.dumps(change(orjson.loads(entries[place].value or b"")), option=orjson.OPT_SORT_KEYS)
    )
    assert claims <= await failed(ledger, pool)


async def test_a_history_that_was_written_again_is_found_by_an_older_checkpoint_or_a_witness(
    log: MemoryLog, pool: Pool, tmp_path: Path
) -> None:
    write(log, typical("1"), ROUNDS)
    await enter_all(log, pool)
    kept = SignedNote.parse((partition(log, topics.CHECKPOINTS.name)[0].value or b"").decode())
    assert await failed(log, pool, checkpoints=[kept]) == set()
    await wipe(pool)
    other = MemoryLog()
    write(other, typical("1"))
    await enter_all(other, pool)
    assert await failed(other, pool) == set()
    assert await failed(other, pool, checkpoints=[kept]) == {"V9"}
    assert await failed(other, pool, witnesses=[WITNESS_KEYS[0].public]) == {"V7"}
    await enter_all(other, pool, witness=witness_in(tmp_path))
    assert await failed(other, pool, witnesses=[WITNESS_KEYS[0].public]) == set()


async def test_heads_that_leave_a_workflow_out_are_found(ledger: MemoryLog, pool: Pool) -> None:
    entries = partition(ledger, topics.LEDGER.name)
    value = orjson.loads(entries[-1].value or b"")
    replaced(entries, -1, orjson.dumps(value | {"open": value["open"] - 1}, option=orjson.OPT_SORT_KEYS))
    assert {"V5", "V8"} <= await failed(ledger, pool)


async def test_changed_rows_are_found(ledger: MemoryLog, pool: Pool) -> None:
    async with acquire(pool) as connection:
        await connection.execute("UPDATE rounds SET prompt = 'Another one.'")
    assert await failed(ledger, pool) == {"V13"}


class _Contents(ContentStore):
    """Documents of a cancelled workflow, of which some are exchanged; something may happen before one is read."""

    def __init__(self, folder: Path, log: MemoryLog, pool: Pool) -> None:
        super().__init__(ContentFolder(folder))
        self.log, self.pool, self.told = log, pool, Told("1")
        self.exchanged: dict[str, bytes] = {}
        self.before_read: Callable[[], Awaitable[None]] | None = None

    async def get(self, workflow_id: str, name: str) -> bytes:
        before, self.before_read = self.before_read, None
        if before is not None:
            await before()
        return self.exchanged.get(name) or await super().get(workflow_id, name)

    async def write(self, *contents: bytes) -> Sequence[str]:
        """Store documents, and write the events that name them."""
        names = await self.put_all(self.told.id, contents)
        named = zip(names, contents, strict=True)
        documents = tuple(document(document_id=name[:9], content=name, size=len(data)) for name, data in named)
        self.told.tell(requested("1", documents=documents), cancellation())
        write(self.log, self.told.tell(RoundCancelled(round=1, message="", totals=Totals())))
        await enter_all(self.log, self.pool)
        return names

    async def say_erased(self, *names: str) -> None:
        """Write the event that these contents, or all of them, are erased."""
        by: dict[str, Any] = {"actor": Actor(id="ada"), "request": identity("erase")}
        event = ContentErased(documents=tuple(name[:9] for name in names), contents=names, **by)
        (message,) = self.told.tell(event).messages[-1:]
        self.log.write(topics.EVENTS.name, message.key, message.value)
        await enter_all(self.log, self.pool)

    async def v10(self) -> tuple[str, str]:
        """Status and detail of the claim about contents."""
        compare_rows = partial(first_difference, self.log, self.pool)
        trust, check = Trust(VKEY, now_s=lambda: NOW_MS / 1000 + 60), partial(wrong_contents, self.pool, self)
        verification = await verify_everything(self.log, trust, compare_rows, check_contents=check)
        status = {claim.id: claim.status for claim in verification.claims}
        (claim,) = (claim for claim in verification.claims if claim.id == "V10")
        assert verification.is_ok == (status["V10"] == status["V13"] == "ok")
        return claim.status, claim.detail


@pytest.fixture
def contents(log: MemoryLog, pool: Pool, tmp_path: Path) -> _Contents:
    return _Contents(tmp_path, log, pool)


async def test_a_content_that_was_exchanged_or_lost_is_found(contents: _Contents) -> None:
    exchanged, lost, _ = await contents.write(b"exchanged", b"lost", b"kept")
    assert await contents.v10() == ("ok", "")
    contents.exchanged = {exchanged: b"EXCHANGED"}
    where = f"workflow {contents.told.id}: the content"
    assert await contents.v10() == ("fail", f"{where} {exchanged} is another one than its event says")
    contents.exchanged = {}
    await contents.erase(contents.told.id, [lost])
    why = f"{where} {lost} is missing, and no event says that it was erased"
    assert await contents.v10() == ("fail", why)
    await contents.say_erased(exchanged)
    assert await contents.v10() == ("fail", why)
    await contents.say_erased(lost)
    assert await contents.v10() == ("ok", "")
    contents.exchanged = {exchanged: b"EXCHANGED"}  # it was not removed
    assert (await contents.v10())[0] == "fail"


async def test_what_is_erased_while_contents_are_read_is_not_missing(contents: _Contents) -> None:
    await contents.write(b"1", b"2")

    async def erase_all() -> None:
        await contents.say_erased()
        await contents.erase(contents.told.id)

    contents.before_read = erase_all
    assert await contents.v10() == ("ok", "")
    assert contents.before_read is None


async def test_contents_are_not_compared_with_changed_rows(contents: _Contents, pool: Pool) -> None:
    await contents.write(b"1")
    await contents.erase(contents.told.id)
    async with acquire(pool) as connection:
        await connection.execute("UPDATE rounds SET prompt = 'Another one.'")
    assert await contents.v10() == ("not_checked", "V13 does not hold")


async def test_a_store_that_fails_hides_no_other_claim(contents: _Contents) -> None:
    await contents.write(b"1")

    async def fail() -> None:
        raise Unavailable("The store does not answer")

    contents.before_read = fail
    assert await contents.v10() == ("fail", "not all contents could be read: The store does not answer")


async def test_only_a_key_counts_that_the_key_of_the_auditor_announced(log: MemoryLog, pool: Pool) -> None:
    write(log, typical("1"))
    await catch_up(log, pool)
    await (await begun_ledger(log, pool, [KEYS], "1.0")).sign(NOW_MS)
    await catch_up(log, pool)
    await (await begun_ledger(log, pool, [OTHERS, KEYS], "1.0")).sign(NOW_MS)
    for key in (KEYS[0], OTHERS[0]):
        assert await failed(log, pool, key=key.public) == set()
    stranger = SigningKey(VKEY.name, VKEY.algorithm, b"s" * 32)
    assert await failed(log, pool, key=stranger.public) == {"V6"}
    notes = partition(log, topics.CHECKPOINTS.name)
    text = SignedNote.parse((notes[-1].value or b"").decode()).text
    replaced(notes, -1, str(SignedNote(text, [stranger.sign(text)])).encode())
    assert await failed(log, pool) == {"V6", "V13"}


async def test_what_others_write_between_is_skipped(ledger: MemoryLog, pool: Pool) -> None:
    ledger.write(topics.LEDGER.name, b"ledger", b"no entry")
    ledger.write(topics.LEDGER.name, b"ledger", key_entry(["no key"], time_ms=NOW_MS))
    stale = edited(partition(ledger, topics.LEDGER.name, b'"heads"')[-3].value or b"", size=1)
    ledger.write(topics.LEDGER.name, b"ledger", stale)
    await enter_all(ledger, pool)
    verification = await verified(ledger, pool)
    assert (verification.is_ok, verification.foreign) == (True, 2)
