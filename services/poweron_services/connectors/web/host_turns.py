"""Turns at a host: a few requests at a time, with pauses between them, and none before the host wants to be asked."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from aiolimiter import AsyncLimiter

from poweron_events.errors import Refused
from poweron_services.connectors.web.web_address import WebAddress
from poweron_services.connectors.web.web_settings import PAUSE
from poweron_services.fair_slots import FairSlots

AT_ONCE: Final = 4  # requests to one host, and so many without a pause at first
AT_ONCE_TO_OWN: Final = 16  # requests to a host of the operator's
LONGEST_WAIT: Final = 10.0  # seconds that a host is waited for, or that it may want between two requests
MAX_HOSTS: Final = 1_000  # that are remembered


@dataclass(slots=True)
class _Host:
    places: FairSlots
    pauses: AsyncLimiter | None
    not_before: float = 0.0
    """By the loop's clock."""
    delay: float = 0.0
    """Seconds that the host's own rules want between two requests."""
    next_at: float = 0.0
    """When these are over."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class HostTurns:
    """The turns of one process at all hosts; those of the operator's own need no pauses."""

    def __init__(self, pause: float = PAUSE, is_own: Callable[[WebAddress], bool] = lambda _: False) -> None:
        self._pause = pause
        self._is_own = is_own
        self._hosts = OrderedDict[str, _Host]()

    @asynccontextmanager
    async def turn(self, address: WebAddress) -> AsyncGenerator[None, None]:
        """Wait for a turn, which lasts as long as the context.

        Raises:
            Refused: the host wants to be left alone for longer than it is waited for (`page_unavailable`).
        """
        known = self._host(address)
        async with known.places:
            await _wait(address.host, known)
            if known.pauses is not None:
                await known.pauses.acquire()
            yield

    def ask_later(self, address: WebAddress, seconds: float) -> None:
        """Ask a host nothing for so long: it said so."""
        known = self._host(address)
        known.not_before = max(known.not_before, _now() + seconds)

    def slow_down(self, address: WebAddress, delay: float) -> None:
        """Leave so many seconds between two requests, as far as anybody is waited for: the host's rules say so."""
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
