"""Hosts as an operator names them: `example.com`, `*.example.com` for all below it, `wiki.internal:8080`."""

import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Self

from poweron_services.setting_lists import listed


@dataclass(frozen=True, slots=True)
class HostPattern:
    """A host, or many by `*`, on one port or on the usual ones."""

    host: str
    port: int | None = None

    @classmethod
    def listed(cls, patterns: str) -> tuple[Self, ...]:
        """Those of a list with commas between."""
        return tuple(map(cls.of, listed(patterns)))

    @classmethod
    def of(cls, pattern: str) -> Self:
        """What is written as `host`, `host:port`, or with the brackets of IPv6."""
        host, _, port = pattern.rpartition(":")
        if host and port.isdecimal() and (":" not in host or host.endswith("]")):
            return cls(_canonical(host), int(port))
        return cls(_canonical(pattern))

    def names(self, host: str) -> bool:
        """Whether it names this host, as a `WebAddress` has it; ports are another matter."""
        return bool(re.fullmatch(re.escape(self.host).replace(r"\*", ".*"), host))


def _canonical(host: str) -> str:
    """As addresses have it once they are parsed."""
    bare = host.lower().removeprefix("[").removesuffix("]").removesuffix(".")
    try:
        return str(ip_address(bare))
    except ValueError:
        return bare if bare.isascii() else _in_ascii(bare)


def _in_ascii(host: str) -> str:
    from ada_url import idna_to_ascii  # noqa: PLC0415 - few settings need it

    return idna_to_ascii(host).decode()
