"""Web pages, fetched politely and stored with a workflow: each body as content, the rest of the answer beside it.

A step that is retried after its process died, or replayed, gets the same result as the first time, whether an answer or
a refusal. Other steps get a stored answer while it is fresh, but ask again after a refusal. Each result is therefore
stored under its step, and the latest answer also under the question alone.
"""

import asyncio
import hashlib
import re
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Final, Protocol
from weakref import WeakValueDictionary

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from poweron_events.codes import Code
from poweron_events.content import ContentStore
from poweron_events.errors import Refused
from poweron_services.connectors.web.host_turns import (
    LONGEST_WAIT,
    MAX_BYTES,
    PLACE,
    HostTurns,
    RobotRules,
    check_rules,
    rules_of,
)
from poweron_services.connectors.web.web_address import WebAddress
from poweron_services.connectors.web.web_client import MAX_REDIRECTS, WebClient, WebResponse, endless, redirected

Answer = dict[str, Any]
"""An answer as JSON."""


@dataclass(frozen=True, slots=True)
class Reader:
    """The caller of a request: a workflow, and a step that may be retried, identified by its idempotency key."""

    workflow_id: str
    step: str


LONGEST: Final = 8_192  # bytes of a page that only refreshes to another


SAYS_NOTHING: Final = 200  # characters of text, such as "Click here if you are not redirected."


SOON: Final = 10  # seconds


_REFRESH: Final = re.compile(
    rb"<meta\b(?=[^>]*\bhttp-equiv\s*=\s*[\"']?refresh\b)[^>]*\bcontent\s*=\s*"
    rb"[\"']?\s*(?P<seconds>\d{1,9})[\d.]*\s*[;,]\s*(?:url\s*=\s*)?[\"']?(?P<address>[^\"'>\s]+)",
    re.IGNORECASE,
)


_UNSEEN: Final = re.compile(
    rb"<(script|style|title|noscript)\b.*?</\1\s*>|<!--.*?-->|<[^>]*>", re.IGNORECASE | re.DOTALL
)


KEPT_HEADERS: Final = ("content-type", "content-language", "content-disposition", "etag", "last-modified")


NOT_MODIFIED: Final = 304


LOGIN: Final = frozenset({401, 407})


BUSY: Final = frozenset({429, 503})


MAX_HEADER: Final = 1_000  # characters


MAX_RULES: Final = 1_000  # sets of robots rules that are remembered


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """A server's answer, as it was read."""

    requested: str
    """The requested address."""
    url: str
    """The address that answered, after all redirects."""
    status: int
    headers: Mapping[str, str]
    """The relevant ones, by their names in lower case."""
    body: bytes
    """Decompressed."""
    fetched_at: str
    """The moment in UTC, to the second: `2026-11-23T10:00:00Z`."""
    sha256: str
    """The digest of the body."""
    content: str
    """The reference of the body in the workflow's content."""
    truncated: bool = False
    """Whether the server had more to send than the limit allows."""

    @property
    def media_type(self) -> str:
        """The media type that the server names, such as `text/html`; empty if it names none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class FetchPage(Protocol):
    """Fetches a page for an action, guarded and politely.

    The steps of a workflow share a fetched page while it is fresh; a retried step always gets the stored one.
    Raises `Refused` with a message and a code if the page may not be fetched or is unavailable (the allow and deny
    lists, a forbidden address, robots.txt, an error status, a body that is too large, a server that does not answer in
    time). Raises `Unavailable` only if this machine or the content store fails.
    """

    async def __call__(self, url: str, /) -> FetchedPage: ...


LocalPages = Callable[[str], Awaitable[WebResponse | None]]
"""Asked first for every address; it returns None for an address that must be fetched from the web."""


class StoredPages:
    """Fetches pages for workflows and stores them."""

    def __init__(
        self,
        client: WebClient,
        content: ContentStore,
        turns: HostTurns,
        *,
        local_pages: LocalPages | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._content = content
        self._turns = turns
        self._local = local_pages
        self._now = now
        self._answers = KeptAnswers(content, "pages", now)
        self._rules_kept = KeptAnswers(content, "robots", now)
        self._rules: dict[tuple[Reader, str], RobotRules] = {}

    async def fetch(self, reader: Reader, url: str) -> FetchedPage:
        """Return the page as stored for this workflow, or else fetch it. Each redirect is stored separately.

        Raises:
            Refused: the page may not be fetched or is unavailable; the code says which.
            Unavailable: the content store cannot be reached.
        """
        address, time_left = WebAddress.of(url), _TimeLeft(self._client.timeout)
        for _ in range(MAX_REDIRECTS + 1):
            ask = partial(self._ask, reader, address, time_left)
            answer = await self._answers.answer(reader, address.url, ask)
            if "redirect" not in answer:
                body = await self._content.get(reader.workflow_id, answer["content"])
                return FetchedPage(requested=url, body=body, **answer)
            address = WebAddress.of(answer["redirect"])
        raise endless(address)

    async def _ask(self, reader: Reader, address: WebAddress, time_left: "_TimeLeft", before: Answer | None) -> Answer:
        """Ask the address now; return its page, or the target of its redirect."""
        response = await self._response(reader, address, _validators(before), time_left)
        if response.status == NOT_MODIFIED and before is not None:
            return before
        if (target := redirected(response)) is not None:
            return {"redirect": target.url}
        _check_status(response)
        if (target := refreshed(response)) is not None:
            return {"redirect": target.url}
        return await self._store(reader, response)

    async def _response(
        self, reader: Reader, address: WebAddress, headers: Mapping[str, str], time_left: "_TimeLeft"
    ) -> WebResponse:
        if self._local is not None and (local := await self._local(address.url)) is not None:
            self._client.check(address)
            return local
        if address.target != PLACE:
            robots = await self._robots(reader, address)
            await asyncio.to_thread(robots.check, address)
            robots.slow_down(address, self._turns)

        async def ask() -> WebResponse:
            async with self._turns.turn(address):
                with time_left.taken():
                    return await self._client.get_once(address, headers=headers, timeout=time_left.seconds)

        return await self._with_retry(ask)

    async def _with_retry(self, ask: Callable[[], Awaitable[WebResponse]]) -> WebResponse:
        """Send a request, and retry it once if the host asks for a short wait."""
        for last in (False, True):
            response = await ask()
            wait = self._retry_after(response)
            if wait is not None:
                self._turns.ask_later(WebAddress.of(response.url), wait)
            if last or wait is None or wait > LONGEST_WAIT:
                break
        return response

    def _retry_after(self, response: WebResponse) -> float | None:
        header = response.headers.get("retry-after")
        if response.status not in BUSY or header is None:
            return None
        if header.isdecimal():
            return float(header[:9])
        try:
            return max(0.0, parsedate_to_datetime(header).timestamp() - self._now())
        except (ValueError, OverflowError):
            return None

    async def _robots(self, reader: Reader, address: WebAddress) -> RobotRules:
        place = WebAddress.of(rules_of(address))
        if (known := self._rules.get((reader, place.url))) is not None:
            return known

        async def ask(_: Answer | None) -> Answer:
            response = await self._with_retry(partial(self._request_rules, place))
            check_rules(address, response.status)
            return await self._store(reader, response)

        answer = await self._rules_kept.answer(reader, place.url, ask)
        body = await self._content.get(reader.workflow_id, answer["content"])
        if len(self._rules) >= MAX_RULES:
            self._rules.clear()
        self._rules[reader, place.url] = await RobotRules.of(answer["status"], body)
        return self._rules[reader, place.url]

    async def _request_rules(self, place: WebAddress) -> WebResponse:
        """Request the rules of a host, with redirects to any host."""
        async with AsyncExitStack() as turn_stack:

            async def before_hop(address: WebAddress) -> None:
                await turn_stack.aclose()
                await turn_stack.enter_async_context(self._turns.turn(address))

            return await self._client.get(place.url, max_bytes=MAX_BYTES, before_hop=before_hop)

    async def _store(self, reader: Reader, response: WebResponse) -> Answer:
        moment = datetime.fromtimestamp(self._now(), UTC)
        return {
            "url": response.url,
            "status": response.status,
            "headers": {name: response.headers[name][:MAX_HEADER] for name in KEPT_HEADERS if name in response.headers},
            "fetched_at": f"{moment:%Y-%m-%dT%H:%M:%SZ}",
            "sha256": (await asyncio.to_thread(hashlib.sha256, response.body)).hexdigest(),
            "content": await self._content.put(reader.workflow_id, response.body),
            "truncated": response.truncated,
        }


@dataclass(slots=True)
class _TimeLeft:
    """The time left for the servers of a page; waiting for a turn does not count."""

    seconds: float

    @contextmanager
    def taken(self) -> Generator[None, None, None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds -= time.monotonic() - began


def _validators(before: Answer | None) -> dict[str, str]:
    """The request headers that let a server answer that the page has not changed."""
    headers: Mapping[str, Any] = before.get("headers", {}) if before else {}
    values = {"if-none-match": headers.get("etag"), "if-modified-since": headers.get("last-modified")}
    return {name: value for name, value in values.items() if value}


def _check_status(response: WebResponse) -> None:
    host = WebAddress.of(response.url).host
    if response.status in LOGIN:
        raise Refused(f"{host} wants to know who asks.", code="page_needs_login")
    if not 200 <= response.status < 300:
        raise Refused(f"{host} answered with status {response.status}.", code="page_unavailable")


def refreshed(response: WebResponse) -> WebAddress | None:
    """Return the address on the same host to which the page refreshes, or None if it has content or stays in place."""
    match = _REFRESH.search(response.body) if len(response.body) <= LONGEST else None
    if match is None or int(match["seconds"]) > SOON or not response.headers.get("content-type", "html").count("html"):
        return None
    if len(b" ".join(_UNSEEN.sub(b" ", response.body).split())) > SAYS_NOTHING:
        return None
    address = WebAddress.of(response.url)
    try:
        target = address.joined(match["address"].decode("utf-8", "replace").replace("&amp;", "&"))
    except Refused:
        return None
    is_same_host = (target.host, target.scheme) == (address.host, address.scheme)
    return target if is_same_host and target.url != address.url else None


FRESH: Final = 3_600.0  # seconds for which an answer also serves other steps of its workflow


Ask = Callable[[Answer | None], Awaitable[Answer]]
"""Asks the web. Its argument is the answer of an earlier step, if any, which may still be valid."""


class FetchRefusal(BaseModel):
    """Why there is no answer."""

    model_config = ConfigDict(frozen=True)

    sentence: str
    code: Code
    detail: str


class _Entry(BaseModel):
    """The stored result of a question."""

    model_config = ConfigDict(frozen=True)

    at: float
    """Seconds since 1970."""
    answer: Answer | None = None
    refusal: FetchRefusal | None = None

    def given(self) -> Answer:
        if self.refusal is not None:
            raise Refused(self.refusal.sentence, code=self.refusal.code, detail=self.refusal.detail)
        return self.answer or {}


class KeptAnswers:
    """The answers of one kind, such as `pages`. Concurrent callers with the same question share one answer."""

    def __init__(self, content: ContentStore, kind: str, now: Callable[[], float] = time.time) -> None:
        self._content = content
        self._kind = kind
        self._now = now
        self._asking = WeakValueDictionary[tuple[str, str], asyncio.Lock]()

    async def answer(self, reader: Reader, question: str, ask: Ask) -> Answer:
        """Return the stored answer, or else call `ask` and store its result.

        Raises:
            Refused: `ask` refused, now or in an earlier attempt of the step.
            Unavailable: the content store cannot be reached.
        """
        async with self._asking.setdefault((reader.workflow_id, question), asyncio.Lock()):
            own_question = f"{reader.step} {question}"
            if (first := await self._stored(reader, own_question)) is not None:
                return first.given()
            before = await self._stored(reader, question)
            if before is not None and 0 <= self._now() - before.at < FRESH:
                await self._keep(reader, own_question, before)
                return before.given()
            entry = await self._ask(reader, own_question, ask, before.answer if before else None)
            await self._keep(reader, question, entry)
            return entry.given()

    async def _ask(self, reader: Reader, own_question: str, ask: Ask, before: Answer | None) -> _Entry:
        try:
            answer = await ask(before)
        except Refused as error:
            refusal = FetchRefusal(sentence=str(error), code=error.code, detail=error.detail)
            await self._keep(reader, own_question, _Entry(at=self._now(), refusal=refusal))
            raise
        entry = _Entry(at=self._now(), answer=answer)
        await self._keep(reader, own_question, entry)
        return entry

    async def _stored(self, reader: Reader, question: str) -> _Entry | None:
        content = await self._content.recall(reader.workflow_id, self._kind, question.encode())
        try:
            return None if content is None else _Entry.model_validate_json(content)
        except ValidationError:  # written by another release
            return None

    async def _keep(self, reader: Reader, question: str, entry: _Entry) -> None:
        content = orjson.dumps(entry.model_dump(mode="json"))
        await self._content.remember(reader.workflow_id, self._kind, question.encode(), content)
