"""The page of keys: whose they are, what they may do, and until when; never a key itself."""

from collections.abc import Mapping
from typing import Final

from fastapi import APIRouter, Request, Response
from starlette.responses import HTMLResponse

from poweron_projections.access_keys import AccessScope, all_keys, now_ms
from poweron_services.door.access import Auditor, is_of_this_machine
from poweron_services.door.door_state import Opened
from poweron_services.door.page_rendering import rendered
from poweron_services.door.query_route import QueryRoute

router = APIRouter(route_class=QueryRoute, default_response_class=HTMLResponse)

SCOPE_WORDS: Final[Mapping[AccessScope, str]] = {
    "read": "See workflows, their events and streams, and why records are dead letters.",
    "content": "See documents, prompts and answers.",
    "request": "Ask for work: workflows, follow-ups and forks.",
    "approve": "Answer approvals and questions for a larger budget.",
    "operate": "Pause, resume, cancel and restart workflows; send dead letters again.",
    "audit": "See permissions, policies, keys, replays, and the bytes of records.",
}
"""What a key with each scope may do."""


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
        scopes=SCOPE_WORDS,
        own=None if caller.key is None else caller.key.key_id,
        is_local=is_of_this_machine(request),
    )
