"""The search engine that the settings name, open for as long as its context lasts.

Requests to an engine use their own web client, which may reach that engine on any network and fetches no pages.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from poweron_events.errors import Refused
from poweron_services.connectors.search.page_folder import PageFolder
from poweron_services.connectors.search.search_provider import Search
from poweron_services.connectors.web.page_cache import LocalPages
from poweron_services.settings.action_variables import SearchKeys
from poweron_services.settings.config import Settings


@dataclass(frozen=True, slots=True)
class SearchEngine:
    """An open search engine."""

    name: str
    """Such as `tavily`."""
    search: Search
    folder_page: LocalPages | None = None
    """Serves the pages that the engine holds itself; a fetch asks it first, and asks the web if it returns None."""


@asynccontextmanager
async def open_search(settings: Settings, keys: SearchKeys) -> AsyncGenerator[SearchEngine | None, None]:
    """Open the search engine that POWERON_SEARCH names; yield None if it is unset.

    Raises:
        Refused: the setting is unusable; the message says what to set.
    """
    engine, _, place = (settings.search or "").partition(":")
    if not engine:
        yield None
    elif engine == "folder":
        yield _folder(Path(place))
    else:
        async with _open_api(engine, *_access(engine, place, keys), settings) as search:
            yield SearchEngine(engine, search)


def _folder(path: Path) -> SearchEngine:
    folder = path.expanduser()
    if not folder.is_dir():
        raise Refused(
            f"POWERON_SEARCH names the folder {str(folder)!r}, and there is none: set it to `folder:` and a folder of "
            "pages.",
            code="search_misconfigured",
        )
    pages = PageFolder(folder)
    return SearchEngine("folder", pages.search, pages.page)


def _access(engine: str, place: str, keys: SearchKeys) -> tuple[str, SecretStr | None]:
    """The address of an engine and our key for it."""
    match engine:
        case "tavily":
            return keys.tavily_base_url, _key(keys.tavily_api_key, "Tavily", "TAVILY_API_KEY")
        case "brave":
            return keys.brave_base_url, _key(keys.brave_api_key, "Brave", "BRAVE_API_KEY")
        case _:
            return place, None


def _key(key: SecretStr | None, name: str, variable: str) -> SecretStr:
    if key is None:
        sentence = f"POWERON_SEARCH names {name}: set {variable} to your key."
        raise Refused(sentence, code="search_misconfigured")
    return key


@asynccontextmanager
async def _open_api(engine: str, place: str, key: SecretStr | None, settings: Settings) -> AsyncGenerator[Search, None]:
    """Open an engine with an API. The imports are local because they are slow."""
    from poweron_services.connectors.search.brave import Brave  # noqa: PLC0415
    from poweron_services.connectors.search.searxng import SearXNG  # noqa: PLC0415
    from poweron_services.connectors.search.tavily import Tavily  # noqa: PLC0415
    from poweron_services.connectors.web.web_client import open_web_client  # noqa: PLC0415
    from poweron_services.connectors.web.web_rules import WebSettings  # noqa: PLC0415

    async with open_web_client(WebSettings.of(settings), engine=place) as client:
        match engine, key:
            case "tavily", SecretStr():
                yield Tavily(place, key, client).search
            case "brave", SecretStr():
                yield Brave(place, key, client).search
            case _:
                yield SearXNG(place, client).search
