"""The address of a page: parsed once, as browsers do, and then requested by its parts alone.

An address that two parsers could read as different hosts is refused: one host might be checked and the other contacted.
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
    """The parsed address of a page."""

    url: str
    """The whole address in ASCII, without a fragment, in a normalised form."""
    scheme: str
    host: str
    """A name in ASCII, or an IP address without brackets."""
    port: int
    target: str
    """Path and query."""

    @classmethod
    def of(cls, url: str) -> Self:
        """Parse an address.

        Raises:
            Refused: it is not the address of a page (`address_refused`).
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
        origin = f"{scheme}://{_host_text(host)}" + (f":{port}" if port != PORTS[scheme] else "")
        return cls(url=origin + target, scheme=scheme, host=host, port=port, target=target)

    def joined(self, location: str) -> "WebAddress":
        """Resolve a link or a redirect of this page.

        Raises:
            Refused: the target is not the address of a page (`address_refused`).
        """
        if len(location) > MAX_LENGTH or _CONTROL.search(location):
            raise refused("is one that no page has")
        try:
            return WebAddress._parsed(ada_url.URL(location, self.url))
        except ValueError:
            raise refused("is none by the rules of URLs") from None

    @property
    def ip(self) -> IPv4Address | IPv6Address | None:
        """The host as an IP address, or None if it is a name."""
        return _ip(self.host)

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """Host and port as sent to a server; the default port is omitted."""
        return _host_text(self.host) + (f":{self.port}" if self.port != PORTS[self.scheme] else "")


def refused(detail: str) -> Refused:
    """Return the error for a refused address. Its message is the same for all addresses; `detail` is for the log."""
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


def _host_text(host: str) -> str:
    return f"[{host}]" if ":" in host else host
