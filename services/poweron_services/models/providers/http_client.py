"""The HTTP client for the providers: it limits the size of answers and hides credentials in addresses from logs.

Client libraries log the address of each request, so they are never given its login and its query. Requests are
measured just before they are sent, so that budgets apply to what is really sent.
"""

import base64
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from poweron_events.errors import Refused
from poweron_events.fold.state import Used
from poweron_services.decider.rules import Allowance, BudgetUsedUp, Cost
from poweron_services.models.call_reservations import reserve_call
from poweron_services.models.providers.response_body import corrected, error_status, read_body

CONNECT_TIMEOUT = 10.0  # seconds


@dataclass(slots=True)
class Response:
    """A provider's response, kept in case the client library cannot use it."""

    status: int | None = None
    content_type: str = ""
    body: bytes = b""
    redirected_to: str = ""
    """The host that it redirects to instead of answering."""


_RESPONSE: ContextVar[Response | None] = ContextVar("response", default=None)


@contextmanager
def receiving() -> Generator[Response, None, None]:
    """Keep the last response to a request of this task while the context is open."""
    token = _RESPONSE.set(response := Response())
    try:
        yield response
    finally:
        _RESPONSE.reset(token)


@dataclass(frozen=True, slots=True)
class Access:
    """A provider's address, our credentials there, and the version of its interface if it needs one."""

    place: str
    key: str = field(repr=False)
    version: str | None = None
    login: str | None = field(default=None, repr=False)
    """`user:password` of the address, sent instead of the key; None if it has none."""
    query: str = field(default="", repr=False)
    """The query of the address."""


def http_client(timeout: float, way: Access) -> httpx2.AsyncClient:
    """Return a client that limits the size of answers, follows no redirects and uses the environment's proxies.

    Raises:
        Refused: the proxy is unusable; the message names its variable.
    """
    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(timeout, connect=min(timeout, CONNECT_TIMEOUT)),
        headers={"Accept-Encoding": "identity"},
        follow_redirects=False,  # the key would go to another host
        event_hooks={"request": [look], "response": [_receive]},
        transport=_Completing(way, _transport(way.place)),
    )


def proxies() -> Mapping[str, str]:
    """Return the URLs of the environment's proxies, by the scheme of the requests that go through them."""
    urls = {scheme: url for scheme, url in getproxies().items() if scheme in ("http", "https", "all")}
    return {scheme: url if "://" in url else f"http://{url}" for scheme, url in urls.items()}


def _transport(place: str) -> httpx2.AsyncHTTPTransport:
    parts, known = urlsplit(place), proxies()
    scheme = parts.scheme if parts.scheme in known else "all"
    if scheme not in known or proxy_bypass(parts.netloc):
        return httpx2.AsyncHTTPTransport()
    try:
        return httpx2.AsyncHTTPTransport(proxy=known[scheme])
    except (ValueError, ImportError, httpx2.InvalidURL):  # not chained: the URL may hold a password
        variable = f"{scheme.upper()}_PROXY"
        raise Refused(
            f"{variable} names no proxy that can be used: set it to a URL such as `http://proxy:3128`, or unset it."
        ) from None


class _Completing(httpx2.AsyncBaseTransport):
    """A transport that adds the login and query of a provider's address to its requests, so that no log shows them."""

    def __init__(self, way: Access, transport: httpx2.AsyncBaseTransport) -> None:
        self._way = way
        self._origin = _origin(httpx2.URL(way.place))
        self._transport = transport

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if _origin(request.url) == self._origin:
            request = self._complete(request)
        return await self._transport.handle_async_request(request)

    def _complete(self, request: httpx2.Request) -> httpx2.Request:
        query = b"&".join(filter(None, (request.url.query, self._way.query.encode())))
        headers = request.headers.copy()
        if self._way.login is not None:
            headers["Authorization"] = f"Basic {base64.b64encode(self._way.login.encode()).decode()}"
        return httpx2.Request(
            request.method,
            request.url.copy_with(query=query) if query else request.url,
            headers=headers,
            stream=request.stream,
            extensions=request.extensions,
        )

    async def aclose(self) -> None:
        await self._transport.aclose()


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _host(location: str) -> str:
    """Return the host of a redirect, as far as it is readable."""
    try:
        return urlsplit(location).hostname or "a place on the same server"
    except ValueError:
        return "a place that is no address"


async def _receive(response: httpx2.Response) -> None:
    """Read and correct the body before the client library does; an error sent as a success gets its own status."""
    status = response.status_code
    answered(status)
    record = _RESPONSE.get() or Response()
    record.status, record.content_type = status, response.headers.get("Content-Type", "").lower()
    if response.is_redirect:
        record.redirected_to = _host(response.headers.get("Location", ""))
    record.body = await read_body(response)
    if response.is_success and (as_error := error_status(record.body)) is not None:
        response.status_code = as_error
    elif response.is_success:
        record.body = corrected(record.body, await response.request.aread())
    response.headers.pop("Content-Encoding", None)
    response.stream = httpx2.ByteStream(record.body)


WRAPPING: Final = 1_000  # tokens
"""More tokens than any provider adds around messages, tools and schemas on its own.

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
