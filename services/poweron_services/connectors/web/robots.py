"""The robots.txt rules of a host (RFC 9309), obeyed for every address and every redirect."""

import asyncio
from dataclasses import dataclass
from typing import Final

from protego import Protego

from poweron_events.errors import Refused
from poweron_services.connectors.web.host_turns import HostTurns
from poweron_services.connectors.web.web_address import WebAddress

ROBOT: Final = "PowerOn"
"""Our name in the rules."""
PLACE: Final = "/robots.txt"
MAX_BYTES: Final = 512_000  # of the rules; RFC 9309 (2.5) asks for at least 500 KiB
BUSY: Final = 429
UNREADABLE: Final = 500  # from this status on, and if the host is busy, the rules are unknown


@dataclass(frozen=True, slots=True)
class RobotRules:
    """The rules of one host."""

    parsed: Protego

    @classmethod
    async def of(cls, status: int, body: bytes) -> "RobotRules":
        """Parse the rules in an answer. If there are none, everything is allowed."""
        text = body.decode("utf-8", errors="replace") if status < 400 else ""
        return cls(await asyncio.to_thread(Protego.parse, text))

    def check(self, address: WebAddress) -> None:
        """Check that the rules allow the address.

        Raises:
            Refused: they do not (`robots_disallowed`); the message names the host.
        """
        if address.target != PLACE and not self.parsed.can_fetch(address.url, ROBOT):
            raise Refused(f"The rules of {address.host} for robots do not allow it.", code="robots_disallowed")

    def slow_down(self, address: WebAddress, turns: HostTurns) -> None:
        """Apply the pauses between requests that the rules require."""
        rate = self.parsed.request_rate(ROBOT)
        pause = self.parsed.crawl_delay(ROBOT) or (rate.seconds / rate.requests if rate and rate.requests else 0.0)
        if pause:
            turns.slow_down(address, pause)


def check_rules(address: WebAddress, status: int) -> None:
    """Check that the host could serve its rules; otherwise it is unknown what it allows.

    Raises:
        Refused: it could not (`robots_disallowed`); the message names the host.
    """
    if status == BUSY or status >= UNREADABLE:
        raise Refused(f"The rules of {address.host} for robots cannot be read now.", code="robots_disallowed")


def rules_of(address: WebAddress) -> str:
    """Return the address of the rules of an address's host."""
    return f"{address.scheme}://{address.authority}{PLACE}"
