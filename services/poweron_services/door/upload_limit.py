"""The limit of forms with documents: one that is too large is refused before it is read, or where it exceeds it."""

from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from poweron_services.connectors.documents_child.limits import ReadLimits
from poweron_services.door.access import MAX_FILES
from poweron_services.door.door_state import API
from poweron_services.door.problems import Problem
from poweron_services.door.request_bodies import FORM

LARGEST: Final = ReadLimits().input_bytes  # of one document; a larger one cannot be read
TOGETHER: Final = 2 * LARGEST  # bytes of all documents of a form
OTHER_FIELDS: Final = 2_000_000  # bytes of a form beside its documents
MEGABYTE: Final = 1_000_000
DIGITS: Final = 20  # of a length; a number with more is read as none
IN_WORDS: Final = (
    f"Up to {MAX_FILES} documents, at most {LARGEST // MEGABYTE} MB each and {TOGETHER // MEGABYTE} MB together."
)


class UploadLimit:
    """Refuses a form of a page that is larger than its documents may be; requests to the API have limits of their own.

    The refusal is raised where the form is read, so after its sender is known.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and not scope["path"].startswith(f"{API}/"):
            headers = Headers(scope=scope)
            if headers.get("content-type", "").lower().startswith(FORM):
                receive = _limited(receive, headers.get("content-length", ""))
        await self._app(scope, receive, send)


def _limited(receive: Receive, declared: str) -> Receive:
    most = TOGETHER + OTHER_FIELDS
    is_known = declared.isascii() and declared.isdecimal() and len(declared) < DIGITS
    is_too_large, count = is_known and int(declared) > most, 0

    async def limited() -> Message:
        nonlocal count
        if is_too_large:
            raise too_large("The documents are larger")
        message = await receive()
        count += len(message.get("body", b""))
        if count > most:
            raise too_large("The documents are larger")
        return message

    return limited


def too_large(what: str) -> Problem:
    """Return the refusal of a form whose documents are too large."""
    return Problem("request_too_large", f"{what} than a form may have, and nothing was sent. {IN_WORDS}")
