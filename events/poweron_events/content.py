"""The content store: bytes of documents, prompts and raw answers, kept beside the log.

Content is named by its commitment HMAC-SHA256(workflow key, bytes). The key is 32 random bytes, created
once and kept beside the workflow's content: equal bytes of one workflow share a name, two workflows
cannot be linked, and once the key is erased no one can guess content from its name. Writers store the
bytes before the event that names them (E-10).

A workflow also remembers answers from outside; the store keeps each below the workflow's id, under the commitment of
the question. `content_references` finds all content that an event names.
"""

import asyncio
import errno
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import AsyncGenerator, Collection, Generator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Final

from obstore.exceptions import BaseError, NotFoundError

from poweron_events.content_place import CLEARING, ContentBucket, ContentFolder, ContentPlace, StoredObject
from poweron_events.errors import Conflict, DiskFull, MissingContent, Refused, Unavailable, UnusableStore
from poweron_events.object_store import (
    NO_CONDITIONS,
    NO_CREDENTIALS,
    is_final,
    is_missing_bucket,
    open_store,
    what_happened,
)
from poweron_events.redaction import redacted

KEY_BYTES = 32
UNUSABLE = "The content store cannot be used."
MAX_KEYS = 10_000  # cached in memory
MAX_CONTENT = 1_000_000_000  # bytes of a single content
CLEARED_WITHIN = 600.0  # seconds after which a clean-up counts as dead
PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)  # seconds
_NAME = re.compile(r"[0-9a-f]{64}")


def commitment(key: bytes, content: bytes) -> str:
    """Return HMAC-SHA256(workflow key, bytes) in lower-case hex."""
    code = _keyed(key).copy()
    code.update(content)
    return code.hexdigest()


@lru_cache(maxsize=1_000)
def _keyed(key: bytes) -> hmac.HMAC:
    """Return an HMAC that has taken the key only; a copy of it takes less time than another one."""
    return hmac.new(key, digestmod=hashlib.sha256)


class ContentStore:
    """Content by workflow and commitment, in a local folder or an S3-compatible bucket."""

    def __init__(self, place: ContentPlace) -> None:
        self._place = place
        self._keys: dict[str, bytes] = {}
        self._knows_conditions = False  # a remote store must first prove that it honours conditional writes

    @classmethod
    def at(cls, place: str, keys: str | None = None) -> "ContentStore":
        """Open the store at a folder's path or a URL (`s3://bucket/prefix`, `memory:///`).

        With `keys`, a second such place, the keys of new workflows are kept there, and their content is encrypted.

        Raises:
            Refused: a place cannot be used as a store.
        """
        content = _opened(place, _CONTENT_ADVICE)
        if keys is None:
            return cls(content)
        from poweron_events.content_encryption import EncryptedPlace  # noqa: PLC0415 - needs `cryptography`, others do not

        return cls(EncryptedPlace(content, _opened(keys, _KEYS_ADVICE)))

    @property
    def overhead(self) -> int:
        """The number of bytes that encryption adds to a content."""
        return self._place.overhead

    async def put(self, workflow_id: str, content: bytes) -> str:
        """Store bytes and return their commitment; storing the same bytes again changes only their time.

        If no key is stored and this process has not used one before, the workflow is new and gets a key.

        Raises:
            MissingContent: the workflow's key was erased since its last use by this process, and its content with it.
            Refused: there are too many bytes, or the store cannot be used.
            Unavailable: the store cannot be reached.
        """
        (name,) = await self.put_all(workflow_id, [content])
        return name

    async def put_all(self, workflow_id: str, contents: Sequence[bytes]) -> Sequence[str]:
        """Store several contents of a workflow and return their commitments; like `put`."""
        for content in contents:
            _check_size(content)
        try:
            return await self._put_all(workflow_id, contents)
        except (BaseError, OSError) as error:
            raise _translation(error, _erased(workflow_id)) from error

    async def _put_all(self, workflow_id: str, contents: Sequence[bytes]) -> Sequence[str]:
        key = await self._key(workflow_id)
        names = [commitment(key, content) for content in contents]
        for pause in (*PAUSES, None):
            are_new = await self._place.put(workflow_id, dict(zip(names, contents, strict=True)))
            if are_new or not await self._is_cleared_up(workflow_id):  # no clean-up removes what is new
                return names
            if pause is not None:
                await asyncio.sleep(pause)
        raise Unavailable(
            f"The content of workflow {workflow_id} is being cleared up", code="content_store_unavailable"
        )

    async def check(self) -> None:
        """Check that a remote store can be used; a local store reports its errors on use.

        Raises:
            Refused: something must be configured first; the message says what.
            Unavailable: the store does not answer now.
        """
        if self._place.is_remote:
            try:
                async with asyncio.timeout(self._place.look_time):
                    await self._look()
            except TimeoutError as error:
                raise Refused(f"{UNUSABLE} {NO_CREDENTIALS}", code="content_store_unavailable") from error
            except UnusableStore as error:
                raise Refused(str(error), code=error.code) from error

    async def _look(self) -> None:
        with _translated("The content store is not there"):
            await self._place.look()

    async def stored(self, workflow_id: str | None = None) -> AsyncGenerator[Sequence[StoredObject], None]:
        """Yield all stored objects, or those of one workflow, in no particular order, one page at a time.

        Raises:
            Unavailable: the store cannot be reached.
        """
        with _translated(f"Nothing is stored for workflow {workflow_id}"):
            async for page in self._place.stored(workflow_id):
                yield page

    @asynccontextmanager
    async def clearing(self, workflow_id: str) -> AsyncGenerator[float, None]:
        """Mark a workflow's content as being cleaned up, so that writers wait; yield the time of the mark.

        The time is that of the store's clock, in seconds since 1970.

        A writer stores first and then looks for the marker; the clean-up creates the marker first and then checks the
        age of the content. So one of the two sees the other, however long either is delayed in between.

        Raises:
            Conflict: another clean-up of this workflow is running.
        """
        path = f"{workflow_id}/{CLEARING}"
        if not await self._create(path, b""):
            with _translated(path):
                is_cleared_up = await self._is_cleared_up(workflow_id)
            if is_cleared_up:
                raise Conflict(f"The content of workflow {workflow_id} is being cleaned up by another process")
            await self.remove([path])
            await self._create(path, b"")
        try:
            with _translated(path):
                made = await self._place.modified(path)
            if made is None:
                raise MissingContent(f"The content of workflow {workflow_id} was erased")
            yield made
        finally:
            await self.remove([path])

    async def remove(self, paths: Sequence[str]) -> None:
        """Remove what is stored under these paths; missing paths are ignored."""
        with _translated("Nothing is there to be removed"):
            await self._place.remove(paths)

    async def erase(self, workflow_id: str, names: Collection[str] | None = None) -> None:
        """Remove all content of a workflow, its key first, or contents by their names and every remembered answer.

        No round of the workflow may be open. What was removed already is ignored.

        Raises:
            Unavailable: the store cannot be reached, or did not remove everything: repeat it.
        """
        with _translated("Nothing is there to be erased"):
            await self._place.erase(workflow_id, names)

    async def put_back_key(self, workflow_id: str, key: bytes) -> None:
        """Restore a workflow's removed key, unless there is another one by now."""
        await self._create(f"{workflow_id}/key", key)

    async def read_path(self, path: str) -> bytes:
        """Return what is stored under a path; raises like `get`."""
        with _translated(f"Nothing is stored as {path!r}"):
            return await self._place.read(path)

    async def _is_cleared_up(self, workflow_id: str) -> bool:
        """Return whether a clean-up of unreferenced content is running; it may remove content stored just now."""
        made = await self._place.modified(f"{workflow_id}/{CLEARING}")
        return made is not None and time.time() - made < CLEARED_WITHIN

    async def get(self, workflow_id: str, name: str) -> bytes:
        """Return the bytes of a commitment.

        Raises:
            MissingContent: nothing is stored under that name.
            Unavailable: the store cannot be reached.
        """
        with _translated(f"Workflow {workflow_id} has no content {name!r}"):
            return await self._place.read(_path(workflow_id, name))

    async def pieces(self, workflow_id: str, name: str) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of a commitment piece by piece, each small enough to hold in memory; raises like `get`."""
        with _translated(f"Workflow {workflow_id} has no content {name!r}"):
            async with aclosing(self._place.pieces(_path(workflow_id, name))) as pieces:
                async for piece in pieces:
                    yield piece

    async def size(self, workflow_id: str, name: str) -> int:
        """Return the size in bytes of a commitment's content; raises like `get`."""
        with _translated(f"Workflow {workflow_id} has no content {name!r}"):
            return await self._place.size(_path(workflow_id, name))

    async def remember(self, workflow_id: str, kind: str, question: bytes, content: bytes) -> None:
        """Store the answer to a question, replacing an earlier answer; raises like `put`."""
        _check_size(content)
        with _translated(_erased(workflow_id)):
            await self._place.replace(await self._remembered(workflow_id, kind, question), content)

    async def recall(self, workflow_id: str, kind: str, question: bytes) -> bytes | None:
        """Return the stored answer to a question, or None if there is none.

        Raises:
            MissingContent: the workflow's key was erased since its last use by this process.
            Unavailable: the store cannot be reached.
        """
        with _translated(_erased(workflow_id)):
            path = await self._remembered(workflow_id, kind, question)
        try:
            with _translated(path):
                return await self._place.read(path)
        except MissingContent:
            return None

    async def _remembered(self, workflow_id: str, kind: str, question: bytes) -> str:
        return f"{workflow_id}/{kind}/{commitment(await self._key(workflow_id), question)}"

    async def _key(self, workflow_id: str) -> bytes:
        """Return the workflow's key, creating it if it is new; a process that has used it fails once it is erased.

        Raises the errors of the place: the caller translates them.
        """
        known, path = self._keys.get(workflow_id), f"{workflow_id}/key"
        if known is not None:
            await self._place.size(path)
            return known
        key = secrets.token_bytes(KEY_BYTES)
        if not await self._create_once(path, key):
            key = await self._place.read(path)
            if len(key) != KEY_BYTES:
                raise UnusableStore(f"{UNUSABLE} {_KEYS_ELSEWHERE}")
        if len(self._keys) > MAX_KEYS:
            self._keys.clear()
        self._keys[workflow_id] = key
        return key

    async def _create_once(self, path: str, content: bytes) -> bool:
        """Create an object like `_create`, and check once that the store refuses to overwrite an existing one."""
        created = await self._create(path, content)
        if created and self._place.is_remote and not self._knows_conditions:
            if await self._create(path, content):
                raise Refused(f"{UNUSABLE} {NO_CONDITIONS}", code="content_store_unavailable")
            self._knows_conditions = True
        return created

    async def _create(self, path: str, content: bytes) -> bool:
        """Store content unless the path exists; return whether it was stored."""
        with _translated(path):
            return await self._place.create(path, content)


@contextmanager
def _translated(missing: str) -> Generator[None, None, None]:
    """Translate the store's errors into ours."""
    try:
        yield
    except (BaseError, OSError) as error:
        raise _translation(error, missing) from error


def _translation(error: Exception, missing: str) -> MissingContent | Unavailable:
    """Return our error for one of the store's; `missing` says what is not there if the store does not have it."""
    if isinstance(error, NotFoundError | FileNotFoundError) and not is_missing_bucket(error):
        return MissingContent(missing)
    return _unavailable(error)


def _unavailable(error: Exception) -> Unavailable:
    if is_final(error):
        return UnusableStore(f"{UNUSABLE} {what_happened(error)}")
    sentence = f"The content store did not answer: {what_happened(error)}"
    full = isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}
    return (DiskFull if full else Unavailable)(sentence, code="content_store_unavailable")


_CONTENT_ADVICE: Final = (
    "Documents and answers are kept there: set POWERON_HOME to a folder that can be written to, or POWERON_CONTENT to "
    "a folder or a URL such as s3://bucket/prefix."
)
_KEYS_ADVICE: Final = (
    "The keys of workflows are kept there: set POWERON_CONTENT_KEYS to a folder or a URL such as s3://bucket/prefix."
)


_KEYS_ELSEWHERE: Final = "The keys of its workflows are in another store: set POWERON_CONTENT_KEYS to that one."


def _opened(place: str, advice: str) -> ContentPlace:
    try:
        opened = open_store(place)
    except (BaseError, OSError, ValueError) as error:
        why = redacted(getattr(error, "strerror", None) or str(error).splitlines()[0])
        raise Refused(f"{redacted(place)!r} cannot be used: {why}. {advice}") from error
    return ContentFolder(opened) if isinstance(opened, Path) else ContentBucket(opened)


def _check_size(content: bytes) -> None:
    """Refuse content that is too large to store."""
    if len(content) > MAX_CONTENT:
        raise Refused(
            f"{len(content):,} bytes are too many; at most {MAX_CONTENT:,} can be kept as one document.",
            code="document_too_large",
        )


def _erased(workflow_id: str) -> str:
    return f"The content of workflow {workflow_id} was erased"


def _path(workflow_id: str, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise MissingContent(f"{name!r} is not the name of any content")
    return f"{workflow_id}/{name}"
