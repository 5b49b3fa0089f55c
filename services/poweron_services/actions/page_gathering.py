"""Pages are fetched and read side by side, within limits; what cannot be read is told, not fatal to the others."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from poweron_events.catalog import ExtractDepth, PageFormat
from poweron_events.codes import Code
from poweron_events.errors import Refused
from poweron_events.event import WebPage
from poweron_services.actions.page_addresses import comparable
from poweron_services.connectors.page_text import Obstacle, PageText, ReadPage
from poweron_services.connectors.web.page import FetchedPage, FetchPage

AT_ONCE: Final = 16  # pages that are waited for side by side; each host has limits of its own
UNKNOWN: Final = "Its address stands neither in the request nor among the links of an earlier result."
MAX_TITLE: Final = 300  # characters

_OBSTACLES: Final[dict[Obstacle, tuple[Code, str]]] = {
    "javascript": ("page_needs_javascript", "It shows its text only in a browser that runs its scripts."),
    "login": ("page_needs_login", "It shows its text only to those who have signed in."),
    "consent": ("page_needs_consent", "It asks for a consent before it shows its text."),
}


@dataclass(frozen=True, slots=True)
class GatheringLimits:
    """How much one step reads of the web."""

    pages: int
    seconds: float
    bytes: int = 100_000_000
    """Of all pages together, decompressed."""


@dataclass(frozen=True, slots=True)
class GatheredPage:
    """A page that was fetched and read."""

    page: WebPage
    text: PageText
    requested: str
    also_at: tuple[str, ...] = ()
    """Where the same text stands, too."""


@dataclass(frozen=True, slots=True)
class UnreadPage:
    """A page of which nothing was read."""

    address: str
    code: Code
    why: str
    """A sentence."""


@dataclass(slots=True)
class Gathering:
    """Reads pages until one of the limits is reached."""

    fetch: FetchPage
    read: ReadPage
    depth: ExtractDepth
    text_format: PageFormat
    limits: GatheringLimits
    unread: list[UnreadPage] = field(default_factory=list)
    without_text: list[GatheredPage] = field(default_factory=list)
    """Those of the unread that at least link to others."""
    tried: set[str] = field(default_factory=set)
    left_out: int = 0
    """How many addresses were not even tried, for the limits."""
    _bytes: int = 0
    _until: float = field(init=False)
    _places: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._until = asyncio.get_running_loop().time() + self.limits.seconds
        self._places = asyncio.Semaphore(AT_ONCE)

    @property
    def is_over(self) -> bool:
        """Whether a limit is reached, so that no more is read."""
        return self._room < 1 or self._bytes >= self.limits.bytes or asyncio.get_running_loop().time() >= self._until

    @property
    def _room(self) -> int:
        return self.limits.pages - len(self.tried)

    async def gather(self, addresses: Sequence[str]) -> list[GatheredPage]:
        """The pages that can be read, in the order of their addresses; one that was tried before is not tried again.

        Raises `Unavailable` where this machine or the content store is in trouble.
        """
        wanted = [address for address in dict.fromkeys(map(_as_compared, addresses)) if address not in self.tried]
        chosen = wanted[: self._room]
        self.left_out += len(wanted) - len(chosen)
        self.tried.update(chosen)
        tasks = [asyncio.ensure_future(self._page(address)) for address in chosen]
        try:
            found = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return [page for page in found if page is not None]

    async def _page(self, address: str) -> GatheredPage | None:
        try:
            async with asyncio.timeout_at(self._until), self._places:
                return await self._read(address)
        except TimeoutError:
            self._unread(address, "page_timeout", "It was not there before the time of the step was over.")
        except Refused as error:
            self._unread(address, error.code, str(error))
        return None

    async def _read(self, address: str) -> GatheredPage | None:
        if self._bytes >= self.limits.bytes:
            why = f"One step reads at most {self.limits.bytes // 1_000_000} MB."
            self._unread(address, "page_too_large", why)
            return None
        fetched = await self.fetch(address)
        self._bytes += len(fetched.body)
        text = await self.read(fetched, depth=self.depth, text_format=self.text_format)
        if text.text.strip():
            return GatheredPage(_page_of(fetched, text), _with_obstacle(text), address)
        if text.links:
            self.without_text.append(GatheredPage(_page_of(fetched, text), text, address))
        code, why = _OBSTACLES[text.obstacle] if text.obstacle else ("document_without_text", "It holds no text.")
        self._unread(address, code, why)
        return None

    def refuse_unknown(self, addresses: Iterable[str]) -> None:
        """Leave addresses unread that a model may have made up."""
        for address in addresses:
            self._unread(address, "address_unknown", UNKNOWN)

    def _unread(self, address: str, code: Code, why: str) -> None:
        self.unread.append(UnreadPage(address, code, why))


def _as_compared(address: str) -> str:
    return comparable(address) or address


def _page_of(fetched: FetchedPage, text: PageText) -> WebPage:
    return WebPage(
        url=comparable(fetched.url) or fetched.url,
        title=" ".join(text.title.split())[:MAX_TITLE],
        fetched_at=fetched.fetched_at,
        sha256=fetched.sha256,
        content=fetched.content,
    )


def _with_obstacle(text: PageText) -> PageText:
    """What is there is used; that there may be more is said."""
    if text.obstacle is None:
        return text
    _, why = _OBSTACLES[text.obstacle]
    return replace(text, notes=(*text.notes, f"{why} What was read may be only a part of it."))
