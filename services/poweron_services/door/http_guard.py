"""Check the host and the origin of every HTTP request, and add the headers of every answer."""

import re
import secrets
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from poweron_services.door.problems import Problem

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
LOOPBACK_NAMES: Final = frozenset({"127.0.0.1", "::1", "localhost"})
POLICY: Final = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self'; img-src 'self'; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types htmx poweron"
)
HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "private, no-cache",
}
ONLY_TLS: Final = "max-age=31536000"
"""The value of `Strict-Transport-Security`; browsers ignore it over HTTP."""
_HOST: Final = re.compile(r"(?P<name>\[[0-9a-f:.]{2,45}\]|[a-z0-9](?:[a-z0-9._-]{0,252}))(?::[0-9]{1,5})?")


HIDDEN: Final = (
    "The browser does not say which page sent this form, as it never does over HTTP without TLS. "
    "Open this door at its address with TLS."
)


def plain_host(host: str) -> str | None:
    """Return the name or address in a header `Host`, without its port; None if it is not in the form of one.

    Different spellings of an address are one: `[0:0:0:0:0:0:0:1]` is `::1`.
    """
    match = _HOST.fullmatch(host.lower())
    return None if match is None else plain_address(match["name"].strip("[]"))


def plain_address(name: str) -> str:
    """Return the usual spelling of an IP address; any other name as it is."""
    try:
        address = ip_address(name)
    except ValueError:
        return name
    is_mapped = isinstance(address, IPv6Address) and address.ipv4_mapped is not None
    return str(address.ipv4_mapped if is_mapped and isinstance(address, IPv6Address) else address)


def host_name(scope: Scope) -> str | None:
    """Return the host that a request names; None if it names none, several or an unreadable one."""
    hosts = Headers(scope=scope).getlist("host")
    return plain_host(hosts[0]) if len(hosts) == 1 else None


class HttpGuard:
    """Refuses requests for foreign hosts (DNS rebinding) and from pages of other sites (CSRF)."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str], refuse: Callable[[Scope, Problem], Response]) -> None:
        """`hosts` are the accepted names without ports, beside the address at which a request arrives."""
        self._app = app
        self._refuse = refuse
        self._hosts = frozenset(map(plain_address, map(str.lower, hosts)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        nonce = secrets.token_urlsafe(16)
        scope.setdefault("state", {})["nonce"] = nonce
        answer = _Answer(send, {**HEADERS, "Content-Security-Policy": POLICY.format(nonce=nonce)}, scope["scheme"])
        try:
            self._check(scope)
        except Problem as problem:
            await self._refuse(scope, problem)(scope, receive, answer.send)
            return
        await self._app(scope, receive, answer.send)
        await answer.finish()

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        name = host_name(scope)
        server = scope.get("server")
        arrived_at = plain_address(server[0]) if server else None
        if name is None or (name not in self._hosts and name != arrived_at):
            given = ", ".join(headers.getlist("host"))
            raise Problem("host_unknown", f"This door does not serve the host {given[:100]!r}.")
        if not _is_own_site(scope, headers):
            origin = headers.get("origin", "another site")
            if origin == "null" and "sec-fetch-site" not in headers:
                raise Problem("foreign_origin", HIDDEN)
            raise Problem("foreign_origin", f"A page of {origin[:100]!r} sent this request.")


def _is_own_site(scope: Scope, headers: Headers) -> bool:
    """Return whether a page of this door sent the request, or no page; foreign pages may only link to pages."""
    is_safe = scope["method"] in SAFE_METHODS
    site = headers.get("sec-fetch-site", "none")
    is_link = is_safe and headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    if site not in ("same-origin", "none") and not is_link:
        return False
    origins = headers.getlist("origin")
    if origins == ["null"] and site == "same-origin":  # a form of ours: browsers hide the origin with the referrer
        return True
    return is_safe or not origins or (len(origins) == 1 and _is_own_origin(scope, origins[0], headers["host"]))


def _is_own_origin(scope: Scope, origin: str, host: str) -> bool:
    """Return whether the origin is this door: the same host and port, and not plain HTTP for a request over TLS."""
    scheme, separator, place = origin.lower().partition("://")
    return bool(separator) and place == host.lower() and scheme in ("https", scope["scheme"])


class _Answer:
    """Sends an answer with the headers of every answer, and ends one that was broken off."""

    def __init__(self, send: Send, headers: dict[str, str], scheme: str) -> None:
        self._send = send
        self._headers = headers | ({"Strict-Transport-Security": ONLY_TLS} if scheme == "https" else {})
        self._is_begun = False
        self._is_complete = False

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._is_begun = True
            headers = MutableHeaders(scope=message)
            for name, value in self._headers.items():
                headers.setdefault(name, value)
        elif message["type"] == "http.response.body":
            self._is_complete = not message.get("more_body", False)
        await self._send(message)

    async def finish(self) -> None:
        if self._is_begun and not self._is_complete:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
