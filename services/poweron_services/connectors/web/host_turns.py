"""Turns at a host: what its robots.txt allows (RFC 9309), a few requests at a time, and pauses between them.

PowerOn obeys robots.txt for every address and every redirect.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from aiolimiter import AsyncLimiter
from protego import Protego

from poweron_events.errors import Refused
from poweron_services.connectors.web.web_address import WebAddress
from poweron_services.connectors.web.web_rules import PAUSE
from poweron_services.fair_slots import FairSlots

AT_ONCE: Final = 4  # concurrent requests to one host, and the number of first requests without a pause


AT_ONCE_TO_OWN: Final = 16  # concurrent requests to one of the operator's hosts


LONGEST_WAIT: Final = 10.0  # seconds to wait for a host at most, and the longest pause that its rules can set


MAX_HOSTS: Final = 1_000  # hosts that are remembered


@dataclass(slots=True)
class _Host:
    places: FairSlots
    pauses: AsyncLimiter | None
    not_before: float = 0.0
    """By the event loop's clock."""
    delay: float = 0.0
    """Seconds that the host's rules require between two requests."""
    next_at: float = 0.0
    """When this delay is over, by the event loop's clock."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class HostTurns:
    """Limits the requests of one process to each host. The operator's own hosts need no pauses."""

    def __init__(self, pause: float = PAUSE, is_own: Callable[[WebAddress], bool] = lambda _: False) -> None:
        self._pause = pause
        self._is_own = is_own
        self._hosts = OrderedDict[str, _Host]()

    @asynccontextmanager
    async def turn(self, address: WebAddress) -> AsyncGenerator[None, None]:
        """Wait for a turn at the host and hold it while the context is open.

        Raises:
            Refused: the host asks for a wait longer than `LONGEST_WAIT` (`page_unavailable`).
        """
        known = self._host(address)
        async with known.places:
            await _wait(address.host, known)
            if known.pauses is not None:
                await known.pauses.acquire()
            yield

    def ask_later(self, address: WebAddress, seconds: float) -> None:
        """Send a host no requests for this many seconds, as it asked."""
        known = self._host(address)
        known.not_before = max(known.not_before, _now() + seconds)

    def slow_down(self, address: WebAddress, delay: float) -> None:
        """Leave this many seconds between two requests, up to `LONGEST_WAIT`, as the host's rules require."""
        self._host(address).delay = min(delay, LONGEST_WAIT)

    def _host(self, address: WebAddress) -> _Host:
        known = self._hosts.get(address.authority)
        if known is None:
            known = self._hosts[address.authority] = self._new_host(address)
        self._hosts.move_to_end(address.authority)
        if len(self._hosts) > MAX_HOSTS:
            self._hosts.popitem(last=False)
        return known

    def _new_host(self, address: WebAddress) -> _Host:
        if self._is_own(address):
            return _Host(FairSlots(AT_ONCE_TO_OWN), None)
        pauses = AsyncLimiter(AT_ONCE, AT_ONCE * self._pause) if self._pause else None
        return _Host(FairSlots(AT_ONCE), pauses)


async def _wait(host: str, known: _Host) -> None:
    left = known.not_before - _now()
    if left > LONGEST_WAIT:
        raise Refused(f"{host} wants to be asked again only in {left:.0f} seconds.", code="page_unavailable")
    await asyncio.sleep(max(0.0, left))
    if known.delay:
        async with known.turn:
            await asyncio.sleep(max(0.0, known.next_at - _now()))
            known.next_at = _now() + known.delay


def _now() -> float:
    return asyncio.get_running_loop().time()


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
