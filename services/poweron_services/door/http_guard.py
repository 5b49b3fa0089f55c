"""The first look at every HTTP request: its host and its origin; and the headers of every answer."""

import secrets
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from poweron_services.door.problems import Problem, problem_response

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
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
}


class HttpGuard:
    """Refuses requests for foreign hosts (DNS rebinding) and from pages of other sites (CSRF)."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        """`hosts` are the accepted names without ports; empty to accept every one."""
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        nonce = secrets.token_urlsafe(16)
        scope.setdefault("state", {})["nonce"] = nonce
        policy = POLICY.format(nonce=nonce)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Content-Security-Policy", policy)
            await send(message)

        try:
            self._check(scope)
        except Problem as problem:
            await problem_response(problem)(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        name = urlsplit(f"//{host}").hostname or ""
        if self._hosts and name not in self._hosts:
            raise Problem("host_unknown", f"This door does not serve the host {host[:100]!r}.")
        if scope["method"] in SAFE_METHODS:
            return
        origin = headers.get("origin")
        is_foreign = origin is not None and urlsplit(origin).netloc != host
        if is_foreign or headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise Problem("foreign_origin", f"A page of {(origin or 'another site')[:100]!r} sent this request.")
