"""The files of a folder of pages, and the address that each has in the web.

A folder whose name is the name of a host holds the pages of that host, as programs that copy sites lay them out: the
file `museum.example/visit/index.html` has the address `https://museum.example/visit/`. All other files lie on one host,
which is named after the folder of pages itself: the file `prices.md` of a folder `site` has the address
`https://site.example/prices.md`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from pydantic import TypeAdapter, ValidationError

from poweron_events.catalog import HostName

MEDIA_TYPES: Final = {
    ".html": "text/html",
    ".htm": "text/html",
    ".xhtml": "application/xhtml+xml",
    ".md": "text/markdown",
    ".txt": "text/plain",
    ".pdf": "application/pdf",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".csv": "text/csv",
    ".json": "application/json",
}
"""What each kind of file is; files of other kinds are no pages."""

INDEXES: Final = frozenset({"index.html", "index.htm"})
MAX_FILES = 2_000  # that are read before the first search ends, some ten milliseconds each
MAX_BYTES = 20_000_000  # of a file

_HOST: Final = TypeAdapter[str](HostName)


@dataclass(frozen=True, slots=True)
class FolderFile:
    """A file that is a page."""

    path: Path
    url: str
    """The address that it has by where it lies."""
    changed: tuple[int, int]
    """When it was written, and its size: who sees others has another file before him."""

    @property
    def media_type(self) -> str:
        return MEDIA_TYPES[self.path.suffix.lower()]


def folder_files(folder: Path) -> tuple[FolderFile, ...]:
    """The pages of a folder by their paths; hidden files, and what leads out of the folder, are none."""
    whole = folder.resolve()
    found = []
    for path in sorted(_visible(whole)):
        state = path.stat()
        if state.st_size <= MAX_BYTES:
            found.append(FolderFile(path, _address(whole, path), (state.st_mtime_ns, state.st_size)))
    return tuple(found)


def page_key(url: str) -> str:
    """What the addresses of one page have in common: `http` or not, a fragment, an escape, a named index make none."""
    parts = urlsplit(url)
    path = unquote(parts.path) or "/"
    folder, _, name = path.rpartition("/")
    if name in INDEXES:
        path = f"{folder}/"
    return f"{(parts.hostname or '').rstrip('.')}{path}{f'?{unquote(parts.query)}' if parts.query else ''}"


def _visible(folder: Path) -> Iterator[Path]:
    count = 0
    for path in folder.rglob("*"):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if hidden or path.suffix.lower() not in MEDIA_TYPES or path.name == "robots.txt" or not path.is_file():
            continue
        if path.resolve().is_relative_to(folder):
            yield path
            count += 1
        if count == MAX_FILES:
            return


def _address(folder: Path, path: Path) -> str:
    *folders, name = path.relative_to(folder).parts
    host = folders.pop(0) if folders and _is_host(folders[0]) else f"{_label(folder.name)}.example"
    return f"https://{host}/{quote('/'.join([*folders, '' if name in INDEXES else name]))}"


def _is_host(name: str) -> bool:
    try:
        return bool(_HOST.validate_python(name))
    except ValidationError:
        return False


def _label(name: str) -> str:
    return re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")[:63].strip("-") or "folder"
