"""The operator's settings for the web: which hosts, ports and IP addresses are allowed, and how much is read.

A host pattern is `example.com`, `*.example.com` for all its subdomains, or `wiki.internal:8080`. The rules refuse an IP
address in a special range, such as a private one, unless the settings name its host.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, Self

from poweron_services.connectors.web.web_address import WebAddress, refused
from poweron_services.settings.config import Settings
from poweron_services.settings.setting_types import listed


@dataclass(frozen=True, slots=True)
class HostPattern:
    """A host, or many with `*`, on one port or on the usual ones."""

    host: str
    port: int | None = None

    @classmethod
    def listed(cls, patterns: str) -> tuple[Self, ...]:
        """Parse a comma-separated list."""
        return tuple(map(cls.of, listed(patterns)))

    @classmethod
    def of(cls, pattern: str) -> Self:
        """Parse `host` or `host:port`, where an IPv6 address may be in brackets."""
        host, _, port = pattern.rpartition(":")
        if host and port.isdecimal() and (":" not in host or host.endswith("]")):
            return cls(_canonical(host), int(port))
        return cls(_canonical(pattern))

    def names(self, host: str) -> bool:
        """Return whether the pattern matches this host, written as in a `WebAddress`. Ports are not compared."""
        return bool(re.fullmatch(re.escape(self.host).replace(r"\*", ".*"), host))


def _canonical(host: str) -> str:
    """Normalise a host to the form that it has in a parsed address."""
    bare = host.lower().removeprefix("[").removesuffix("]").removesuffix(".")
    try:
        return str(ip_address(bare))
    except ValueError:
        return bare if bare.isascii() else _in_ascii(bare)


def _in_ascii(host: str) -> str:
    from ada_url import idna_to_ascii  # noqa: PLC0415 - few settings need it

    return idna_to_ascii(host).decode()


USUAL_PORTS = frozenset({80, 443})
MAX_BYTES = 10_000_000
TIMEOUT = 30.0  # seconds
MAX_PAGES = 50
PAUSE = 0.25  # seconds


@dataclass(frozen=True, slots=True)
class WebSettings:
    """The web settings, as clients of the web receive them."""

    allow: tuple[HostPattern, ...] = ()
    """The allowed hosts; if empty, every public host is allowed."""
    deny: tuple[HostPattern, ...] = ()
    """The denied hosts; overrides `allow` and `private_hosts`."""
    private_hosts: tuple[HostPattern, ...] = ()
    """Hosts that are allowed although they are on a private network."""
    ports: frozenset[int] = USUAL_PORTS
    max_bytes: int = MAX_BYTES
    """The size limit of a page, decompressed."""
    timeout: float = TIMEOUT
    """Seconds for a page, including all its redirects."""
    max_pages: int = MAX_PAGES
    """The most pages that one action fetches."""
    pause: float = PAUSE
    """Seconds between two requests to one host, after the first few."""
    contact: str = ""
    """Where operators of other servers can reach the operator of this one."""

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(
            allow=HostPattern.listed(settings.web_allow),
            deny=HostPattern.listed(settings.web_deny),
            private_hosts=HostPattern.listed(settings.web_private_hosts),
            ports=USUAL_PORTS | settings.web_more_ports,
            max_bytes=settings.web_max_bytes,
            timeout=settings.web_timeout,
            max_pages=settings.web_max_pages,
            pause=settings.web_pause,
            contact=settings.web_contact,
        )

    @property
    def user_agent(self) -> str:
        """The User-Agent header, which identifies us to servers."""
        return f"PowerOn/{version('poweron-services')}" + (f" (+{self.contact})" if self.contact else "")


V4: Final = {
    IPv4Network(network): name
    for network, name in {
        "0.0.0.0/8": "of this network",
        "10.0.0.0/8": "private",
        "100.64.0.0/10": "shared by the customers of a provider",  # 100.100.100.200: metadata of a cloud
        "127.0.0.0/8": "loopback",
        "168.63.129.16/32": "metadata of a cloud",
        "169.254.0.0/16": "link-local",  # 169.254.169.254: metadata of clouds
        "172.16.0.0/12": "private",
        "192.0.0.0/24": "for protocols",  # 192.0.0.192: metadata of a cloud
        "192.0.2.0/24": "for documentation",
        "192.31.196.0/24": "for protocols (AS112)",
        "192.52.193.0/24": "for protocols (AMT)",
        "192.88.99.0/24": "of 6to4 relays",
        "192.168.0.0/16": "private",
        "192.175.48.0/24": "for protocols (AS112)",
        "198.18.0.0/15": "for benchmarks",
        "198.51.100.0/24": "for documentation",
        "203.0.113.0/24": "for documentation",
        "224.0.0.0/4": "multicast",
        "240.0.0.0/4": "reserved",
    }.items()
}
V6: Final = {
    IPv6Network(network): name
    for network, name in {
        "::1/128": "loopback",
        "::/96": "compatible with IPv4",
        "64:ff9b:1::/48": "translated to IPv4 by a local network",
        "100::/64": "thrown away",
        "100:0:0:1::/64": "a dummy",
        "2001::/23": "for protocols",  # Teredo, benchmarks, ORCHID
        "2001:db8::/32": "for documentation",
        "2002::/16": "6to4",
        "2620:4f:8000::/48": "for protocols (AS112)",
        "3fff::/20": "for documentation",
        "5f00::/16": "of segment routing",
        "fc00::/7": "private",
        "fe80::/10": "link-local",
        "fec0::/10": "site-local",
        "ff00::/8": "multicast",
    }.items()
}
HANDED_OUT: Final = IPv6Network("2000::/3")
"""The only IPv6 range that is allocated for the public internet."""
CARRYING_V4: Final = (
    IPv6Network("::ffff:0:0/96"),  # mapped
    IPv6Network("::ffff:0:0:0/96"),  # translated
    IPv6Network("64:ff9b::/96"),  # NAT64
)
"""Ranges in which the last 32 bits of an address are the IPv4 address that a packet reaches."""
MAX_V4: Final = 2**32 - 1
IPAddress = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class WebRules:
    """The rules for one client."""

    settings: WebSettings
    engine: tuple[str, int] | None = None
    """Host and port of the search engine that the operator configured; it is allowed without any other setting."""

    def check(self, address: WebAddress) -> None:
        """Check that the address is allowed, without resolving its host.

        Raises:
            Refused: the address is not allowed (`address_refused`).
        """
        if (address.host, address.port) == self.engine:
            return
        if _is_listed(self.settings.deny, address.host):
            raise refused(f"is of {address.host}, which is in the deny list of the settings")
        private = self.private(address.host, address.port)
        if self.settings.allow and not private and not _is_listed(self.settings.allow, address.host):
            raise refused(f"is of {address.host}, which is not in the allow list of the settings")
        if not private and address.port not in self.settings.ports:
            raise refused(f"has the port {address.port}, which the settings do not name")
        if address.ip is not None:
            self.check_ip(address.host, address.port, [address.host])

    def check_ip(self, host: str, port: int, texts: Sequence[str]) -> list[IPAddress]:
        """Return the IP addresses of a host, after checking that connections to all of them are allowed.

        Raises:
            Refused: one of them is denied, or in a special range, as when a name is used to reach a private service.
        """
        addresses = [ip_address(address) for address in texts]
        for address in addresses:
            if (reason := self._against(host, port, address)) is not None:
                raise refused(f"is of {host}, whose IP address {address} is {reason}")
        return addresses

    def _against(self, host: str, port: int, address: IPAddress) -> str | None:
        """Why the host is not allowed at this IP address, or None if it is allowed."""
        if (host, port) == self.engine:
            return None
        if any(_is_listed(self.settings.deny, str(form)) for form in (address, destination(address))):
            return "in the deny list of the settings"
        return None if self.private(host, port) else special_range(address)

    def private(self, host: str, port: int) -> bool:
        """Return whether the operator allows this host on any network."""
        return (host, port) == self.engine or any(
            pattern.names(host) and port in (self.settings.ports if pattern.port is None else {pattern.port})
            for pattern in self.settings.private_hosts
        )


def _is_listed(patterns: Iterable[HostPattern], host: str) -> bool:
    return any(pattern.names(host) for pattern in patterns)


def destination(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the address that a packet reaches: the embedded IPv4 address, or else the address itself."""
    if isinstance(address, IPv6Address) and any(address in network for network in CARRYING_V4):
        return IPv4Address(int(address) & MAX_V4)
    return address


def special_range(address: IPv4Address | IPv6Address) -> str | None:
    """Return why no page may be fetched from the address, or None if it is public."""
    if isinstance(address, IPv4Address):
        return next((name for network, name in V4.items() if address in network), None)
    if address.scope_id is not None:
        return "of one interface"
    if (target := destination(address)) != address:
        return special_range(target)
    name_of_range = next((name for network, name in V6.items() if address in network), None)
    return name_of_range or (None if address in HANDED_OUT else "not handed out")
