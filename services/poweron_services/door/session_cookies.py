"""Sessions of pages in a signed cookie, and the tokens that prove that a form comes from a page of the same session.

The signature depends on the key with which the session began, so no table is needed, and a revoked key ends its
sessions.
"""

import hashlib
import hmac
from typing import Final

from fastapi import Request, Response
from itsdangerous import BadSignature, TimestampSigner

from poweron_projections.access_keys import KEY_ID, AccessKey
from poweron_services.door.door_state import DoorState, state_of
from poweron_services.door.problems import Problem

COOKIE: Final = "__Host-poweron"
LIFE: Final = 43_200  # seconds
TOKEN_HEADER: Final = "X-Form-Token"  # noqa: S105 - the name of a header
MAX_COOKIE: Final = 300  # characters
OUTDATED: Final = "The form does not come from a page of this session."


def begin_session(request: Request, response: Response, key: AccessKey) -> None:
    """Set the cookie of a new session."""
    signed = _signer(state_of(request), key).sign(key.key_id).decode()
    response.set_cookie(COOKIE, signed, max_age=LIFE, path="/", secure=True, httponly=True, samesite="strict")


def end_session(response: Response) -> None:
    """Remove the cookie."""
    response.delete_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="strict")


async def session_key(request: Request) -> AccessKey | None:
    """Return the key with which the session of the request began; None if it has none, or that has ended.

    Raises:
        Unavailable: the key cannot be checked now.
    """
    cookie = request.cookies.get(COOKIE, "")
    key_id = cookie.partition(".")[0]
    if len(cookie) > MAX_COOKIE or not KEY_ID.fullmatch(key_id):
        return None
    door = state_of(request)
    key = await door.keys.find(door.pool, key_id)
    if key is None:
        return None
    try:
        _signer(door, key).unsign(cookie, max_age=LIFE)
    except BadSignature:
        return None
    return key


def _signer(door: DoorState, key: AccessKey) -> TimestampSigner:
    return TimestampSigner(door.secret.derived("session", key.sha256), digest_method=hashlib.sha256)


def form_token(request: Request) -> str:
    """Return the value of the hidden field `token` of every form."""
    cookie = request.cookies.get(COOKIE, "")
    return state_of(request).secret.derived("form", cookie.encode()).hex()


def check_token(request: Request, given: str) -> None:
    """Refuse a form that does not come from a page of the same session."""
    if not hmac.compare_digest(given.encode(), form_token(request).encode()):
        raise Problem("form_outdated", OUTDATED)
