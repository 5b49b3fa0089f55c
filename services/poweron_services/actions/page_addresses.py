"""Addresses of the web that stand in a text, each in the one form in which addresses are compared."""

import html
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Final

MAX_ADDRESS: Final = 2_048  # characters
MAX_ADDRESSES: Final = 1_000  # of one text

_ADDRESS: Final = re.compile(r"https?://[^\s<>\"`{}|\\^\[\]]{1,2048}", re.IGNORECASE)
_HREF: Final = re.compile(
    r"\bhref\s{0,9}=\s{0,9}(?:\"([^\"]{1,4096})\"|'([^']{1,4096})'|([^\s\"'<>]{1,4096}))", re.IGNORECASE
)
_WRITABLE: Final = re.compile(r"https?://[!-~]+")
_BEHIND: Final = ".,;:!?*_~'\u2019\u201d\u00bb\u2026"  # punctuation of the sentence, not of the address


def addresses_in(text: str) -> tuple[str, ...]:
    """The addresses that stand in a text, also as links of markdown, each once."""
    return _each_once(_trimmed(found[0]) for found in _ADDRESS.finditer(text))


def addresses_linked(page: str) -> tuple[str, ...]:
    """The whole addresses that a text in HTML links to, each once."""
    return _each_once(html.unescape(next(filter(None, found.groups()), "")) for found in _HREF.finditer(page))


def without_addresses(text: str) -> str:
    """The words of a text that are no address."""
    return " ".join(_ADDRESS.sub(" ", text).split())


def normal(address: str) -> str | None:
    """An address as a browser would write it, without its fragment; None where it is none of the web."""
    import ada_url  # noqa: PLC0415 - the command line never needs it

    try:
        parsed = ada_url.URL(address.strip())
    except ValueError:
        return None
    parsed.hash = ""
    written: str = parsed.href
    return written if len(written) <= MAX_ADDRESS and _WRITABLE.fullmatch(written) else None


def divided(addresses: Iterable[str], known: Collection[str]) -> tuple[list[str], list[str]]:
    """Those of the addresses that are known, and those that are not."""
    same = {*known, *filter(None, map(normal, known))}
    kept, others = list[str](), list[str]()
    for address in addresses:
        (kept if address in same else others).append(address)
    return kept, others


def host_of(address: str) -> str:
    """The host that an address names, without `www.`."""
    host = re.sub(r"^https?://(?:[^/?#]*@)?", "", address.casefold())
    return re.split(r"[/?#]", host, maxsplit=1)[0].removeprefix("www.")


def same_site(one: str, other: str) -> bool:
    """Whether two addresses are of one host, with or without `www.`."""
    return host_of(one) == host_of(other)


def shown(address: str) -> str:
    """An address as people are shown it: its place, without what may be secret."""
    place = re.sub(r"^https?://(?:[^/?#]*@)?", "", address).partition("?")[0].partition("#")[0].rstrip("/")
    return place if len(place) <= 100 else f"{place[:99]}…"


def _each_once(addresses: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_bounded(filter(None, map(normal, filter(None, addresses))))))


def _bounded(addresses: Iterable[str]) -> Iterator[str]:
    yield from (address for _, address in zip(range(MAX_ADDRESSES), addresses, strict=False))


def _trimmed(found: str) -> str:
    """Without the bracket that ends a link and the punctuation that ends a sentence."""
    depth = 0
    for place, character in enumerate(found):
        depth += (character == "(") - (character == ")")
        if depth < 0:
            found = found[:place]
            break
    return found.rstrip(_BEHIND)
