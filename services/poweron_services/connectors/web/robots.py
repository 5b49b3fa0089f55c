"""What the rules of a host say to robots (RFC 9309), kept for every address and every redirect."""

import asyncio
from dataclasses import dataclass
from typing import Final

from protego import Protego

from poweron_events.errors import Refused
from poweron_services.connectors.web.host_turns import HostTurns
from poweron_services.connectors.web.web_address import WebAddress

ROBOT: Final = "PowerOn"
"""What rules call us by."""
PLACE: Final = "/robots.txt"
MAX_BYTES: Final = 500_000  # of the rules, as the RFC wants at least
BUSY: Final = 429
UNREADABLE: Final = 500  # from this status on, as where a host is busy, nobody knows what the rules are


@dataclass(frozen=True, slots=True)
class RobotRules:
    """The rules of one host."""

    parsed: Protego

    @classmethod
    async def of(cls, status: int, body: bytes) -> "RobotRules":
        """The rules as they were answered; where there are none, everything is allowed."""
        said = body.decode("utf-8", errors="replace") if status < 400 else ""
        return cls(await asyncio.to_thread(Protego.parse, said))

    def check(self, address: WebAddress) -> None:
        """Refuse what the rules do not allow.

        Raises:
            Refused: names the host (`robots_disallowed`).
        """
        if address.target != PLACE and not self.parsed.can_fetch(address.url, ROBOT):
            raise Refused(f"The rules of {address.host} for robots do not allow it.", code="robots_disallowed")

    def slow_down(self, address: WebAddress, turns: HostTurns) -> None:
        """Leave the pauses between requests that the rules want."""
        rate = self.parsed.request_rate(ROBOT)
        wanted = self.parsed.crawl_delay(ROBOT) or (rate.seconds / rate.requests if rate and rate.requests else 0.0)
        if wanted:
            turns.slow_down(address, wanted)


def check_rules(address: WebAddress, status: int) -> None:
    """Refuse a host that could not say its rules just now: nobody knows what it allows.

    Raises:
        Refused: names the host (`robots_disallowed`).
    """
    if status == BUSY or status >= UNREADABLE:
        raise Refused(f"The rules of {address.host} for robots cannot be read now.", code="robots_disallowed")


def rules_of(address: WebAddress) -> str:
    """Where the rules of the address' host are."""
    return f"{address.scheme}://{address.authority}{PLACE}"
