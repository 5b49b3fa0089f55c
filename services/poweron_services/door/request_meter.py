"""Measure every HTTP request: how many are running, and how soon each is answered."""

import time
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from poweron_services.door.door_state import DoorState

NO_ROUTE: Final = "none"


class RequestMeter:
    """Measures requests by the template of their path, never by the path itself."""

    def __init__(self, app: ASGIApp, door: DoorState) -> None:
        self._app = app
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.monotonic()

        async def send_measured(message: Message) -> None:
            if message["type"] == "http.response.start":
                seconds = time.monotonic() - began
                self._door.probes.meter.request_answered(scope["method"], _route(scope), message["status"], seconds)
            await send(message)

        self._door.begin_request()
        try:
            await self._app(scope, receive, send_measured)
        finally:
            self._door.end_request()


def _route(scope: Scope) -> str:
    """Return the template of the path, such as `/api/v1/workflows/{workflow_id}`, or the name of a folder of files."""
    if (context := scope.get("fastapi", {}).get("effective_route_context")) is not None:
        return str(context.path)  # with the prefix of its router, which the route itself lacks
    if "route" in scope:
        return str(scope["route"].path)
    return str(scope["root_path"]) if "endpoint" in scope else NO_ROUTE
