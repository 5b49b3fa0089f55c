"""Requests to a provider, measured just before they are sent, so that budgets apply to what is really sent."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

import httpx2

from poweron_events.fold.state import Used
from poweron_services.decider.rules import Allowance, BudgetUsedUp, Cost
from poweron_services.models.call_reservations import reserve_call

WRAPPING: Final = 1_000  # tokens
"""What a provider adds around messages, tools and schemas on its own.

The largest documented number is Anthropic's: 530 tokens for the system prompt that comes with a tool ("Pricing", "Tool
use"). OpenAI adds 3 around each message and 3 before the answer (its cookbook, "How to count tokens with tiktoken");
the templates of open models stay below both.
"""

_OUTGOING: ContextVar["Outgoing | None"] = ContextVar("outgoing", default=None)


class NotSent(Exception):
    """The request was held back: with its limit for the answer it could use more than the budgets leave."""


@dataclass(slots=True)
class Outgoing:
    """One request for a prompt, rebuilt with a lower limit if it would not fit the allowance.

    No token is shorter than one byte of UTF-8, since tokenizers cut bytes into pieces. So a request has at most as many
    tokens as its body has bytes, plus those that the provider adds.
    """

    allowance: Allowance | None
    cost: Cost
    limit: int
    """The most tokens that the answer may have."""
    sent: bytes | None = None
    """The body that was sent last, without headers and therefore without keys."""
    paid: bool = False
    """Whether the last request may have been charged."""
    held: BudgetUsedUp | NotSent | None = None
    """Why the last request was not sent."""

    async def check(self, body: bytes) -> None:
        """Check a request that is about to be sent, and reserve the most that it can use.

        Raises:
            NotSent: it must not be sent; the limit is now lower.
            BudgetUsedUp: no request may be sent any more.
        """
        if self.allowance is not None:
            await self._reserve(self.allowance, len(body) + WRAPPING)
        self.sent, self.paid = body, True

    async def _reserve(self, left: Allowance, prompt: int) -> None:
        self._fit(left, prompt)
        while not await reserve_call(left, self._most(prompt)):
            self._fit(left, prompt)

    def _fit(self, left: Allowance, prompt: int) -> None:
        try:
            longest = left.longest_answer(prompt, self.limit, self.cost)
        except BudgetUsedUp as error:
            self.held = error
            raise
        if longest < self.limit:
            self.limit, self.held = longest, NotSent()
            raise self.held

    def _most(self, prompt: int) -> Used:
        return Used(prompt, self.limit, self.cost(prompt, self.limit))

    def failed(self, error: BaseException) -> None:
        """Record that the request failed; the most that it may have cost is no longer available for another try."""
        if self.allowance is not None and self.sent is not None and self.paid and not _unreached(error):
            self.allowance.take_unknown(self._most(len(self.sent) + WRAPPING))

    @contextmanager
    def watched(self) -> Generator[None, None, None]:
        """Check every request of this task while the context is open."""
        token, self.held = _OUTGOING.set(self), None
        try:
            yield
        finally:
            _OUTGOING.reset(token)


async def look(request: httpx2.Request) -> None:
    """Check each request of the client, as its hook; raises what `Outgoing.check` does."""
    if (outgoing := _OUTGOING.get()) is not None:
        await outgoing.check(await request.aread())


def answered(status: int) -> None:
    """Record that a provider answered; it charges nothing for an error or a redirect."""
    if (outgoing := _OUTGOING.get()) is not None:
        outgoing.paid = httpx2.codes.is_success(status)


def _unreached(error: BaseException | None) -> bool:
    """Return whether the request never reached a server."""
    while error is not None:
        if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout):
            return True
        error = error.__cause__ or error.__context__
    return False
