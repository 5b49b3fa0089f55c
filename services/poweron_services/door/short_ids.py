"""Short ids of workflows, as lists show them: the first eight digits or more, where only one workflow has them."""

from typing import Final

from fastapi import Request
from fastapi.exceptions import RequestValidationError

from poweron_events.codec import is_uuid
from poweron_events.errors import PowerOnError
from poweron_projections import workflow_excerpts
from poweron_projections.connection import Pool
from poweron_services.door.door_state import state_of

SHORTEST: Final = 8  # digits
_LEAST: Final = "00000000-0000-0000-0000-000000000000"
_LAST: Final = "ffffffff-ffff-ffff-ffff-ffffffffffff"


async def whole_id(pool: Pool, given: str) -> str:
    """Return the id of the only workflow whose id begins like this; if there is none or several, what was given.

    Raises:
        Unavailable: Postgres cannot be reached.
    """
    start = given.strip().lower()
    least, last = (start + rest[len(start) :] for rest in (_LEAST, _LAST))
    if len(start) < SHORTEST or is_uuid(start) or not is_uuid(least):
        return start if is_uuid(start) else given
    ids = await workflow_excerpts.ids_between(pool, least, last, limit=2)
    return ids[0] if len(ids) == 1 else given


async def whole_address(request: Request, error: Exception) -> str | None:
    """Return the address of the page with the whole id if it was refused for a short one; None if that is not why.

    The sender may see pages: a route checks that before its parameters.
    """
    given, pool = request.path_params.get("workflow_id", ""), state_of(request).pool
    path = request.url.path
    if not isinstance(error, RequestValidationError) or not path.startswith(f"/w/{given}") or pool is None:
        return None
    try:
        id_ = await whole_id(pool, given)
    except PowerOnError:
        return None
    if request.method != "GET" or not is_uuid(id_) or id_ == given:
        return None
    return f"/w/{id_}{path.removeprefix(f'/w/{given}')}" + (f"?{request.url.query}" if request.url.query else "")
