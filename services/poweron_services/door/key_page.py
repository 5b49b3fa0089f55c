"""The page of keys: whose they are, what they may do, and until when; never a key itself."""

from fastapi import APIRouter, Request, Response
from starlette.responses import HTMLResponse

from poweron_projections.access_keys import SCOPES, all_keys, now_ms
from poweron_services.door.access import Auditor, is_of_this_machine
from poweron_services.door.door_state import Opened
from poweron_services.door.page_rendering import rendered
from poweron_services.door.query_route import QueryRoute

router = APIRouter(route_class=QueryRoute, default_response_class=HTMLResponse)


@router.get("/keys")
async def keys_page(request: Request, connections: Opened, caller: Auditor) -> Response:
    """List all keys, newest first, also expired and revoked ones."""
    keys = await all_keys(connections.pool)
    now = now_ms()
    states = [key.state(now) for key in keys]
    return rendered(
        request,
        "keys.html",
        keys=list(zip(keys, states, strict=True)),
        valid=states.count("valid"),
        scopes=SCOPES,
        own=None if caller.key is None else caller.key.key_id,
        is_local=is_of_this_machine(request),
    )
