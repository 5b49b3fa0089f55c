"""Addresses of pages as actions handle them: normalised for comparison, and shortened for display."""

import html
import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

from poweron_services.decider import web_addresses
from poweron_services.decider.web_addresses import canonical, is_known

MAX_SHOWN: Final = 100  # characters

_HREF: Final = re.compile(
    r"\bhref\s{0,9}=\s{0,9}(?:\"([^\"]{1,4096})\"|'([^']{1,4096})'|([^\s\"'<>]{1,4096}))", re.IGNORECASE
)
_WRITABLE: Final = re.compile(r"https?://[!-~]+")
_BEFORE_HOST: Final = re.compile(r"https?://(?:[^/?#]*@)?", re.IGNORECASE)


def addresses_in(text: str) -> tuple[str, ...]:
    """Return the addresses in a text, including markdown links, each once."""
    return _comparable(web_addresses.addresses_in(text))


def addresses_linked(page: str) -> tuple[str, ...]:
    """Return the absolute addresses that an HTML text links to, each once."""
    return _comparable(html.unescape(next(filter(None, found.groups()), "")) for found in _HREF.finditer(page))


def without_addresses(text: str) -> str:
    """Return the words of a text that are not addresses."""
    for address in web_addresses.addresses_in(text):
        text = text.replace(address, " ")
    return " ".join(text.split())


def comparable(address: str) -> str | None:
    """Return an address in the form in which addresses are compared; None if it is not a web address."""
    written = canonical(address)
    return written if written is not None and _WRITABLE.fullmatch(written) else None


def divided(addresses: Iterable[str], known: AbstractSet[str]) -> tuple[list[str], list[str]]:
    """Divide addresses into those that are known and those that are not."""
    kept, others = list[str](), list[str]()
    for address in addresses:
        (kept if is_known(address, known) else others).append(address)
    return kept, others


def host_of(address: str) -> str:
    """Return the host of an address, with its port if it has one, without `www.`."""
    return re.split(r"[/?#]", _BEFORE_HOST.sub("", address.casefold()), maxsplit=1)[0].removeprefix("www.")


def same_site(one: str, other: str) -> bool:
    """Return whether two addresses have the same host, ignoring `www.`."""
    return host_of(one) == host_of(other)


def shown(address: str) -> str:
    """Return an address for display: its host and path, without parts that may be secret."""
    place = re.split(r"[?#]", _BEFORE_HOST.sub("", address), maxsplit=1)[0].rstrip("/")
    return place if len(place) <= MAX_SHOWN else f"{place[: MAX_SHOWN - 1]}…"


def _comparable(addresses: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, map(comparable, addresses))))
