"""The content store: bytes of documents, prompts and raw answers, kept beside the log.

Content is named by its commitment HMAC-SHA256(workflow key, bytes). The key is 32 random bytes, made
once and kept beside the workflow's content: equal bytes of one workflow share a name, two workflows
cannot be linked, and once the key is gone nothing can be guessed. Bytes are stored before the event
that names them (E-10).

What a workflow remembers of what it asked elsewhere lies below it, too, under the commitment of the question.
"""

import asyncio
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError
from obstore.store import LocalStore, MemoryStore, ObjectStore, from_url

from poweron_events.errors import Refused, Unavailable
from poweron_events.redaction import redacted

KEY_BYTES = 32
AT_ONCE = 64_000  # bytes; a local folder takes so few before a thread would have begun
MAX_KEYS = 10_000  # remembered in memory
_NAME = re.compile(r"[0-9a-f]{64}")
_PROCESS, _NUMBERS = secrets.token_hex(8), count()  # together no two files that are being written share a name


class MissingContent(Refused):
    """Nothing is stored under that name: it was never stored, or it was erased."""

    code = "document_missing"


def commitment(key: bytes, content: bytes) -> str:
    """HMAC-SHA256(workflow key, bytes) in lower-case hex."""
    return hmac.digest(key, content, hashlib.sha256).hex()


class ContentStore:
    """Content by workflow and commitment, in a local folder or an S3-compatible bucket."""

    def __init__(self, store: ObjectStore, folder: Path | None = None) -> None:
        self._store = store
        self._folder = folder  # where the store is a local one
        self._is_remote = not isinstance(store, LocalStore | MemoryStore)
        self._keys: dict[str, bytes] = {}

    @classmethod
    def at(cls, place: str) -> "ContentStore":
        """The store at a folder's path or a URL (`s3://bucket/prefix`, `memory:///`).

        Raises:
            Refused: the place cannot be used as a store.
        """
        if place == "memory:///":
            return cls(MemoryStore())
        try:
            if "://" in place:
                return cls(from_url(place))
            folder = Path(place)
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            return cls(LocalStore(folder), folder)
        except (BaseError, OSError, ValueError) as error:
            why = redacted(getattr(error, "strerror", None) or str(error).splitlines()[0])
            raise Refused(
                f"{redacted(place)!r} cannot be used: {why}. Documents and answers are kept there: set POWERON_HOME "
                "to a folder that can be written to, or POWERON_CONTENT to a folder or a URL such as s3://bucket/prefix."
            ) from error

    async def put(self, workflow_id: str, content: bytes) -> str:
        """Store bytes and return their commitment; storing the same bytes again changes nothing.

        Where no key is kept, and none was used here before, one is made: to this process the workflow is new.

        Raises:
            MissingContent: the workflow's key was erased since it was last used here, and its content with it.
            Unavailable: the store cannot be reached.
        """
        (name,) = await self.put_all(workflow_id, [content])
        return name

    async def put_all(self, workflow_id: str, contents: Sequence[bytes]) -> Sequence[str]:
        """Store several contents of a workflow; like `put`."""
        key = await self._key(workflow_id)
        if self._folder is not None:
            folder = f"{self._folder}/{workflow_id}"
            with _erased(workflow_id):
                if sum(map(len, contents)) <= AT_ONCE:
                    return _write_all(folder, key, contents)
                return await asyncio.to_thread(_write_all, folder, key, contents)
        names = [commitment(key, content) for content in contents]
        await asyncio.gather(
            *(self._create(f"{workflow_id}/{name}", content) for name, content in zip(names, contents, strict=True))
        )
        return names

    async def get(self, workflow_id: str, name: str) -> bytes:
        """The bytes of a commitment.

        Raises:
            MissingContent: nothing is stored under that name.
            Unavailable: the store cannot be reached.
        """
        with _translated(f"Workflow {workflow_id} has no content {name!r}"):
            return await self._read(_path(workflow_id, name))

    async def size(self, workflow_id: str, name: str) -> int:
        """How many bytes a commitment stands for; raises like `get`."""
        with _translated(f"Workflow {workflow_id} has no content {name!r}"):
            return await self._size(_path(workflow_id, name))

    async def remember(self, workflow_id: str, kind: str, question: bytes, content: bytes) -> None:
        """Store what came of a question, in place of what came of it before; raises like `put`."""
        path = await self._remembered(workflow_id, kind, question)
        if self._folder is not None:
            with _erased(workflow_id):
                await asyncio.to_thread(_write_below, self._folder / path, content)
            return
        with _translated(path):
            await self._call("put", path, content)

    async def recall(self, workflow_id: str, kind: str, question: bytes) -> bytes | None:
        """What came of a question; None where it was not asked, or nothing was stored.

        Raises:
            MissingContent: the workflow's key was erased since it was last used here.
            Unavailable: the store cannot be reached.
        """
        path = await self._remembered(workflow_id, kind, question)
        try:
            with _translated(path):
                return await self._read(path)
        except MissingContent:
            return None

    async def _remembered(self, workflow_id: str, kind: str, question: bytes) -> str:
        return f"{workflow_id}/{kind}/{commitment(await self._key(workflow_id), question)}"

    async def _key(self, workflow_id: str) -> bytes:
        """The workflow's key; whoever comes first makes it, and nobody who used it goes on once it was erased."""
        known = self._keys.get(workflow_id)
        if known is not None:
            await self._expect_key(workflow_id)
            return known
        path, key = f"{workflow_id}/key", secrets.token_bytes(KEY_BYTES)
        if not await self._create(path, key):
            with _erased(workflow_id):
                key = await self._read(path)
        if len(self._keys) > MAX_KEYS:
            self._keys.clear()
        self._keys[workflow_id] = key
        return key

    async def _expect_key(self, workflow_id: str) -> None:
        with _erased(workflow_id):
            if self._folder is not None:
                os.stat(f"{self._folder}/{workflow_id}/key")
            else:
                await self._size(f"{workflow_id}/key")

    async def _create(self, path: str, content: bytes) -> bool:
        """Store what is not there yet; whether it was not."""
        with _translated(path), suppress(AlreadyExistsError, FileExistsError):
            await self._call("put", path, content, mode="create")
            return True
        return False

    async def _read(self, path: str) -> bytes:
        if self._folder is not None:
            return await asyncio.to_thread((self._folder / path).read_bytes)
        if not self._is_remote:
            return await asyncio.to_thread(lambda: bytes(self._store.get(path).bytes()))
        found = await self._store.get_async(path)
        return bytes(await found.bytes_async())

    async def _size(self, path: str) -> int:
        return int((await self._call("head", path))["size"])

    async def _call(self, method: str, *arguments: object, **options: object) -> Any:
        """Ask the store, one on this machine in a thread of Python's.

        An asynchronous call of obstore can abort an interpreter that ends right after it; but it can be cancelled,
        as what goes over a network must be.
        """
        if self._is_remote:
            return await getattr(self._store, f"{method}_async")(*arguments, **options)
        return await asyncio.to_thread(getattr(self._store, method), *arguments, **options)


def _write_all(folder: str, key: bytes, contents: Sequence[bytes]) -> list[str]:
    """What `LocalStore` does too, at a tenth of its CPU time: an iteration of the loop stores half a dozen contents."""
    names = [commitment(key, content) for content in contents]
    for name, content in zip(names, contents, strict=True):
        _write(f"{folder}/{name}", content)
    return names


def _write_below(path: Path, content: bytes) -> None:
    """Write into a folder of the workflow's, which is made where there is none; the workflow's own is there."""
    with suppress(FileExistsError):
        path.parent.mkdir()
    _write(str(path), content)


def _write(path: str, content: bytes) -> None:
    """All of it or nothing, whoever else writes it; by descriptors, which takes half the time of file objects."""
    beside = f"{path}.{_PROCESS}-{next(_NUMBERS)}"
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            written = os.write(descriptor, content)
            while written < len(content):  # the system may take a part at a time
                written += os.write(descriptor, content[written:])
        finally:
            os.close(descriptor)
        os.replace(beside, path)
    except OSError:  # a full disk must not become fuller with every try
        with suppress(FileNotFoundError):
            os.unlink(beside)
        raise


@contextmanager
def _translated(missing: str) -> Generator[None, None, None]:
    """The store's errors as ours."""
    try:
        yield
    except (NotFoundError, FileNotFoundError) as error:
        raise MissingContent(missing) from error
    except (BaseError, OSError) as error:
        raise Unavailable(
            f"The content store did not answer: {redacted(str(error))}", code="content_store_unavailable"
        ) from error


def _erased(workflow_id: str) -> AbstractContextManager[None]:
    return _translated(f"The content of workflow {workflow_id} was erased")


def _path(workflow_id: str, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise MissingContent(f"{name!r} is not the name of any content")
    return f"{workflow_id}/{name}"
