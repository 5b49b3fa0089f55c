"""A folder of pages that is searched instead of the web and serves its own pages, for work without a network.

A subfolder named like a host holds the pages of that host, in the layout of programs that mirror sites: the file
`museum.example/visit/index.html` has the address `https://museum.example/visit/`. All other files belong to one host,
which is named after the folder of pages itself: the file `prices.md` in a folder `site` has the address
`https://site.example/prices.md`.

The next search sees changes in the folder. Its pages are untrusted because they may be copies of web pages, so they are
read in the same confined processes as those.
"""

import asyncio
import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urljoin, urlsplit

import structlog
from pydantic import TypeAdapter, ValidationError

from poweron_events.catalog import HostName
from poweron_events.errors import Refused
from poweron_services.connectors.document_reader import DocumentReader
from poweron_services.connectors.page_child import OpenPages, ReadPage
from poweron_services.connectors.page_reader import PageReader
from poweron_services.connectors.search.passage_index import (
    FolderPage,
    Found,
    PassageIndex,
    blocks_of,
    decoded,
    title_of,
)
from poweron_services.connectors.search.search_provider import SearchHit, SearchQuery, SearchResults, tidied
from poweron_services.connectors.web.page_cache import FetchedPage
from poweron_services.connectors.web.web_client import WebResponse

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


DAYS: Final = {"day": 1, "week": 7, "month": 31, "year": 366}
PLAIN: Final = frozenset({"text/markdown", "text/plain"})

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Library:
    """The contents of the folder when it was last read."""

    files: tuple[FolderFile, ...]
    pages: tuple[FolderPage, ...]
    addresses: tuple[str, ...]
    """The address of each page: the one it declares, or else the one that follows from its path."""
    lying: Mapping[str, int]
    """The number of each page, by the key of the address that follows from its path."""
    saying: Mapping[str, int]
    """The number of each page, by the key of its entry in `addresses`."""
    index: PassageIndex
    hosts: frozenset[str]


@dataclass(slots=True)
class PageFolder:
    """Searches a folder and serves its pages, without using a network."""

    folder: Path
    today: Callable[[], dt.date] = dt.date.today
    open_pages: OpenPages = field(default_factory=lambda: PageReader(DocumentReader(1)))
    _library: _Library | None = None
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def search(self, query: SearchQuery) -> SearchResults:
        """Return the pages that match the query, best first.

        Raises `Refused` if the folder no longer exists.
        """
        library = await self._open()
        matches = await asyncio.to_thread(library.index.best, query.query)
        hits, notes = self._of_time([_as_hit(library, match) for match in _without_duplicates(library, matches)], query)
        if query.include_answer:
            notes.append("A search in a folder gives no answer of its own.")
        return tidied(SearchResults("folder", tuple(hits), notes=tuple(notes)), query)

    async def page(self, url: str) -> WebResponse | None:
        """Return the page at this address; a 404 if the folder has only its host, None if the web must be asked."""
        library = self._library or await self._open()
        host, place = _place(library, url)
        body = None if place is None else await asyncio.to_thread(_bytes, library.files[place[0]])
        if place is not None and body is not None:
            return WebResponse(place[1], 200, {"content-type": library.files[place[0]].media_type}, body)
        return WebResponse(url, 404, {}, b"") if place is not None or host in library.hosts else None

    async def _open(self) -> _Library:
        async with self._opening:
            files = await asyncio.to_thread(_files, self.folder)
            if self._library is None or self._library.files != files:
                pages = await _pages(files, self.open_pages)
                self._library = await asyncio.to_thread(_library, files, tuple(pages))
            return self._library

    def _of_time(self, hits: Iterable[SearchHit], query: SearchQuery) -> tuple[list[SearchHit], list[str]]:
        """Keep the hits in the requested time range; pages without a date are kept too."""
        hits = list(hits)
        if query.time_range is None:
            return hits, []
        first = (self.today() - dt.timedelta(days=DAYS[query.time_range])).isoformat()
        hits_in_range = [hit for hit in hits if hit.published is None or hit.published >= first]
        undated = sum(hit.published is None for hit in hits_in_range)
        return hits_in_range, ["Pages that say no date are among the results."] if undated else []


def _files(folder: Path) -> tuple[FolderFile, ...]:
    if not folder.is_dir():
        raise Refused(f"There is no folder {str(folder)!r} to search in.", code="search_unavailable")
    return folder_files(folder)


def _bytes(file: FolderFile) -> bytes | None:
    """Return the contents of a file, or None if it is gone or unreadable."""
    try:
        return file.path.read_bytes()
    except OSError as error:
        log.warning("search_page_unreadable", name=file.path.name, error=error.strerror)
        return None


async def _pages(files: Iterable[FolderFile], open_pages: OpenPages) -> list[FolderPage]:
    async with open_pages() as read:
        return [await _page(file, read) for file in files]


async def _page(file: FolderFile, read: ReadPage) -> FolderPage:
    """Read a page in the same way as pages of the web. A page that cannot be read has only its file name."""
    name = file.path.name
    data = await asyncio.to_thread(_bytes, file)
    if not data:
        return FolderPage(name)
    if file.media_type in PLAIN:
        blocks = blocks_of(decoded(data))
        return FolderPage(title_of(blocks, name), blocks)
    page = FetchedPage(file.url, file.url, 200, {"content-type": file.media_type}, data, "", "", "")
    try:
        text = await read(page, depth="advanced", text_format="text")
    except Refused as error:
        log.warning("search_page_unreadable", name=name, error=str(error))
        return FolderPage(name)
    blocks = blocks_of(text.text)
    return FolderPage(text.title or title_of(blocks, name), blocks, text.language, text.published, text.canonical_url)


def _library(files: tuple[FolderFile, ...], pages: tuple[FolderPage, ...]) -> _Library:
    lying = {page_key(file.url): number for number, file in enumerate(files)}
    addresses = tuple(_own_address(file, page, lying) for file, page in zip(files, pages, strict=True))
    saying: dict[str, int] = {}
    for number, address in enumerate(addresses):
        saying.setdefault(page_key(address), number)
    hosts = frozenset(urlsplit(file.url).hostname or "" for file in files)
    return _Library(files, pages, addresses, lying, saying, PassageIndex(pages), hosts)


def _own_address(file: FolderFile, page: FolderPage, lying: Mapping[str, int]) -> str:
    """The address that a page declares. If it is on another host, a file in the folder must have that address."""
    try:
        url = urljoin(file.url, (page.canonical or "").strip())
        parts = urlsplit(url)
        host, own_host = parts.hostname or "", urlsplit(file.url).hostname or ""
    except ValueError:
        return file.url
    is_own = host.removeprefix("www.") == own_host.removeprefix("www.")
    is_address = parts.scheme in {"http", "https"} and bool(host)
    return url if is_address and (is_own or page_key(url) in lying) else file.url


def _place(library: _Library, url: str) -> tuple[str, tuple[int, str] | None]:
    """The host of an address, and the number and address of its page, if any; a final `/` may be missing."""
    try:
        host, key = urlsplit(url).hostname or "", page_key(url)
    except ValueError:
        return "", None
    for variant in (key, f"{key}/"):
        if variant in library.lying:
            number = library.lying[variant]
            return host, (number, library.files[number].url)
    number = library.saying.get(key, -1)
    return host, None if number < 0 else (number, library.addresses[number])


def _without_duplicates(library: _Library, matches: Iterable[Found]) -> Iterable[Found]:
    """Keep the best of all pages with the same address."""
    keys: set[str] = set()
    for match in matches:
        key = page_key(library.addresses[match.page])
        if key not in keys:
            keys.add(key)
            yield match


def _as_hit(library: _Library, match: Found) -> SearchHit:
    page = library.pages[match.page]
    return SearchHit(
        url=library.addresses[match.page],
        title=page.title or library.files[match.page].path.name,
        snippet=match.passage,
        published=page.published,
        language=page.language,
        raw_content=page.text,
    )
