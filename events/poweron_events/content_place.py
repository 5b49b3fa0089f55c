"""The places that store contents by path: a folder of this machine, an S3-compatible bucket, or memory.

A place raises the errors of the file system or of obstore; the content store translates them.
"""

import asyncio
import errno
import math
import os
import re
import shutil
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from obstore.exceptions import AlreadyExistsError, NotFoundError, PreconditionError
from obstore.store import MemoryStore, ObjectStore

from poweron_events.content_packs import (
    LEFTOVER,
    SMALL,
    SUFFIX,
    ContentPacks,
    create,
    read_content,
    read_records,
    records_of,
    remove_files,
    write,
    write_below,
)
from poweron_events.object_store import PART, PARTS_AT_ONCE, look_time

AT_ONCE: Final = 64_000  # bytes; a folder writes this much before a thread could start
PAGE: Final = 1_000  # objects
PIECE: Final = 1_000_000  # bytes of a content that is read piece by piece
_NOT_FOUND: Final = (NotFoundError, FileNotFoundError)  # obstore raises either
MAX_PACKED: Final = 3  # contents of a pack in a bucket, whose name has at most 255 characters
SKEW: Final = 60.0  # seconds
TRIES: Final = 5
KEY: Final = "key"
"""The name of a workflow's key beside its content."""
CLEARING: Final = "clearing"
"""The name of the marker beside a workflow's content while unreferenced content is removed."""
_CONTENT: Final = re.compile(r"[^/]+/[0-9a-f]{64}")
_PACK: Final = re.compile(r"[^/]+/([0-9a-f]{64}\.[0-9]{1,5}-?)+\.pack")


class StoredObject(NamedTuple):
    """A stored object, below the id of its workflow."""

    path: str
    size: int  # bytes
    modified: float  # seconds since 1970, by the store's own clock


class ContentPlace(Protocol):
    """Keeps bytes below the ids of workflows; a path is `<workflow>/<name>` or `<workflow>/<kind>/<name>`."""

    @property
    def is_remote(self) -> bool:
        """Whether it is on another machine."""
        ...

    @property
    def overhead(self) -> int:
        """The number of bytes that encryption adds to a content."""
        ...

    @property
    def look_time(self) -> float | None:
        """The time limit of `look`, in seconds; None if it needs none."""
        ...

    async def put(self, workflow_id: str, contents: Mapping[str, bytes]) -> bool:
        """Store contents by their names, even if they are stored already; return whether all are known to be new."""
        ...

    async def create(self, path: str, content: bytes) -> bool:
        """Store content unless the path exists; return whether it was stored."""
        ...

    async def replace(self, path: str, content: bytes) -> None:
        """Store content and replace what is there; the workflow exists."""
        ...

    async def read(self, path: str) -> bytes:
        """Return what is stored under the path."""
        ...

    def pieces(self, path: str) -> AsyncGenerator[bytes, None]:
        """Yield what is stored under the path; a large content comes in pieces of about `PIECE` bytes."""
        ...

    async def size(self, path: str) -> int:
        """Return the size in bytes of what is stored under the path."""
        ...

    async def modified(self, path: str) -> float | None:
        """Return when it was stored, in seconds since 1970 by the store's clock; None if nothing is."""
        ...

    async def remove(self, paths: Sequence[str]) -> None:
        """Remove what is stored under the paths; missing ones are ignored."""
        ...

    async def erase(self, workflow_id: str, names: Collection[str] | None = None) -> None:
        """Remove all of a workflow, its key first, or contents by their names and every remembered answer.

        Removes it for certain, also what damaged packs hold; no round of the workflow may be open. May be repeated.
        """
        ...

    async def look(self) -> None:
        """Check that the place can be used."""
        ...

    def stored(self, workflow_id: str | None) -> AsyncGenerator[Sequence[StoredObject], None]:
        """Yield all stored objects, or those of one workflow, in no particular order, one page at a time."""
        ...


class ContentFolder:
    """A folder of this machine: small contents are in packs, larger ones in files of their own."""

    is_remote = False
    look_time = None
    overhead = 0

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._packs = ContentPacks(folder)

    async def put(self, workflow_id: str, contents: Mapping[str, bytes]) -> bool:
        if sum(map(len, contents.values())) <= AT_ONCE:
            self._write(workflow_id, contents)
        else:
            await asyncio.to_thread(self._write, workflow_id, contents)
        return False

    def _write(self, workflow_id: str, contents: Mapping[str, bytes]) -> None:
        small = dict[str, bytes]()
        for name, content in contents.items():
            if len(content) < SMALL:
                small[name] = content
            else:
                write(f"{self._folder}/{workflow_id}/{name}", content)
        if small:
            self._packs.append(workflow_id, small)

    async def look(self) -> None:
        """Do nothing: a folder reports its errors on use."""

    async def create(self, path: str, content: bytes) -> bool:
        with suppress(FileExistsError):
            create(self._folder / path, content)
            return True
        return False

    async def replace(self, path: str, content: bytes) -> None:
        await asyncio.to_thread(write_below, self._folder / path, content)

    async def read(self, path: str) -> bytes:
        return await asyncio.to_thread(self._read, path)

    def _read(self, path: str) -> bytes:
        packed = self._packs.read(*_split(path)) if is_content(path) else None
        return (self._folder / path).read_bytes() if packed is None else packed

    async def pieces(self, path: str) -> AsyncGenerator[bytes, None]:
        packed = await asyncio.to_thread(self._packs.read, *_split(path)) if is_content(path) else None
        if packed is not None:
            yield packed
            return
        with await asyncio.to_thread((self._folder / path).open, "rb") as file:
            while piece := await asyncio.to_thread(file.read, PIECE):
                yield piece

    async def size(self, path: str) -> int:
        packed = await asyncio.to_thread(self._packs.find, *_split(path)) if is_content(path) else None
        return os.stat(f"{self._folder}/{path}").st_size if packed is None else packed.size

    async def modified(self, path: str) -> float | None:
        try:
            return os.stat(f"{self._folder}/{path}").st_mtime
        except FileNotFoundError:
            return None

    async def remove(self, paths: Sequence[str]) -> None:
        await asyncio.to_thread(self._remove, paths)

    def _remove(self, paths: Sequence[str]) -> None:
        names = dict[str, set[str]]()
        for workflow_id, name in map(_split, filter(is_content, paths)):
            names.setdefault(workflow_id, set()).add(name)
        for workflow_id in names:
            self._packs.remove(workflow_id, names[workflow_id])
        remove_files(self._folder, paths)

    async def erase(self, workflow_id: str, names: Collection[str] | None = None) -> None:
        if names is None:
            await asyncio.to_thread(self._erase_all, workflow_id)
        else:
            await asyncio.to_thread(self._erase, workflow_id, frozenset(names))

    def _erase_all(self, workflow_id: str) -> None:
        with suppress(FileNotFoundError):
            (self._folder / workflow_id / KEY).unlink()
        for _ in range(TRIES):  # a writer may create a file meanwhile
            try:
                shutil.rmtree(self._folder / workflow_id)
            except FileNotFoundError:
                return
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    raise
        raise OSError(errno.EBUSY, f"the content of workflow {workflow_id} is still being written")

    def _erase(self, workflow_id: str, names: Collection[str]) -> None:
        for _ in range(TRIES):  # a clean-up may move contents meanwhile
            self._packs.erase(workflow_id, names)
            listed = [each.path for each in self._files(workflow_id)]
            packed = [f"{workflow_id}/{each.name}" for each in self._packs.contents(workflow_id)]
            remove_files(self._folder, [path for path in listed if _is_to_be_erased(path, names)])
            if not any(_is_to_be_erased(path, names) for path in packed):
                return
        raise OSError(errno.EBUSY, f"the content of workflow {workflow_id} is being cleaned up")

    async def stored(self, workflow_id: str | None) -> AsyncGenerator[Sequence[StoredObject], None]:
        pages = self._pages(workflow_id)
        while page := await asyncio.to_thread(next, pages, ()):
            yield page

    def _pages(self, workflow_id: str | None) -> Iterator[Sequence[StoredObject]]:
        page = list[StoredObject]()
        for workflow in [workflow_id] if workflow_id else os.listdir(self._folder):
            packed = self._packs.contents(workflow)
            page += self._files(workflow)
            page += [StoredObject(f"{workflow}/{each.name}", each.size, each.modified_ms / 1000) for each in packed]
            if len(page) >= PAGE:
                yield page
                page = []
        yield page

    def _files(self, path: str) -> Iterator[StoredObject]:
        """Yield the files below a workflow's folder, but not its packs."""
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(self._folder / path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from self._files(f"{path}/{entry.name}")
                elif not entry.name.endswith(SUFFIX):
                    with suppress(FileNotFoundError):  # removed in the meantime
                        status = entry.stat()
                        yield StoredObject(f"{path}/{entry.name}", status.st_size, status.st_mtime)


class ContentBucket:
    """An S3-compatible bucket, or memory.

    Small contents that are stored together are one object, a pack whose name lists them with their sizes.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.overhead = 0
        self.is_remote = not isinstance(store, MemoryStore)
        self.look_time = look_time(store)

    async def put(self, workflow_id: str, contents: Mapping[str, bytes]) -> bool:
        small = {name: content for name, content in contents.items() if len(content) < SMALL}
        packed = small if 1 < len(small) <= MAX_PACKED else {}
        objects = {f"{workflow_id}/{name}": contents[name] for name in contents.keys() - packed.keys()}
        if packed:
            objects[_pack_path(workflow_id, packed)] = records_of(packed)
        return all(await asyncio.gather(*map(self._renew, objects, objects.values())))

    async def _renew(self, path: str, content: bytes) -> bool:
        """Store content, replacing an existing copy, which may be old and about to be removed."""
        if len(content) <= PART and await self.create(path, content):
            return True
        await self.replace(path, content)
        return False

    async def create(self, path: str, content: bytes) -> bool:
        with suppress(AlreadyExistsError, PreconditionError, FileExistsError):
            await self._call("put", path, content, mode="create")
            return True
        return False

    async def replace(self, path: str, content: bytes) -> None:
        await self._call("put", path, content, mode="overwrite", chunk_size=PART, max_concurrency=PARTS_AT_ONCE)

    async def read(self, path: str) -> bytes:
        place = path
        for _ in range(TRIES):  # a clean-up may store it elsewhere meanwhile
            with suppress(*_NOT_FOUND):
                stored = await self._object(place)
                return stored if place == path else _content_of(stored, place, path)
            place = await self._place_of(path)
        raise FileNotFoundError(path)

    async def pieces(self, path: str) -> AsyncGenerator[bytes, None]:
        try:
            found = await self._call("get", path)
        except _NOT_FOUND:
            yield await self.read(path)  # it is in a pack, so it is small
            return
        if not self.is_remote:
            yield bytes(found.bytes())
            return
        async for piece in found.stream(min_chunk_size=PIECE):
            yield bytes(piece)

    async def _object(self, path: str) -> bytes:
        found = await self._call("get", path)
        return bytes(await found.bytes_async() if self.is_remote else found.bytes())

    async def _place_of(self, path: str) -> str:
        """Find the object that holds a content in the listing, and return its path.

        Raises:
            FileNotFoundError: no object holds it.
        """
        workflow_id, name = _split(path)
        if is_content(path):
            async for each in self._objects(workflow_id):
                if each.path == path or name in _packed(each.path):
                    return each.path
        raise FileNotFoundError(path)

    async def size(self, path: str) -> int:
        with suppress(*_NOT_FOUND):
            return int((await self._call("head", path))["size"])
        return _packed(await self._place_of(path)).get(_split(path)[1]) or len(await self.read(path))

    async def modified(self, path: str) -> float | None:
        with suppress(*_NOT_FOUND):
            return float((await self._call("head", path))["last_modified"].timestamp())
        return None

    async def remove(self, paths: Sequence[str]) -> None:
        contents = frozenset(filter(is_content, paths))
        removed = {*paths} - contents
        for workflow_id in {_split(path)[0] for path in contents}:
            for place in await self._places_before_clearing(workflow_id):
                if place in contents or await self._repacked(workflow_id, place, contents):
                    removed.add(place)
        if removed:
            await self._call("delete", sorted(removed))

    async def _repacked(
        self, workflow_id: str, pack: str, removed: Collection[str], *, also_damaged: bool = False
    ) -> bool:
        """Store the remaining contents of a pack elsewhere; return False if all remain, or if the pack is damaged.

        With `also_damaged`, those that cannot be read do not remain.
        """
        names = _packed(pack)
        staying = [name for name in names if f"{workflow_id}/{name}" not in removed]
        if len(staying) == len(names):
            return False
        stored, contents = await self._object(pack), dict[str, bytes]()
        for name in staying:
            try:
                contents[name] = _content_of(stored, pack, f"{workflow_id}/{name}")
            except OSError:
                if not also_damaged:
                    return False
        await self.put(workflow_id, contents)
        return True

    async def erase(self, workflow_id: str, names: Collection[str] | None = None) -> None:
        for _ in range(TRIES):  # a clean-up may move contents meanwhile
            if not (going := [path async for path in self._going(workflow_id, names)]):
                return
            if (key := f"{workflow_id}/{KEY}") in going:
                await self._call("delete", [key])
                going.remove(key)
            removed = [f"{workflow_id}/{name}" for name in names or ()]
            for path in going:
                if removed and _packed(path):
                    with suppress(*_NOT_FOUND):
                        await self._repacked(workflow_id, path, removed, also_damaged=True)
            if going:
                await self._call("delete", sorted(going))
        raise OSError(errno.EBUSY, f"the content of workflow {workflow_id} is still being written")

    async def _going(self, workflow_id: str, names: Collection[str] | None) -> AsyncGenerator[str, None]:
        """Yield the paths of the objects to erase."""
        async for each in self._objects(workflow_id):
            packed = _packed(each.path)
            if names is None or _is_to_be_erased(each.path, names) or not packed.keys().isdisjoint(names):
                yield each.path

    async def _places_before_clearing(self, workflow_id: str) -> list[str]:
        """Return the paths of a workflow's objects; during a clean-up, only of those stored before it began.

        So a writer whose object is new need not look for the marker: no clean-up removes it. The clocks of a store's
        servers may differ by `SKEW`.
        """
        objects = [each async for each in self._objects(workflow_id)]
        marked = next((each.modified for each in objects if each.path == f"{workflow_id}/{CLEARING}"), math.inf)
        return [each.path for each in objects if each.modified < marked - SKEW]

    async def look(self) -> None:
        async for _ in self._objects(None):
            return

    async def stored(self, workflow_id: str | None) -> AsyncGenerator[Sequence[StoredObject], None]:
        page, last = dict[str, StoredObject](), ""
        async for each in self._objects(workflow_id):
            workflow = _split(each.path)[0]
            if workflow != last and len(page) >= PAGE:  # all objects of a workflow follow one another
                yield [*page.values()]
                page = {}
            last, names = workflow, _packed(each.path)
            for part in [StoredObject(f"{workflow}/{name}", names[name], each.modified) for name in names] or [each]:
                if part.path not in page or page[part.path].modified < part.modified:
                    page[part.path] = part
        yield [*page.values()]

    async def _objects(self, workflow_id: str | None) -> AsyncGenerator[StoredObject, None]:
        listing: Any = self._store.list(workflow_id)
        async for page in listing if self.is_remote else _pages(listing):
            for each in page:
                yield StoredObject(each["path"], each["size"], each["last_modified"].timestamp())

    async def _call(self, method: str, *arguments: object, **options: object) -> Any:
        """Call the store: calls over a network can be cancelled; those to memory have nothing to wait for.

        An asynchronous obstore call can abort an interpreter that exits right after it.
        """
        if self.is_remote:
            return await getattr(self._store, f"{method}_async")(*arguments, **options)
        return getattr(self._store, method)(*arguments, **options)


async def _pages(listing: Any) -> AsyncGenerator[Sequence[Any], None]:
    for page in listing:
        yield page


def _pack_path(workflow_id: str, contents: Mapping[str, bytes]) -> str:
    names = "-".join(f"{name}.{len(content)}" for name, content in contents.items())
    return f"{workflow_id}/{names}{SUFFIX}"


def _content_of(stored: bytes, pack: str, path: str) -> bytes:
    """Return a content of a pack; raises like `read_content`."""
    file = BytesIO(stored)
    for place in read_records(file, pack, 0).contents:
        if path.endswith(place.name):
            return read_content(file, place)
    raise OSError(errno.EIO, f"the pack {pack} is damaged")


def _packed(path: str) -> dict[str, int]:
    """Return the sizes in bytes of a pack's contents by their names; empty for any other path."""
    if not _PACK.fullmatch(path):
        return {}
    sized = (each.split(".") for each in _split(path)[1].removesuffix(SUFFIX).split("-"))
    return {name: int(size) for name, size in sized}


def _is_to_be_erased(path: str, names: Collection[str]) -> bool:
    """Return whether a path is that of one of these contents, of a remembered answer, or of an incomplete file."""
    _, name = _split(path)
    return name in names or ("/" in name) or LEFTOVER.fullmatch(name) is not None


def is_content(path: str) -> bool:
    """Return whether the path is that of a content, and not of a key, a marker or a remembered answer."""
    return _CONTENT.fullmatch(path) is not None


def _split(path: str) -> tuple[str, str]:
    """Split a path into the workflow's id and the rest."""
    workflow_id, _, name = path.partition("/")
    return workflow_id, name
