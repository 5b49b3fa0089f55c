"""The keys that a door has seen: read from Postgres, and again after a few seconds, so that a revocation takes effect.

While Postgres is unavailable, a key that was read within the last minutes remains valid.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from poweron_events.errors import Conflict, Refused, Unavailable
from poweron_events.request_seal import sealed
from poweron_events.task_cancellation import retrieve_error
from poweron_projections.access_keys import AccessKey, FoundKey, find_key
from poweron_projections.connection import Pool

FRESH_FOR: Final = 3.0  # seconds until a key is read again; a revocation takes effect within 5 s
KNOWN_FOR: Final = 600.0  # seconds for which a key is believed while Postgres is unavailable
READ_WITHIN: Final = 2.0  # seconds in which Postgres must answer
MOST: Final = 1_000  # keys


@dataclass(slots=True)
class _CachedKey:
    key: AccessKey
    read_at: float
    read_again_at: float


class KeyCache:
    """The keys by their SHA-256 in hex and by their id."""

    def __init__(self) -> None:
        self._keys: OrderedDict[str, _CachedKey] = OrderedDict()
        self._reading: dict[str, asyncio.Task[FoundKey | None]] = {}
        self._seal = b""

    def holds(self, place: str) -> bool:
        """Return whether the key at this place was found before."""
        return place in self._keys

    def seal(self, value: bytes) -> bytes:
        """Seal the request of an actor whom a key of this cache has verified."""
        return sealed(value, self._seal)

    async def find(self, pool: "Pool | None", place: str) -> AccessKey | None:
        """Return the key with this SHA-256 or id, even if it has expired or was revoked; None if there is none.

        Raises:
            Unavailable: Postgres cannot be reached, and the key was not read within the last minutes.
        """
        cached, now = self._keys.get(place), asyncio.get_running_loop().time()
        if cached is not None and now < cached.read_again_at:
            return cached.key
        try:
            read = await self._shared_read(pool, place)
        except Unavailable:
            if cached is None or now > cached.read_at + KNOWN_FOR:
                raise
            cached.read_again_at = now + FRESH_FOR
            return cached.key
        if read is None:
            self._keys.pop(place, None)
            return None
        self._seal = read.seal
        self._keys[place] = _CachedKey(read.key, now, now + FRESH_FOR)
        self._keys.move_to_end(place)
        if len(self._keys) > MOST:
            self._keys.popitem(last=False)
        return read.key

    async def _shared_read(self, pool: "Pool | None", place: str) -> FoundKey | None:
        """Read a key once for all who ask for it at the same time."""
        if pool is None:
            raise Unavailable("PowerOn is starting: Postgres does not answer yet", retry_after=1)
        reading = self._reading.get(place)
        if reading is None:
            reading = self._reading[place] = asyncio.create_task(_read(pool, place))
            reading.add_done_callback(lambda _: self._reading.pop(place, None))
            retrieve_error(reading)  # callers get it themselves, but all of them may be gone
        return await asyncio.shield(reading)


async def _read(pool: Pool, place: str) -> FoundKey | None:
    sha256 = bytes.fromhex(place)  # an id is hexadecimal, too, but shorter
    try:
        async with asyncio.timeout(READ_WITHIN):
            return await find_key(pool, sha256=sha256, key_id=place)
    except TimeoutError as error:
        raise Unavailable(f"Postgres did not answer within {READ_WITHIN:g} s") from error
    except (Refused, Conflict) as error:
        raise Unavailable(str(error)) from error
