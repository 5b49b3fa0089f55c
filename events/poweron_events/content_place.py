"""Where contents are stored by their paths: a folder of this machine, a bucket, or memory.

The errors of both are those of the file system and of obstore; the content store translates them.
"""

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import MemoryStore, ObjectStore

from poweron_events.content_files import create, remove_files, write, write_below
from poweron_events.content_packs import SMALL, ContentPacks
from poweron_events.object_store import PART, PARTS_AT_ONCE, look_time

AT_ONCE: Final = 64_000  # bytes; a folder writes this much before a thread could start
PAGE: Final = 1_000  # objects
_CONTENT: Final = re.compile(r"[^/]+/[0-9a-f]{64}")


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
    def look_time(self) -> float | None:
        """The time limit of a first look, in seconds."""
        ...

    async def put(self, workflow_id: str, contents: Mapping[str, bytes]) -> bool:
        """Store contents by their names, also if they are stored; return whether all are known to be new."""
        ...

    async def create(self, path: str, content: bytes) -> bool:
        """Store content unless the path exists; return whether it was stored."""
        ...

    async def replace(self, path: str, content: bytes) -> None:
        """Store content in place of what is there; the workflow exists."""
        ...

    async def read(self, path: str) -> bytes:
        """Return what is stored under the path."""
        ...

    async def size(self, path: str) -> int:
        """Return the size in bytes of what is stored under the path."""
        ...

    async def modified(self, path: str) -> float:
        """Return when it was stored, in seconds since 1970 by the store's clock."""
        ...

    async def remove(self, paths: Sequence[str]) -> None:
        """Remove what is stored under the paths; missing ones are ignored."""
        ...

    def stored(self, workflow_id: str | None) -> AsyncGenerator[Sequence[StoredObject], None]:
        """Yield all stored objects, or those of one workflow, in no particular order, one page at a time."""
        ...


class Folder:
    """A folder of this machine: small contents are in packs, larger ones in files of their own."""

    is_remote = False
    look_time = None

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
        small = {name: content for name, content in contents.items() if len(content) < SMALL}
        for name in contents.keys() - small.keys():
            write(f"{self._folder}/{workflow_id}/{name}", contents[name])
        if small:
            self._packs.append(workflow_id, small)

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

    async def size(self, path: str) -> int:
        packed = self._packs.find(*_split(path)) if is_content(path) else None
        return os.stat(f"{self._folder}/{path}").st_size if packed is None else packed.size

    async def modified(self, path: str) -> float:
        return os.stat(f"{self._folder}/{path}").st_mtime

    async def remove(self, paths: Sequence[str]) -> None:
        await asyncio.to_thread(self._remove, paths)

    def _remove(self, paths: Sequence[str]) -> None:
        names = dict[str, set[str]]()
        for path in paths:
            workflow_id, name = _split(path)
            names.setdefault(workflow_id, set()).add(name)
        for workflow_id in names:
            self._packs.remove(workflow_id, names[workflow_id])
        remove_files(self._folder, paths)

    async def stored(self, workflow_id: str | None) -> AsyncGenerator[Sequence[StoredObject], None]:
        pages = self._pages([workflow_id] if workflow_id else os.listdir(self._folder))
        while page := await asyncio.to_thread(next, pages, ()):
            yield page

    def _pages(self, workflows: Sequence[str]) -> Iterator[Sequence[StoredObject]]:
        page = list[StoredObject]()
        for workflow_id in workflows:
            packed = self._packs.contents(workflow_id)
            page += self._files(workflow_id, {content.pack for content in packed})
            page += [StoredObject(f"{workflow_id}/{each.name}", each.size, each.modified_ms / 1000) for each in packed]
            if len(page) >= PAGE:
                yield page
                page = []
        yield page

    def _files(self, path: str, packs: Collection[str] = ()) -> Iterator[StoredObject]:
        """Yield the files below a workflow's folder, but not the packs that are given."""
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(self._folder / path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from self._files(f"{path}/{entry.name}")
                elif entry.name not in packs:
                    with suppress(FileNotFoundError):  # removed in the meantime
                        status = entry.stat()
                        yield StoredObject(f"{path}/{entry.name}", status.st_size, status.st_mtime)


class Bucket:
    """An S3-compatible bucket, or memory."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.is_remote = not isinstance(store, MemoryStore)
        self.look_time = look_time(store)

    async def put(self, workflow_id: str, contents: Mapping[str, bytes]) -> bool:
        renewed = (self._renew(f"{workflow_id}/{name}", content) for name, content in contents.items())
        return all(await asyncio.gather(*renewed))

    async def _renew(self, path: str, content: bytes) -> bool:
        """Store content, replacing an existing copy, which may be old and about to be removed."""
        if len(content) <= PART and await self.create(path, content):
            return True
        await self.replace(path, content)
        return False

    async def create(self, path: str, content: bytes) -> bool:
        with suppress(AlreadyExistsError, PreconditionError):
            await self._call("put", path, content, mode="create")
            return True
        return False

    async def replace(self, path: str, content: bytes) -> None:
        await self._call("put", path, content, mode="overwrite", chunk_size=PART, max_concurrency=PARTS_AT_ONCE)

    async def read(self, path: str) -> bytes:
        found = await self._call("get", path)
        return bytes(await found.bytes_async() if self.is_remote else found.bytes())

    async def size(self, path: str) -> int:
        return int((await self._call("head", path))["size"])

    async def modified(self, path: str) -> float:
        return float((await self._call("head", path))["last_modified"].timestamp())

    async def remove(self, paths: Sequence[str]) -> None:
        if paths:
            await self._call("delete", list(paths))

    async def stored(self, workflow_id: str | None) -> AsyncGenerator[Sequence[StoredObject], None]:
        listing: Any = self._store.list(workflow_id)
        async for page in listing if self.is_remote else _pages(listing):
            yield [StoredObject(each["path"], each["size"], each["last_modified"].timestamp()) for each in page]

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


def is_content(path: str) -> bool:
    """Return whether the path is that of a content, and not of a key, a marker or a remembered answer."""
    return _CONTENT.fullmatch(path) is not None


def _split(path: str) -> tuple[str, str]:
    """Return the workflow's id and what follows."""
    workflow_id, _, name = path.partition("/")
    return workflow_id, name
