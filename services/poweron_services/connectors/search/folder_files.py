"""The files of a folder of pages, and the web address of each.

A subfolder named like a host holds the pages of that host, in the layout of programs that mirror sites: the file
`museum.example/visit/index.html` has the address `https://museum.example/visit/`. All other files belong to one host,
which is named after the folder of pages itself: the file `prices.md` in a folder `site` has the address
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
"""The media types by file extension; files with other extensions are not pages."""

INDEXES: Final = frozenset({"index.html", "index.htm"})
MAX_FILES = 2_000  # all are read before the first search returns, about ten milliseconds each
MAX_BYTES = 20_000_000  # of a file

_HOST: Final = TypeAdapter[str](HostName)


@dataclass(frozen=True, slots=True)
class FolderFile:
    """A file that holds a page."""

    path: Path
    url: str
    """The address that follows from its path."""
    changed: tuple[int, int]
    """Its modification time and size; if either differs, the file has changed."""

    @property
    def media_type(self) -> str:
        return MEDIA_TYPES[self.path.suffix.lower()]


def folder_files(folder: Path) -> tuple[FolderFile, ...]:
    """List the pages of a folder by path, without hidden or oversized files and links that lead out of the folder."""
    root = folder.resolve()
    files = []
    for path in sorted(_visible(root)):
        state = path.stat()
        if state.st_size <= MAX_BYTES:
            files.append(FolderFile(path, _address(root, path), (state.st_mtime_ns, state.st_size)))
    return tuple(files)


def page_key(url: str) -> str:
    """The key that all addresses of one page share: it ignores the scheme, fragment, escapes and name of an index."""
    parts = urlsplit(url)
    path = unquote(parts.path) or "/"
    folder, _, name = path.rpartition("/")
    if name in INDEXES:
        path = f"{folder}/"
    return f"{(parts.hostname or '').rstrip('.')}{path}{f'?{unquote(parts.query)}' if parts.query else ''}"


def _visible(folder: Path) -> Iterator[Path]:
    count = 0
    for path in folder.rglob("*"):
        is_hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if is_hidden or path.suffix.lower() not in MEDIA_TYPES or path.name == "robots.txt" or not path.is_file():
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
