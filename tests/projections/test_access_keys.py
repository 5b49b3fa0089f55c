"""The keys of the door on a real Postgres: added, found, revoked, and untouched by a rebuild."""

import asyncio
import hashlib

import asyncpg
import pytest
from database_roles import database_role, reader

from poweron_events.actor import Actor
from poweron_events.errors import Conflict, Refused, Unavailable
from poweron_events.log.memory import MemoryLog
from poweron_projections.access_keys import (
    KEY,
    AccessKey,
    add_key,
    all_keys,
    digest,
    find_key,
    now_ms,
    revoke_key,
    seal_key,
)
from poweron_projections.connection import Pool, acquire, connect, schema_of
from poweron_projections.rebuild import rebuild
from poweron_projections.verify import verify

pytestmark = pytest.mark.system

ADA = Actor(id="ada", roles=("officer", "officer"), via="http", verified=True)
DAY = 86_400_000


async def added(pool: Pool, name: str = "crm", life_ms: int = DAY) -> tuple[AccessKey, str]:
    return await add_key(pool, name, ADA, scopes=["approve", "read"], life_ms=life_ms, created_by="root")


async def stored(pool: Pool) -> str:
    """Everything that the schema of the keys holds, as text."""
    async with acquire(pool) as connection:
        schema = f"{await schema_of(connection)}_door"
        rows = [
            *await connection.fetch(f"SELECT * FROM {schema}.keys"),
            *await connection.fetch(f"TABLE {schema}.seal"),
        ]
        return repr([tuple(row.values()) for row in rows])


async def test_a_key_is_found_by_its_digest_and_by_its_id_but_is_not_stored(pool: Pool) -> None:
    key, text = await added(pool)
    assert KEY.fullmatch(text)
    assert (key.name, key.actor, key.kind, key.roles) == ("crm", "ada", "person", ("officer",))
    assert (key.scopes, key.created_by, key.state(now_ms())) == (("read", "approve"), "root", "valid")
    by_digest = await find_key(pool, sha256=hashlib.sha256(text.encode()).digest())
    assert by_digest is not None
    assert (by_digest.key, by_digest.seal) == (key, await seal_key(pool))
    assert await find_key(pool, key_id=key.key_id) == by_digest
    held = await stored(pool)
    assert text not in held
    assert text.removeprefix("poweron_") not in held
    assert "sha256" not in key.model_dump_json()


async def test_before_the_first_key_there_is_nothing_and_reading_creates_nothing(pool: Pool) -> None:
    assert await all_keys(pool) == []
    assert await find_key(pool, sha256=digest("poweron_x")) is None
    assert await seal_key(pool) is None
    with pytest.raises(Refused, match="no key that is not revoked has the name or id 'crm'"):
        await revoke_key(pool, "crm", revoked_by="root")
    async with acquire(pool) as connection:
        name = f"{await schema_of(connection)}_door"
        assert await connection.fetchval("SELECT to_regnamespace($1)", name) is None


async def test_a_name_is_in_use_until_its_key_is_revoked(pool: Pool) -> None:
    first, _ = await added(pool)
    with pytest.raises(Conflict, match="there is a key 'crm' already"):
        await added(pool)
    revoked = await revoke_key(pool, "crm", revoked_by="bob")
    assert (revoked.key_id, revoked.revoked_by, revoked.state(now_ms())) == (first.key_id, "bob", "revoked")
    second, _ = await added(pool)
    with pytest.raises(Refused, match="no key that is not revoked"):
        await revoke_key(pool, first.key_id, revoked_by="bob")
    assert (await revoke_key(pool, second.key_id, revoked_by="bob")).name == "crm"
    assert [key.key_id for key in await all_keys(pool)].count(second.key_id) == 1


async def test_a_key_expires_to_the_millisecond(pool: Pool) -> None:
    key, _ = await added(pool, life_ms=1)
    assert (key.state(key.expires_ms - 1), key.state(key.expires_ms)) == ("valid", "expired")


@pytest.mark.parametrize("name", ["", " ", "a b", "-a", ".a", "ä", "a\n", "a/b", "a|b", "x" * 101, "0123456789abcdef"])
async def test_a_name_that_could_be_mistaken_is_refused(pool: Pool, name: str) -> None:
    with pytest.raises(Refused, match="cannot name a key"):
        await added(pool, name)


@pytest.mark.parametrize("life_ms", [0, -1, 3_651 * DAY])
async def test_a_key_that_is_never_or_always_valid_is_refused(pool: Pool, life_ms: int) -> None:
    with pytest.raises(Refused, match="at most 3650 days"):
        await added(pool, life_ms=life_ms)


async def test_doors_that_add_the_first_keys_together_share_one_seal(pool: Pool) -> None:
    keys = await asyncio.gather(*(added(pool, f"key-{number}") for number in range(8)))
    found = await asyncio.gather(*(find_key(pool, sha256=digest(text)) for _, text in keys))
    assert {each.seal for each in found if each} == {await seal_key(pool)}
    assert len(await all_keys(pool)) == 8


async def test_neither_a_rebuild_nor_a_comparison_touches_the_keys(pool: Pool, log: MemoryLog) -> None:
    await added(pool)
    before = await stored(pool)
    await rebuild(log, pool)
    await rebuild(log, pool)
    assert not (await verify(log, pool)).differences
    assert await stored(pool) == before


async def test_the_role_for_dashboards_cannot_read_the_keys(dsn: str) -> None:
    async with connect(dsn) as pool, database_role(dsn) as role, reader(dsn, role) as connection:
        await added(pool)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.fetch("SELECT * FROM poweron_door.keys")


async def test_an_unavailable_postgres_says_so() -> None:
    async with connect("postgresql://nobody@127.0.0.1:1/nothing") as pool:
        with pytest.raises(Unavailable):
            await find_key(pool, key_id="0123456789abcdef")
