"""The address of a page: parsed once, as browsers do, and asked for by its parts alone.

What two parsers would read as two hosts is refused, since one of them might check what the other connects to.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, Self

import ada_url

from poweron_events.errors import Refused

MAX_LENGTH: Final = 8_000  # characters
PORTS: Final = {"http": 80, "https": 443}

_START: Final = re.compile(r"https?://([^/?#]+)", re.IGNORECASE)
_UNCLEAR: Final = re.compile(r"[%\\@\s]")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_NAME: Final = re.compile(r"(?=.{1,253}$)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")


@dataclass(frozen=True, slots=True)
class WebAddress:
    """Where a page is."""

    url: str
    """All of it in ASCII, without a fragment; the same for all ways to write it."""
    scheme: str
    host: str
    """A name in ASCII, or an IP address without brackets."""
    port: int
    target: str
    """Path and query."""

    @classmethod
    def of(cls, url: str) -> Self:
        """The address that is written so.

        Raises:
            Refused: it is none of a page (`address_refused`).
        """
        start = _START.match(url)
        if len(url) > MAX_LENGTH or start is None or _UNCLEAR.search(start[1]) or _CONTROL.search(url):
            raise refused("is written so that it could be read as another one, or is none of http(s)")
        try:
            return cls._parsed(ada_url.URL(url))
        except ValueError:
            raise refused("is none by the rules of URLs") from None

    @classmethod
    def _parsed(cls, url: ada_url.URL) -> Self:
        if url.protocol not in ("http:", "https:") or url.username or url.password:
            raise refused("is none of http(s), or names a user")
        host = url.hostname.removeprefix("[").removesuffix("]").removesuffix(".")
        if _ip(host) is None and not _NAME.fullmatch(host):
            raise refused("names a host that there cannot be")
        scheme = url.protocol.removesuffix(":")
        port = int(url.port or PORTS[scheme])
        target = url.pathname + url.search
        origin = f"{scheme}://{_written(host)}" + (f":{port}" if port != PORTS[scheme] else "")
        return cls(url=origin + target, scheme=scheme, host=host, port=port, target=target)

    def joined(self, location: str) -> "WebAddress":
        """Where a link or a redirect of this page leads to.

        Raises:
            Refused: to nothing that is the address of a page (`address_refused`).
        """
        if len(location) > MAX_LENGTH or _CONTROL.search(location):
            raise refused("is one that no page has")
        try:
            return WebAddress._parsed(ada_url.URL(location, self.url))
        except ValueError:
            raise refused("is none by the rules of URLs") from None

    @property
    def ip(self) -> IPv4Address | IPv6Address | None:
        """The IP address that stands in place of a name."""
        return _ip(self.host)

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """Host and port as a server is told them."""
        return _written(self.host) + (f":{self.port}" if self.port != PORTS[self.scheme] else "")


def refused(detail: str) -> Refused:
    """That an address is refused: the sentence is the same for all of them, the reason is for the log."""
    return Refused(
        "The address of a page was refused: it does not lead to a public page of the web that may be read from here.",
        code="address_refused",
        detail=f"The address {detail}.",
    )


def _ip(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _written(host: str) -> str:
    return f"[{host}]" if ":" in host else host
