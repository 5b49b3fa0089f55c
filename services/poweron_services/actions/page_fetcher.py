"""Fetching and reading pages concurrently, within limits; a page that cannot be read is reported and skipped.

The module also finds the addresses in a text, normalises them for comparison, checks which ones are known, and shortens
them.
"""

import asyncio
import html
import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Final

from poweron_events.catalog import ExtractDepth, PageFormat
from poweron_events.codes import Code
from poweron_events.errors import Refused
from poweron_events.event import WebPage
from poweron_services.actions.action import TellProgress, no_progress
from poweron_services.connectors.page_child import Obstacle, PageText, ReadPage
from poweron_services.connectors.page_reader import UnreadablePage
from poweron_services.connectors.web.page_cache import FetchedPage, FetchPage
from poweron_services.decider import web_addresses
from poweron_services.decider.web_addresses import canonical, is_known

MAX_SHOWN: Final = 100  # characters
_HREF: Final = re.compile(
    r"\bhref\s{0,9}=\s{0,9}(?:\"([^\"]{1,4096})\"|'([^']{1,4096})'|([^\s\"'<>]{1,4096}))", re.IGNORECASE
)
_WRITABLE: Final = re.compile(r"https?://[!-~]+")
_BEFORE_HOST: Final = re.compile(r"https?://(?:[^/?#]*@)?", re.IGNORECASE)
AT_ONCE: Final = 16  # pages in flight at once; each host has limits of its own
LEAST_BEHIND_OBSTACLE: Final = 200  # characters: a shorter text is the obstacle, not what is behind it
UNKNOWN: Final = "Its address is neither in the request nor among the links of an earlier result."
MAX_TITLE: Final = 300  # characters

_OBSTACLES: Final[dict[Obstacle, tuple[Code, str]]] = {
    "javascript": ("page_needs_javascript", "It shows its text only in a browser that runs its scripts."),
    "login": ("page_needs_login", "It shows its text only to those who have signed in."),
    "consent": ("page_needs_consent", "It asks for a consent before it shows its text."),
}


@dataclass(frozen=True, slots=True)
class GatheringLimits:
    """How much one step reads from the web."""

    pages: int
    seconds: float
    bytes: int = 100_000_000
    """The bytes of all pages together, decompressed."""

    def within(self, pages: int) -> "GatheringLimits":
        """Return these limits, but with at most this many pages."""
        return replace(self, pages=min(self.pages, pages))


@dataclass(frozen=True, slots=True)
class GatheredPage:
    """A page that was fetched and read."""

    page: WebPage
    text: PageText
    requested: str
    also_at: tuple[str, ...] = ()
    """Other addresses with the same text."""


@dataclass(frozen=True, slots=True)
class UnreadPage:
    """A page that could not be read."""

    address: str
    code: Code
    why: str
    """The reason, as a sentence."""


@dataclass(slots=True)
class Gathering:
    """Reads pages until one of the limits is reached."""

    fetch: FetchPage
    read: ReadPage
    depth: ExtractDepth
    text_format: PageFormat
    limits: GatheringLimits
    tell_progress: TellProgress = no_progress
    unread: list[UnreadPage] = field(default_factory=list)
    without_text: list[GatheredPage] = field(default_factory=list)
    """The unread pages that hold no text; their links may still be followed."""
    tried: set[str] = field(default_factory=set)
    left_out: int = 0
    """How many addresses were not even tried, because of the limits."""
    _done: int = 0
    """How many of the tried addresses are finished."""
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
        """Return the pages that can be read, in the order of their addresses; those tried before are skipped.

        Raises `Unavailable` if this machine or the content store has a problem.
        """
        candidates = [
            address for address in dict.fromkeys(map(_normal_address, addresses)) if address not in self.tried
        ]
        batch = candidates[: self._room]
        self.left_out += len(candidates) - len(batch)
        self.tried.update(batch)
        self._tell()
        tasks = [asyncio.ensure_future(self._page(address)) for address in batch]
        try:
            outcomes = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self.unread += [outcome for outcome in outcomes if isinstance(outcome, UnreadPage)]
        return [outcome for outcome in outcomes if isinstance(outcome, GatheredPage)]

    async def _page(self, address: str) -> GatheredPage | UnreadPage:
        try:
            async with asyncio.timeout_at(self._until), self._places:
                return await self._read(address)
        except TimeoutError:
            return UnreadPage(address, "page_timeout", "It was not there before the time of the step was over.")
        except UnreadablePage as error:
            return UnreadPage(address, error.code, f"It {error.why}")
        except Refused as error:
            return UnreadPage(address, error.code, str(error))
        finally:
            self._done += 1
            self._tell()

    def _tell(self) -> None:
        self.tell_progress("pages_fetched", self._done, len(self.tried))

    async def _read(self, address: str) -> GatheredPage | UnreadPage:
        if self._bytes >= self.limits.bytes:
            most = self.limits.bytes // 1_000_000
            return UnreadPage(address, "page_too_large", f"One step reads at most {most} MB.")
        download = await self.fetch(address)
        self._bytes += len(download.body)
        content = await self.read(download, depth=self.depth, text_format=self.text_format)
        text = _with_truncation(content, download)
        if text.obstacle and len(text.text.strip()) < LEAST_BEHIND_OBSTACLE:
            return UnreadPage(address, *_OBSTACLES[text.obstacle])
        page = GatheredPage(_page_of(download, text), _with_obstacle(text), address)
        if text.text.strip():
            return page
        self.without_text.append(page)
        return UnreadPage(address, "document_without_text", "It holds no text.")

    def refuse_unknown(self, addresses: Iterable[str]) -> None:
        """Record addresses that a model may have made up as unread."""
        self.unread += [UnreadPage(address, "address_unknown", UNKNOWN) for address in addresses]


def _normal_address(address: str) -> str:
    return comparable(address) or address


def _page_of(download: FetchedPage, text: PageText) -> WebPage:
    return WebPage(
        url=comparable(download.url) or download.url,
        title=" ".join(text.title.split())[:MAX_TITLE],
        fetched_at=download.fetched_at,
        sha256=download.sha256,
        content=download.content,
    )


def _with_truncation(text: PageText, download: FetchedPage) -> PageText:
    if not download.truncated:
        return text
    note = f"Only its first {len(download.body):,} bytes were fetched."
    return replace(text, truncated=True, notes=(*text.notes, note))


def _with_obstacle(text: PageText) -> PageText:
    """Keep the text of a page behind an obstacle, and note that it may be incomplete."""
    if text.obstacle is None:
        return text
    _, reason = _OBSTACLES[text.obstacle]
    return replace(text, notes=(*text.notes, f"{reason} What was read may be only a part of it."))


def addresses_in(text: str) -> tuple[str, ...]:
    """Return the addresses in a text, including markdown links, each once."""
    return _comparable(web_addresses.addresses_in(text))


def addresses_linked(page: str) -> tuple[str, ...]:
    """Return the absolute addresses that an HTML text links to, each once."""
    return _comparable(html.unescape(next(filter(None, match.groups()), "")) for match in _HREF.finditer(page))


def without_addresses(text: str) -> str:
    """Return the words of a text that are not addresses."""
    for address in web_addresses.addresses_in(text):
        text = text.replace(address, " ")
    return " ".join(text.split())


def comparable(address: str) -> str | None:
    """Return an address in the form in which addresses are compared; None if it is not a web address."""
    normal = canonical(address)
    return normal if normal is not None and _WRITABLE.fullmatch(normal) else None


def divided(addresses: Iterable[str], known: AbstractSet[str]) -> tuple[list[str], list[str]]:
    """Divide addresses into those that are known and those that are not."""
    known_addresses, unknown_addresses = list[str](), list[str]()
    for address in addresses:
        (known_addresses if is_known(address, known) else unknown_addresses).append(address)
    return known_addresses, unknown_addresses


def host_of(address: str) -> str:
    """Return the host of an address, with its port if it has one, without `www.`."""
    return re.split(r"[/?#]", _BEFORE_HOST.sub("", address.casefold()), maxsplit=1)[0].removeprefix("www.")


def same_site(first: str, second: str) -> bool:
    """Return whether two addresses have the same host, ignoring `www.`."""
    return host_of(first) == host_of(second)


def shown(address: str) -> str:
    """Return an address for display: its host and path, without parts that may be secret."""
    place = re.split(r"[?#]", _BEFORE_HOST.sub("", address), maxsplit=1)[0].rstrip("/")
    return place if len(place) <= MAX_SHOWN else f"{place[: MAX_SHOWN - 1]}…"


def _comparable(addresses: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, map(comparable, addresses))))
