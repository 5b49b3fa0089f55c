"""Small contents of a folder, appended to one file per workflow and process instead of a file for each.

A pack is `<workflow>/<process>.pack`: one record after the other, each a header and the content, compressed where that
makes it shorter. Only the process that created a pack appends to it, so processes need no lock, and only the last
record can be incomplete: that of a process that died while it wrote. Nothing moves within a pack: to remove a
content, `remove` copies the other records into a new pack and deletes the old one.
"""

import os
import struct
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from importlib import resources
from itertools import count
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from zstandard import ZstdCompressionDict, ZstdCompressor, ZstdDecompressor, ZstdError

from poweron_events.content_files import PROCESS, write_all

SUFFIX: Final = ".pack"
SMALL: Final = 64_000  # bytes; larger contents are files of their own
MAX_OWN: Final = 10_000  # packs that this process remembers; it starts another one for a workflow that it forgot
MAX_INDEXES: Final = 200  # workflows whose places are kept in memory
_HEADER: Final = struct.Struct(">32sQII")
"""The name, the time of writing in milliseconds since 1970, the size of the content, and that of what is stored."""
LEVEL: Final = 1  # of 22
DICTIONARY_FILE: Final = "content.zstd-dictionary"
_NUMBERS: Final = count()
# Contents are kept for years: a new dictionary gets a name of its own, and this one stays.
_dictionary: Final = ZstdCompressionDict(resources.files(__package__).joinpath(DICTIONARY_FILE).read_bytes())
_dictionary.precompute_compress(level=LEVEL)
_compressor: Final = ZstdCompressor(level=LEVEL, dict_data=_dictionary, write_checksum=False)
_decompressor: Final = ZstdDecompressor(dict_data=_dictionary)


class PackedContent(NamedTuple):
    """Where a content is in the packs of its workflow."""

    name: str
    size: int  # bytes of the content
    modified_ms: int  # since 1970, by the clock of the writer
    pack: str
    offset: int
    """The place of its header."""
    length: int  # bytes that are stored, without the header


class _Index:
    """The contents of a workflow's packs, and how far each pack was read."""

    def __init__(self) -> None:
        self.contents: dict[str, PackedContent] = {}
        self.ends: dict[str, int] = {}


class ContentPacks:
    """The packs below one folder, which has a folder for each workflow; every method blocks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own: dict[tuple[int, str], str] = {}  # by process, since a fork must not append to its parent's pack
        self._indexes: dict[str, _Index] = {}
        self._writing, self._reading = threading.Lock(), threading.Lock()

    def append(self, workflow_id: str, contents: Mapping[str, bytes]) -> None:
        """Store contents by their names, all or none.

        Raises:
            OSError: they could not be written; FileNotFoundError if the workflow's folder does not exist.
        """
        now = time.time_ns() // 1_000_000
        self._append(workflow_id, b"".join(record(name, content, now) for name, content in contents.items()))

    def read(self, workflow_id: str, name: str) -> bytes | None:
        """Return a content; None if no pack has it."""
        while (content := self.find(workflow_id, name)) is not None:
            with suppress(FileNotFoundError):  # a clean-up has moved it since it was found
                return self._read(workflow_id, content)
        return None

    def _read(self, workflow_id: str, content: PackedContent) -> bytes:
        with (self._folder / workflow_id / content.pack).open("rb") as file:
            return read_content(file, content)

    def find(self, workflow_id: str, name: str) -> PackedContent | None:
        """Return where a content is; None if no pack has it."""
        with self._reading:
            index = self._indexes.get(workflow_id)
            content = index.contents.get(name) if index else None
            if content is None or not os.path.exists(f"{self._folder}/{workflow_id}/{content.pack}"):
                index = self._read_on(workflow_id, index or _Index())
                self._indexes.pop(workflow_id, None)
                if len(self._indexes) >= MAX_INDEXES:
                    del self._indexes[next(iter(self._indexes))]  # the one that was read on longest ago
                self._indexes[workflow_id] = index
                content = index.contents.get(name)
            return content

    def contents(self, workflow_id: str) -> Collection[PackedContent]:
        """Return all contents of a workflow's packs, each as it was written last, from the files as they are now."""
        return [*self._read_on(workflow_id, _Index()).contents.values()]

    def remove(self, workflow_id: str, names: Collection[str]) -> None:
        """Remove contents, and what a process that died did not finish writing; others keep their times."""
        packs = self._packs(workflow_id)
        with self._writing:
            self._own.pop((os.getpid(), workflow_id), None)  # no copy may go into a pack that is about to be deleted
        for pack in packs:
            with (self._folder / workflow_id / pack).open("rb") as file:
                records, end = read_records(file, pack, 0)
                going = {record for record in records if record.name in names}
                if not going and end == os.fstat(file.fileno()).st_size:
                    continue
                self._copy(workflow_id, file, [record for record in records if record not in going])
                (self._folder / workflow_id / pack).unlink()
                # What its writer appended meanwhile. After this it sees that the pack is gone, and starts another one.
                self._copy(workflow_id, file, read_records(file, pack, end)[0])
        with self._reading:
            self._indexes.pop(workflow_id, None)

    def _copy(self, workflow_id: str, file: BinaryIO, records: Collection[PackedContent]) -> None:
        for record in records:
            file.seek(record.offset)
            self._append(workflow_id, file.read(_HEADER.size + record.length))

    def _append(self, workflow_id: str, records: bytes) -> None:
        own = (os.getpid(), workflow_id)
        with self._writing:
            while not self._appended(f"{self._folder}/{workflow_id}", self._own.pop(own, None), records, own):
                pass

    def _appended(self, folder: str, pack: str | None, records: bytes, own: tuple[int, str]) -> bool:
        """Append to the pack, or to a new one; return False if the pack was removed in the meantime."""
        flags = os.O_WRONLY | os.O_APPEND
        if pack is None:
            pack, flags = f"{PROCESS}-{os.getpid()}-{next(_NUMBERS)}{SUFFIX}", flags | os.O_CREAT | os.O_EXCL
        try:
            descriptor = os.open(f"{folder}/{pack}", flags, 0o600)
        except FileNotFoundError:
            if flags & os.O_CREAT:
                raise
            return False
        try:
            _write_or_undo(descriptor, f"{folder}/{pack}", records)
            exists = os.fstat(descriptor).st_nlink > 0
        finally:
            os.close(descriptor)
        if exists:
            if len(self._own) >= MAX_OWN:
                self._own.clear()
            self._own[own] = pack
        return exists

    def _read_on(self, workflow_id: str, index: _Index) -> _Index:
        """Return the index, read on to the ends of the workflow's packs; a new one if a pack was removed since."""
        packs = self._packs(workflow_id)
        if index.ends.keys() - packs:
            index = _Index()
        for pack in packs:
            try:
                with (self._folder / workflow_id / pack).open("rb") as file:
                    records, index.ends[pack] = read_records(file, pack, index.ends.get(pack, 0))
            except FileNotFoundError:
                continue
            for record in records:
                known = index.contents.get(record.name)
                if known is None or known.modified_ms <= record.modified_ms:
                    index.contents[record.name] = record
        return index

    def _packs(self, workflow_id: str) -> Collection[str]:
        try:
            return {name for name in os.listdir(f"{self._folder}/{workflow_id}") if name.endswith(SUFFIX)}
        except (FileNotFoundError, NotADirectoryError):
            return set()


def _write_or_undo(descriptor: int, path: str, records: bytes) -> None:
    """Append the records; retries must not fill a full disk further with a part of them."""
    end = os.lseek(descriptor, 0, os.SEEK_END)
    try:
        write_all(descriptor, records)
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, end) if end else os.unlink(path)
        raise


def record(name: str, content: bytes, now: int) -> bytes:
    """Return a record; `now` is in milliseconds since 1970."""
    compressed = _compressor.compress(content)
    stored = compressed if len(compressed) < len(content) else content
    return _HEADER.pack(bytes.fromhex(name), now, len(content), len(stored)) + stored


def read_records(file: BinaryIO, pack: str, start: int) -> tuple[list[PackedContent], int]:
    """Return the complete records from a place on, and where they end."""
    records = []
    end, size = start, file.seek(0, os.SEEK_END)
    while end + _HEADER.size <= size:
        file.seek(end)
        name, modified, content_size, length = _HEADER.unpack(file.read(_HEADER.size))
        if end + _HEADER.size + length > size:
            break
        records.append(PackedContent(name.hex(), content_size, modified, pack, end, length))
        end += _HEADER.size + length
    return records, end


def read_content(file: BinaryIO, place: PackedContent) -> bytes:
    """Return a content; what was damaged is returned as it is stored, for `poweron verify --content` to report."""
    file.seek(place.offset + _HEADER.size)
    stored = file.read(place.length)
    if len(stored) == place.size:
        return stored
    try:
        return _decompressor.decompress(stored, max_output_size=place.size)
    except ZstdError:
        return stored
