"""Who sends a request, and what they may do: the actor of a key, or on loopback the user of this machine."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends, Request
from fastapi.security import HTTPBearer
from starlette.datastructures import FormData

from poweron_events.actor import Actor
from poweron_events.errors import Unavailable
from poweron_projections.access_keys import KEY, SCOPES, AccessKey, AccessScope, digest, now_ms
from poweron_services.door.door_state import API, state_of
from poweron_services.door.form_parser import page_form
from poweron_services.door.http_guard import LOOPBACK_NAMES, SAFE_METHODS, host_name
from poweron_services.door.problems import Problem
from poweron_services.door.session_cookies import TOKEN_HEADER, check_token, session_key

KEY_NEEDED: Final = "A request to this address of the door needs a key."
WATCH_PERIOD: Final = 1.0  # seconds between checks of the key of an open stream
_BEARER: Final = re.compile(r"bearer +(\S+)", re.IGNORECASE)
_PROXY_HEADERS: Final = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip")

documented: Final = HTTPBearer(auto_error=False, description="A key of `poweron keys add`; on loopback none is needed.")
"""Names the keys in the OpenAPI document; `caller_of` reads them."""


@dataclass(frozen=True, slots=True)
class HttpCaller:
    """The sender of a request."""

    actor: Actor
    scopes: frozenset[AccessScope]
    source: str
    """The CloudEvent source of what they request."""
    key: AccessKey | None = None
    """The key that they gave, or with which their session began; None for the user of this machine."""
    has_session: bool = False


async def caller_of(request: Request) -> HttpCaller:
    """Return who sends the request, and count it.

    Raises:
        Problem: a key is needed, the given one does not hold, or it has reached a limit.
        Unavailable: the key cannot be checked now.
    """
    caller = await _identify(request)
    request.state.caller = caller
    if caller.key is not None:
        limits = state_of(request).limits
        await limits.count_request(caller.key.key_id)
        if request.headers.get("content-type", "").lower().startswith("multipart/"):
            await limits.count_upload(caller.key.key_id)
    is_api = request.url.path.startswith(f"{API}/")
    if caller.has_session and is_api and request.method not in SAFE_METHODS:
        check_token(request, request.headers.get(TOKEN_HEADER, ""))
    return caller


async def _identify(request: Request) -> HttpCaller:
    if "authorization" in request.headers:
        return _as_actor(await _key_of_header(request))
    key = await session_key(request)
    if key is not None:
        return _as_actor(key, has_session=True)
    if not is_of_this_machine(request):
        raise Problem("key_missing", KEY_NEEDED)
    actor = state_of(request).settings.acting_through("http")
    return HttpCaller(actor, frozenset(SCOPES), f"/poweron/http/{actor.id[:200].replace('|', '_')}")


def is_of_this_machine(request: Request) -> bool:
    """Return whether only a process of this machine can have sent the request: no proxy passed it on."""
    is_forwarded = any(name in request.headers for name in _PROXY_HEADERS)
    return state_of(request).is_local and not is_forwarded and host_name(request.scope) in LOOPBACK_NAMES


async def _key_of_header(request: Request) -> AccessKey:
    values = request.headers.getlist("authorization")
    match = _BEARER.fullmatch(values[0].strip()) if len(values) == 1 else None
    if match is None:
        raise Problem("key_missing", f"The header `Authorization` is not `Bearer KEY`. {KEY_NEEDED}")
    return await usable_key(request, match[1])


async def usable_key(request: Request, given: str) -> AccessKey:
    """Return the key that was given.

    Raises:
        Problem: it is unknown, expired or revoked.
        Unavailable: it cannot be checked now.
    """
    door, place = state_of(request), digest(given).hex()
    address = request.client.host if request.client else ""
    if not door.keys.holds(place):
        await door.limits.check_tries(address)
    key = await door.keys.find(door.pool, place) if KEY.fullmatch(given) else None
    if key is None:
        await door.limits.count_try(address)
        raise Problem("key_unknown", "This door does not know the key.")
    return _valid(key)


def _valid(key: AccessKey) -> AccessKey:
    state = key.state(now_ms())
    if state == "revoked":
        raise Problem("key_revoked", f"The key {key.name!r} was revoked at {key.revoked}.")
    if state == "expired":
        raise Problem("key_expired", f"The key {key.name!r} expired at {key.expires}.")
    return key


def _as_actor(key: AccessKey, *, has_session: bool = False) -> HttpCaller:
    _valid(key)
    actor = Actor(id=key.actor, kind=key.kind, roles=key.roles, via="http", verified=True)
    return HttpCaller(actor, frozenset(key.scopes), f"/poweron/keys/{key.name}", key, has_session)


Known = Annotated[HttpCaller, Depends(caller_of)]
"""The sender of a request, regardless of what they may do."""


@dataclass(frozen=True, slots=True)
class Needs:
    """A dependency of routes that only callers with this scope may use."""

    scope: AccessScope

    async def __call__(self, caller: Known, _: Annotated[object, Depends(documented)]) -> HttpCaller:
        if self.scope not in caller.scopes:
            raise Problem("scope_missing", f"This needs the scope {self.scope!r}.", scope=self.scope)
        return caller


Reader = Annotated[HttpCaller, Depends(Needs("read"))]
ContentReader = Annotated[HttpCaller, Depends(Needs("content"))]
Sender = Annotated[HttpCaller, Depends(Needs("request"))]
Approver = Annotated[HttpCaller, Depends(Needs("approve"))]
Operator = Annotated[HttpCaller, Depends(Needs("operate"))]
Auditor = Annotated[HttpCaller, Depends(Needs("audit"))]


@dataclass(frozen=True, slots=True)
class FormCheck:
    """A dependency that reads a form, and refuses one that does not come from a page of the same session.

    Closes its files after the response. `request.state.form` keeps the form, so that a refusal can show it again.
    """

    takes_files: bool = False

    async def __call__(self, request: Request, _: Known) -> AsyncGenerator[FormData, None]:
        async with page_form(request, takes_files=self.takes_files) as form:
            request.state.form = form
            given = form.get("token", "")
            check_token(request, given if isinstance(given, str) else "")
            yield form


CheckedForm = Annotated[FormData, Depends(FormCheck())]
"""A form of a page. Declare it after the scopes of its route, so that it is read only for a sender who has them."""
CheckedUpload = Annotated[FormData, Depends(FormCheck(takes_files=True))]
"""A form of a page that may have files."""


class StreamSlot:
    """The place of a stream among those that its key may have at a time.

    It is taken at once, which raises Problem if there is none, and must be released.
    """

    def __init__(self, request: Request, caller: HttpCaller) -> None:
        self._request = request
        self._key = caller.key
        self._taken = ExitStack()
        if self._key is not None:
            self._taken.enter_context(state_of(request).limits.stream(self._key.key_id))

    @property
    def has_key(self) -> bool:
        """Whether the stream belongs to a key; one of the user of this machine has no limits."""
        return self._key is not None

    def release(self) -> None:
        """Give the place to another stream."""
        self._taken.close()

    async def until_invalid(self) -> None:
        """Wait until the key, or the session, is no longer valid."""
        with suppress(Problem, Unavailable):
            while (await _identify(self._request)).key is not None:  # noqa: ASYNC110 - a key must be looked up
                await asyncio.sleep(WATCH_PERIOD)
