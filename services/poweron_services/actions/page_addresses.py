"""Addresses of pages as actions handle them: in the form in which they are compared, and as people are shown them."""

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
    """The addresses that stand in a text, also as links of markdown, each once."""
    return _comparable(web_addresses.addresses_in(text))


def addresses_linked(page: str) -> tuple[str, ...]:
    """The whole addresses that a text in HTML links to, each once."""
    return _comparable(html.unescape(next(filter(None, found.groups()), "")) for found in _HREF.finditer(page))


def without_addresses(text: str) -> str:
    """The words of a text that are no address."""
    for address in web_addresses.addresses_in(text):
        text = text.replace(address, " ")
    return " ".join(text.split())


def comparable(address: str) -> str | None:
    """An address in the form in which addresses are compared; None where it is none of the web."""
    written = canonical(address)
    return written if written is not None and _WRITABLE.fullmatch(written) else None


def divided(addresses: Iterable[str], known: AbstractSet[str]) -> tuple[list[str], list[str]]:
    """Those of the addresses that are known, and those that are not."""
    kept, others = list[str](), list[str]()
    for address in addresses:
        (kept if is_known(address, known) else others).append(address)
    return kept, others


def host_of(address: str) -> str:
    """The host that an address names, and its port where it names one, without `www.`."""
    return re.split(r"[/?#]", _BEFORE_HOST.sub("", address.casefold()), maxsplit=1)[0].removeprefix("www.")


def same_site(one: str, other: str) -> bool:
    """Whether two addresses are of one host, with or without `www.`."""
    return host_of(one) == host_of(other)


def shown(address: str) -> str:
    """An address as people are shown it: its place, without what may be secret."""
    place = re.split(r"[?#]", _BEFORE_HOST.sub("", address), maxsplit=1)[0].rstrip("/")
    return place if len(place) <= MAX_SHOWN else f"{place[: MAX_SHOWN - 1]}…"


def _comparable(addresses: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, map(comparable, addresses))))
