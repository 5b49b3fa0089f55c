"""Host patterns in the settings: `example.com`, `*.example.com` for all its subdomains, `wiki.internal:8080`."""

import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Self

from poweron_services.settings.setting_lists import listed


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
