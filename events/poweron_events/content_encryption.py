"""A place that encrypts content, with the workflows' keys in a second place, so that backups of the first hold neither.

A workflow is encrypted if its key is in the second place; the first then has a note where the key would be. One whose
key is beside its content stays as it is: plain, and readable.
"""

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Final

from obstore.exceptions import NotFoundError

from poweron_events.content_cipher import OVERHEAD, ContentCipher, cipher_of
from poweron_events.content_place import KEY, ContentPlace, StoredObject, is_content
from poweron_events.errors import Refused
from poweron_events.object_store import NO_CONDITIONS

ELSEWHERE: Final = b"The key is in the store of POWERON_CONTENT_KEYS.\n"
MAX_CIPHERS: Final = 10_000  # workflows whose ciphers are kept in memory


class EncryptedPlace:
    """Keeps encrypted content in one place, and the keys in another; raises the errors of both."""

    overhead = OVERHEAD

    def __init__(self, content: ContentPlace, keys: ContentPlace) -> None:
        self._content, self._keys = content, keys
        self._ciphers: dict[str, ContentCipher | None] = {}
        self._knows_conditions = not keys.is_remote

    @property
    def is_remote(self) -> bool:
        return self._content.is_remote or self._keys.is_remote

    @property
    def look_time(self) -> float | None:
        times = [time for time in (self._content.look_time, self._keys.look_time) if time is not None]
        return sum(times) if times else None

    async def look(self) -> None:
        await self._content.look()
        await self._keys.look()

    async def put(self, workflow_id: str, contents: Mapping[str, bytes]) -> bool:
        if (cipher := await self._cipher(workflow_id)) is None:
            return await self._content.put(workflow_id, contents)
        encrypted = {name: cipher.encrypt(name, content) for name, content in contents.items()}
        return await self._content.put(workflow_id, encrypted)

    async def create(self, path: str, content: bytes) -> bool:
        if not _is_key(path):
            return await self._content.create(path, content)
        with suppress(FileNotFoundError, NotFoundError):
            await self._content.size(path)
            return False
        created = await self._keys.create(path, content)
        if created and not self._knows_conditions:
            if await self._keys.create(path, content):
                raise Refused(
                    f"The store of the keys cannot be used. {NO_CONDITIONS}", code="content_store_unavailable"
                )
            self._knows_conditions = True
        await self._content.create(path, ELSEWHERE)
        return created

    async def replace(self, path: str, content: bytes) -> None:
        workflow_id, _, name = path.partition("/")
        cipher = await self._cipher(workflow_id)
        await self._content.replace(path, content if cipher is None else cipher.encrypt_answer(name, content))

    async def read(self, path: str) -> bytes:
        stored = await self._content.read(path)
        if _is_key(path):
            return await self._keys.read(path) if stored == ELSEWHERE else stored
        workflow_id, _, name = path.partition("/")
        cipher = await self._cipher(workflow_id)
        if cipher is None:
            return stored
        return cipher.decrypt(name, stored) if is_content(path) else cipher.decrypt_answer(name, stored)

    async def pieces(self, path: str) -> AsyncGenerator[bytes, None]:
        workflow_id, _, name = path.partition("/")
        cipher = await self._cipher(workflow_id)
        async with aclosing(self._content.pieces(path)) as pieces:
            async for piece in pieces if cipher is None else cipher.decrypted(name, pieces):
                yield piece

    async def size(self, path: str) -> int:
        workflow_id, _, name = path.partition("/")
        size = await self._content.size(path)
        if not is_content(path) or (cipher := await self._cipher(workflow_id)) is None:
            return size
        async with aclosing(self._content.pieces(path)) as pieces:
            begins = await anext(pieces, b"")
        return size - OVERHEAD if begins.startswith(cipher.header(name)) else size

    async def modified(self, path: str) -> float | None:
        return await self._content.modified(path)

    async def remove(self, paths: Sequence[str]) -> None:
        keys = [path for path in paths if _is_key(path)]
        for path in keys:
            self._ciphers.pop(path.partition("/")[0], None)
        if keys:
            await self._keys.remove(keys)
        await self._content.remove(paths)

    async def erase(self, workflow_id: str, names: Collection[str] | None = None) -> None:
        if names is None:
            self._ciphers.pop(workflow_id, None)
            await self._keys.erase(workflow_id)
        await self._content.erase(workflow_id, names)

    async def stored(self, workflow_id: str | None) -> AsyncGenerator[Sequence[StoredObject], None]:
        """Yield what the first place holds; sizes are those of the encrypted bytes."""
        async with aclosing(self._content.stored(workflow_id)) as pages:
            async for page in pages:
                yield page

    async def _cipher(self, workflow_id: str) -> ContentCipher | None:
        """Return the cipher of a workflow; None if its key is beside its content, which is plain."""
        if workflow_id not in self._ciphers:
            path = f"{workflow_id}/{KEY}"
            beside = await self._content.read(path)
            if len(self._ciphers) >= MAX_CIPHERS:
                self._ciphers.clear()
            self._ciphers[workflow_id] = cipher_of(await self._keys.read(path)) if beside == ELSEWHERE else None
        return self._ciphers[workflow_id]


def _is_key(path: str) -> bool:
    return path.partition("/")[2] == KEY
