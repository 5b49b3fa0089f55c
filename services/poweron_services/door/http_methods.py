"""HEAD as GET without its body, and the methods of each path for OPTIONS and for 405."""

from collections.abc import Iterable
from typing import Final

from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Mount
from starlette.types import ASGIApp, Message, Receive, Scope, Send

METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")


def allowed(routes: Iterable[BaseRoute], scope: Scope) -> str:
    """Return the value of `Allow` for the path of a request; "" if nothing is at this path."""
    known = [*routes]
    methods = {method for method in METHODS if _takes(known, {**scope, "method": method})}
    if "GET" in methods:
        methods.add("HEAD")
    return ", ".join(sorted({*methods, "OPTIONS"})) if methods else ""


def _takes(routes: Iterable[BaseRoute], scope: Scope) -> bool:
    return any(
        route.matches(scope)[0] is Match.FULL and not (isinstance(route, Mount) and scope["method"] != "GET")
        for route in routes
    )


class HttpMethods:
    """Answers HEAD and OPTIONS for all paths of an application."""

    def __init__(self, app: ASGIApp, routes: Iterable[BaseRoute]) -> None:
        self._app = app
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope.get("method")
        if method == "HEAD":
            await self._app({**scope, "method": "GET"}, _no_client(), _without_body(send))
        elif method == "OPTIONS" and (methods := allowed(self._routes, scope)):
            await Response(status_code=204, headers={"Allow": methods})(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _no_client() -> Receive:
    """Receive an empty request, whose client has gone: a stream ends at once."""
    messages: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        return messages.pop() if messages else {"type": "http.disconnect"}

    return receive


def _without_body(send: Send) -> Send:
    async def send_head(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    return send_head
