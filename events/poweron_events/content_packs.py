"""Small contents of a folder, appended to one file per workflow and process instead of a file for each.

A pack is `<workflow>/<process>.pack`: one record after the other, each a header and the content, compressed where that
makes it shorter. Only the process that created a pack appends to it, so processes need no lock, and only the last
record can be incomplete, if the process died while it wrote. Nothing moves within a pack: to remove a
content, `remove` renames the pack, copies the other records into a new one, and deletes the old one.

Larger contents are files of their own, written completely or not at all.
"""

import errno
import os
import re
import secrets
import struct
import threading
import time
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import resources
from itertools import count
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple
from zlib import crc32

from zstandard import ZstdCompressionDict, ZstdCompressor, ZstdDecompressor, ZstdError

PROCESS, _NUMBERS = secrets.token_hex(8), count()  # together unique for each file being written


SUFFIX: Final = ".pack"


SMALL: Final = 64_000  # bytes; larger contents are files of their own


MAX_OWN: Final = 10_000  # packs that this process remembers; it starts another one for a workflow that it forgot


MAX_INDEXES: Final = 200  # workflows whose places are kept in memory


LEVEL: Final = 1  # of 22


DICTIONARY_FILE: Final = "content.zstd-dictionary"
"""Contents are kept for years: a new dictionary gets a name of its own, and this one stays."""


_FIELDS: Final = struct.Struct(">32sQII")
"""The name, the time of writing in milliseconds since 1970, the size of the content, and its stored size."""


_CHECKSUM: Final = struct.Struct(">I")
"""The CRC-32 of the fields, which follows them."""


HEADER: Final = _FIELDS.size + _CHECKSUM.size  # bytes


class _Codec(threading.local):
    """A thread's own compressor and decompressor: they must not be shared."""

    def __init__(self) -> None:
        dictionary = _dictionary()
        self.compressor = ZstdCompressor(level=LEVEL, dict_data=dictionary)
        self.decompressor = ZstdDecompressor(dict_data=dictionary)


@cache
def _dictionary() -> ZstdCompressionDict:
    dictionary = ZstdCompressionDict(resources.files(__package__).joinpath(DICTIONARY_FILE).read_bytes())
    dictionary.precompute_compress(level=LEVEL)
    return dictionary


@cache
def _codec() -> _Codec:
    return _Codec()


class PackedContent(NamedTuple):
    """Where a content is in the packs of its workflow."""

    name: str
    size: int  # bytes of the content
    modified_ms: int  # since 1970, by the clock of the writer
    pack: str
    offset: int
    """Where its header begins."""
    length: int  # bytes that are stored, without the header


class PackRecords(NamedTuple):
    """The records of a pack from an offset on."""

    contents: list[PackedContent]
    end: int
    """Where the last complete record ends."""
    is_torn: bool
    """Whether an incomplete record follows: it is being written, or its writer died."""
    is_damaged: bool
    """Whether a damaged record follows, so that the records after it cannot be found."""


class _Index:
    """The contents of a workflow's packs, and how far each pack was read."""

    def __init__(self) -> None:
        self.contents: dict[str, PackedContent] = {}
        self.ends: dict[str, int] = {}

    def add(self, pack: str, records: "PackRecords") -> None:
        """Add the records of a pack; of several with one name, the newest counts."""
        self.ends[pack] = records.end
        for content in records.contents:
            known = self.contents.get(content.name)
            if known is None or known.modified_ms <= content.modified_ms:
                self.contents[content.name] = content


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
        self._append(workflow_id, records_of(contents))

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
                    del self._indexes[next(iter(self._indexes))]  # the one that was extended longest ago
                self._indexes[workflow_id] = index
                content = index.contents.get(name)
            return content

    def contents(self, workflow_id: str) -> Collection[PackedContent]:
        """Read a workflow's packs again and return all contents, each in its newest record."""
        return [*self._read_on(workflow_id, _Index()).contents.values()]

    def remove(self, workflow_id: str, names: Collection[str]) -> None:
        """Remove contents, and the incomplete record of a process that died; the other contents keep their times.

        A damaged pack stays as it is, since its other contents may still be wanted.
        """
        for pack in self._packs(workflow_id):
            with suppress(FileNotFoundError):  # removed in the meantime
                self._rewrite(f"{self._folder}/{workflow_id}", pack, names)

    def erase(self, workflow_id: str, names: Collection[str]) -> None:
        """Remove contents, and what a damaged pack has behind the damage: it may be one of them."""
        for pack in self._packs(workflow_id):
            with suppress(FileNotFoundError):
                self._rewrite(f"{self._folder}/{workflow_id}", pack, names, also_damaged=True)

    def _rewrite(self, folder: str, pack: str, names: Collection[str], *, also_damaged: bool = False) -> None:
        """Copy the remaining records to a new pack. A process that dies here leaves copies, which do no harm.

        A writer that has the pack open checks after each write that the pack still has its name; if not, it writes
        again.
        """
        with open(f"{folder}/{pack}", "rb") as file:
            records = read_records(file, pack, 0)
            if records.is_damaged and not also_damaged:
                return
            if not (records.is_damaged or records.is_torn or any(each.name in names for each in records.contents)):
                return
            renamed = _new_pack()
            os.rename(f"{folder}/{pack}", f"{folder}/{renamed}")
            staying = {each.name: each for each in read_records(file, pack, 0).contents if each.name not in names}
            if staying:
                write(f"{folder}/{_new_pack()}", b"".join(_stored_record(file, each) for each in staying.values()))
            os.unlink(f"{folder}/{renamed}")

    def _append(self, workflow_id: str, records: bytes) -> None:
        own = (os.getpid(), workflow_id)
        with self._writing:
            while not self._appended(f"{self._folder}/{workflow_id}", self._own.pop(own, None), records, own):
                pass

    def _appended(self, folder: str, pack: str | None, records: bytes, own: tuple[int, str]) -> bool:
        """Append to the pack, or to a new one; return False if the pack was removed in the meantime."""
        flags = os.O_WRONLY | os.O_APPEND
        if pack is None:
            pack, flags = _new_pack(), flags | os.O_CREAT | os.O_EXCL
        try:
            descriptor = os.open(f"{folder}/{pack}", flags, 0o600)
        except FileNotFoundError:
            if flags & os.O_CREAT:
                raise
            return False
        try:
            _write_or_undo(descriptor, f"{folder}/{pack}", records)
            is_there = _is_still(descriptor, f"{folder}/{pack}")
        finally:
            os.close(descriptor)
        if is_there:
            if len(self._own) >= MAX_OWN:
                self._own.clear()
            self._own[own] = pack
        return is_there

    def _read_on(self, workflow_id: str, index: _Index) -> _Index:
        """Extend the index to the ends of the workflow's packs and return it; a new one if a pack was removed since."""
        while True:
            packs = self._packs(workflow_id)
            if index.ends.keys() - packs:
                index = _Index()
            try:
                for pack in packs:
                    with (self._folder / workflow_id / pack).open("rb") as file:
                        records = read_records(file, pack, index.ends.get(pack, 0))
                    index.add(pack, records)
            except FileNotFoundError:  # a clean-up has copied it meanwhile, to a pack that may not be listed
                continue
            return index

    def _packs(self, workflow_id: str) -> Collection[str]:
        try:
            return {name for name in os.listdir(f"{self._folder}/{workflow_id}") if name.endswith(SUFFIX)}
        except (FileNotFoundError, NotADirectoryError):
            return set()


def _write_or_undo(descriptor: int, path: str, records: bytes) -> None:
    """Append the records or undo a partial write: retries must not fill a full disk further."""
    end = os.lseek(descriptor, 0, os.SEEK_END)
    try:
        write_all(descriptor, records)
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, end) if end else os.unlink(path)
        raise


def _is_still(descriptor: int, path: str) -> bool:
    """Return whether the path still names the open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _new_pack() -> str:
    return f"{PROCESS}-{os.getpid()}-{next(_PACK_NUMBERS)}{SUFFIX}"


def records_of(contents: Mapping[str, bytes]) -> bytes:
    """Return a record for each content, written now."""
    now = time.time_ns() // 1_000_000
    return b"".join(record(name, content, now) for name, content in contents.items())


def record(name: str, content: bytes, now: int) -> bytes:
    """Return a record; `now` is in milliseconds since 1970."""
    compressed = _codec().compressor.compress(content)
    stored = compressed if len(compressed) < len(content) else content
    fields = _FIELDS.pack(bytes.fromhex(name), now, len(content), len(stored))
    return fields + _CHECKSUM.pack(crc32(fields)) + stored


def read_records(file: BinaryIO, pack: str, start: int) -> PackRecords:
    """Return the complete records of a pack from an offset on, and whether an incomplete or damaged one follows."""
    contents = list[PackedContent]()
    end, size = start, file.seek(0, os.SEEK_END)
    while end < size:
        file.seek(end)
        fields, checksum = file.read(_FIELDS.size), file.read(_CHECKSUM.size)
        if len(fields) + len(checksum) < HEADER:
            break
        if _CHECKSUM.pack(crc32(fields)) != checksum:
            return PackRecords(contents, end, is_torn=False, is_damaged=True)
        name, modified, content_size, length = _FIELDS.unpack(fields)
        if end + HEADER + length > size:
            break
        contents.append(PackedContent(name.hex(), content_size, modified, pack, end, length))
        end += HEADER + length
    return PackRecords(contents, end, is_torn=end < size, is_damaged=False)


def read_content(file: BinaryIO, place: PackedContent) -> bytes:
    """Return a content.

    Raises:
        OSError: what is stored is damaged.
    """
    stored = _stored_record(file, place)[HEADER:]
    if len(stored) == place.size:
        return stored
    try:
        return _codec().decompressor.decompress(stored, max_output_size=place.size)
    except ZstdError as error:
        raise OSError(errno.EIO, f"the bytes of content {place.name} are damaged") from error


def _stored_record(file: BinaryIO, place: PackedContent) -> bytes:
    file.seek(place.offset)
    return file.read(HEADER + place.length)


LEFTOVER: Final = re.compile(r".+\.[0-9a-f]{16}-[0-9]+")
"""The name of a file that was being written when its process died."""


def remove_files(folder: Path, paths: Sequence[str]) -> None:
    """Remove files below a folder, and the folders that this leaves empty."""
    for path in paths:
        with suppress(FileNotFoundError):
            (folder / path).unlink()
    emptied = {folder / above for path in paths for above in Path(path).parents} - {folder}
    for each in sorted(emptied, reverse=True):
        with suppress(OSError):  # not empty, or gone
            each.rmdir()


def create(path: Path, content: bytes) -> None:
    """Create a file with its content at once, and its folder if needed; only this account may read either.

    Raises:
        FileExistsError: there is a file already, perhaps with other content.
    """
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with _written_beside(str(path), content) as beside:
        os.link(beside, path)
        os.unlink(beside)


def write_all(descriptor: int, content: bytes) -> None:
    """Write all of the content; the system may take only a part at a time."""
    written = os.write(descriptor, content)
    while written < len(content):
        written += os.write(descriptor, content[written:])


def write_below(path: Path, content: bytes) -> None:
    """Write a file into a subfolder of the workflow's folder, which must exist; create the subfolder if needed."""
    with suppress(FileExistsError):
        path.parent.mkdir(mode=0o700)
    write(str(path), content)


def write(path: str, content: bytes) -> None:
    """Write a file completely or not at all, even with concurrent writers; only this account may read it."""
    with _written_beside(path, content) as beside:
        os.replace(beside, path)


@contextmanager
def _written_beside(path: str, content: bytes) -> Generator[str, None, None]:
    """Write a new file beside the path, and remove it on an error: retries must not fill a full disk further.

    Uses file descriptors, which take half the time of file objects.
    """
    beside = f"{path}.{PROCESS}-{next(_NUMBERS)}"
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            write_all(descriptor, content)
        finally:
            os.close(descriptor)
        yield beside
    except OSError:
        with suppress(FileNotFoundError):
            os.unlink(beside)
        raise


_PACK_NUMBERS: Final = count()
