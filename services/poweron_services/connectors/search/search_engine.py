"""The search engine that the settings name, opened for as long as somebody searches."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from poweron_events.errors import Refused
from poweron_services.config import Settings
from poweron_services.connectors.search.page_folder import FolderAnswer, PageFolder
from poweron_services.connectors.search.search_provider import Search


@dataclass(frozen=True, slots=True)
class SearchEngine:
    """How the web is searched."""

    name: str
    """Such as `tavily`."""
    search: Search
    folder_page: Callable[[str], Awaitable[FolderAnswer | None]] | None = None
    """Answers for the pages that the engine has itself: whoever fetches asks it first, and the web where it is None."""


@asynccontextmanager
async def open_search(settings: Settings) -> AsyncGenerator[SearchEngine | None, None]:
    """The search engine of POWERON_SEARCH; None where none is set.

    Raises:
        Refused: what is set cannot be used; the sentence says what to set.
    """
    engine, _, place = (settings.search or "").partition(":")
    if engine == "folder":
        yield _folder(Path(place))
    else:
        yield None


def _folder(path: Path) -> SearchEngine:
    folder = path.expanduser()
    if not folder.is_dir():
        raise Refused(f"POWERON_SEARCH names the folder {str(folder)!r}, and there is no such folder.")
    pages = PageFolder(folder)
    return SearchEngine("folder", pages.search, pages.page)
