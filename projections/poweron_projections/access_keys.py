"""The keys of the door over HTTP: whose they are, what they may do, and until when.

They do not follow from the log, so they have a schema of their own, which no rebuild and no comparison touches. A key
is stored as its SHA-256 only. The same schema holds the key with which doors seal requests for intake.
"""

import hashlib
import re
import secrets
import time
from collections.abc import Sequence
from typing import Annotated, Final, Literal, NamedTuple, get_args

from pydantic import Field

from poweron_events.actor import Actor, ActorKind
from poweron_events.envelope import rfc3339_of
from poweron_events.errors import Conflict, Refused
from poweron_events.event import Model
from poweron_projections.connection import LIVE, Connection, Found, Pool, acquire, schema_of

AccessScope = Literal["read", "content", "request", "approve", "operate", "audit"]
SCOPES: Final[tuple[AccessScope, ...]] = get_args(AccessScope)
KEY: Final = re.compile(r"poweron_[A-Za-z0-9_-]{43}")
KEY_ID: Final = re.compile(r"[0-9a-f]{16}")
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
MAX_LIFE_MS: Final = 3_650 * 86_400_000

LOCK: Final = 5_796_104_319  # any number that no other lock uses
_TABLES: Final = """
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE IF NOT EXISTS {schema}.keys (
  id text PRIMARY KEY,
  name text NOT NULL,
  actor text NOT NULL,
  kind text NOT NULL,
  roles text[] NOT NULL,
  scopes text[] NOT NULL,
  sha256 bytea NOT NULL UNIQUE,
  created_ms bigint NOT NULL,
  created_by text NOT NULL,
  expires_ms bigint NOT NULL,
  revoked_ms bigint,
  revoked_by text
);
CREATE UNIQUE INDEX IF NOT EXISTS names_in_use ON {schema}.keys (name) WHERE revoked_ms IS NULL;
CREATE TABLE IF NOT EXISTS {schema}.seal (
  only_one boolean PRIMARY KEY DEFAULT TRUE CHECK (only_one),
  key bytea NOT NULL
);
"""
_ADD_SEAL: Final = "INSERT INTO {schema}.seal (key) VALUES ($1) ON CONFLICT DO NOTHING"
_ADD: Final = """
INSERT INTO {schema}.keys (id, name, actor, kind, roles, scopes, sha256, created_ms, created_by, expires_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (name) WHERE revoked_ms IS NULL DO NOTHING
RETURNING *
"""
_REVOKE: Final = """
UPDATE {schema}.keys SET revoked_ms = $2, revoked_by = $3
 WHERE (id = $1 OR name = $1) AND revoked_ms IS NULL
RETURNING *
"""
_ALL: Final = "SELECT * FROM {schema}.keys ORDER BY created_ms DESC, id"
_BY_PLACE: Final = "SELECT keys.*, seal.key AS seal FROM {schema}.keys, {schema}.seal WHERE sha256 = $1 OR id = $2"
_SEAL: Final = "SELECT key FROM {schema}.seal"
_EXISTS: Final = "SELECT to_regclass($1) IS NOT NULL"


class AccessKey(Model):
    """A key without the key itself."""

    key_id: str
    name: str
    actor: str
    kind: ActorKind
    roles: tuple[str, ...]
    scopes: tuple[AccessScope, ...]
    created: str
    created_by: str
    expires: str
    revoked: str | None
    revoked_by: str | None
    expires_ms: Annotated[int, Field(exclude=True)]
    sha256: Annotated[bytes, Field(exclude=True, repr=False)]

    def state(self, now_ms: int) -> Literal["valid", "expired", "revoked"]:
        """Return whether the key can be used now."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if now_ms >= self.expires_ms else "valid"


class FoundKey(NamedTuple):
    """A key, and the key with which the door seals the requests of its actor."""

    key: AccessKey
    seal: bytes


def digest(key: str) -> bytes:
    """Return the SHA-256 of a key, which is all that is stored of it."""
    return hashlib.sha256(key.encode()).digest()


def now_ms() -> int:
    """Return the time by which keys expire."""
    return time.time_ns() // 1_000_000


async def add_key(
    pool: Pool, name: str, actor: Actor, *, scopes: Sequence[AccessScope], life_ms: int, created_by: str
) -> tuple[AccessKey, str]:
    """Create a key and return it with the key itself, which cannot be read again.

    Raises:
        Refused: the name cannot be used, or Postgres denies it.
        Conflict: a key that is not revoked has the name.
        Unavailable: Postgres cannot be reached.
    """
    check_key(name, life_ms)
    key, created = f"poweron_{secrets.token_urlsafe(32)}", now_ms()
    async with acquire(pool) as connection, connection.transaction():
        schema = await _create(connection)
        row = await connection.fetchrow(
            _ADD.format(schema=schema),
            secrets.token_hex(8),
            name,
            actor.id,
            actor.kind,
            list(dict.fromkeys(actor.roles)),
            [scope for scope in SCOPES if scope in scopes],
            digest(key),
            created,
            created_by,
            created + life_ms,
        )
    if row is None:
        raise Conflict(f"there is a key {name!r} already; choose another name, or revoke it with `poweron keys revoke`")
    return _key(row), key


def check_key(name: str, life_ms: int) -> None:
    """Raise Refused if no key can have this name or be valid for this long."""
    if not NAME.fullmatch(name) or KEY_ID.fullmatch(name):
        raise Refused(
            f"{name[:200]!r} cannot name a key: a name has up to 100 letters, digits, `.`, `_` and `-`, begins with a "
            "letter or digit, and does not look like the id of a key"
        )
    if not 0 < life_ms <= MAX_LIFE_MS:
        raise Refused("a key is valid for at most 3650 days")


async def revoke_key(pool: Pool, name_or_id: str, *, revoked_by: str) -> AccessKey:
    """Revoke a key by its name or id.

    Raises:
        Refused: there is no such key, it is revoked already, or Postgres denies it.
        Unavailable: Postgres cannot be reached.
    """
    async with acquire(pool) as connection:
        schema = await existing_schema(connection, "seal")
        row = schema and await connection.fetchrow(_REVOKE.format(schema=schema), name_or_id, now_ms(), revoked_by)
    if not row:
        raise Refused(
            f"no key that is not revoked has the name or id {name_or_id[:200]!r}; `poweron keys list` lists all"
        )
    return _key(row)


async def all_keys(pool: Pool) -> list[AccessKey]:
    """Return all keys, newest first, including revoked ones.

    Raises:
        Unavailable: Postgres cannot be reached.
    """
    async with acquire(pool) as connection:
        schema = await existing_schema(connection, "seal")
        return [_key(row) for row in await connection.fetch(_ALL.format(schema=schema))] if schema else []


async def find_key(pool: Pool, *, sha256: bytes = b"", key_id: str = "") -> FoundKey | None:
    """Return the key with this SHA-256, or else with this id; None if there is none.

    Raises:
        Unavailable: Postgres cannot be reached.
    """
    async with acquire(pool) as connection:
        schema = await existing_schema(connection, "seal")
        row = schema and await connection.fetchrow(_BY_PLACE.format(schema=schema), sha256, key_id)
    return FoundKey(_key(row), row["seal"]) if row else None


async def seal_key(pool: Pool) -> bytes | None:
    """Return the key with which doors seal requests; None while no key was ever added.

    Raises:
        Unavailable: Postgres cannot be reached.
    """
    async with acquire(pool) as connection:
        schema = await existing_schema(connection, "seal")
        key: bytes | None = await connection.fetchval(_SEAL.format(schema=schema)) if schema else None
        return key


async def _create(connection: Connection) -> str:
    """Create what is missing and return the schema; runs inside a transaction that the caller commits."""
    await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
    existing = await existing_schema(connection, "seal")
    if existing is not None:
        return existing
    schema = schema_beside(await schema_of(connection))
    await connection.execute(_TABLES.format(schema=schema))
    await connection.execute(_ADD_SEAL.format(schema=schema), secrets.token_bytes(32))
    return schema


async def existing_schema(connection: Connection, table: str) -> str | None:
    """Return the schema of the keys if it has this table; None if that was not created yet."""
    schema = schema_beside(await schema_of(connection))
    return schema if await connection.fetchval(_EXISTS, f"{schema}.{table}") else None


def schema_beside(live: str) -> str:
    """Return the schema of the keys beside this schema of the rows."""
    return "poweron_door" if live == LIVE else f"{live}_door"


def _key(row: Found) -> AccessKey:
    revoked = row["revoked_ms"]
    return AccessKey(
        key_id=row["id"],
        name=row["name"],
        actor=row["actor"],
        kind=row["kind"],
        roles=tuple(row["roles"]),
        scopes=tuple(scope for scope in SCOPES if scope in row["scopes"]),
        created=rfc3339_of(row["created_ms"]),
        created_by=row["created_by"],
        expires=rfc3339_of(row["expires_ms"]),
        revoked=None if revoked is None else rfc3339_of(revoked),
        revoked_by=row["revoked_by"],
        expires_ms=row["expires_ms"],
        sha256=row["sha256"],
    )
