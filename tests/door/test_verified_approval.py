"""Four eyes that cannot be forged: only the holder of a key approves for a group whose members must be verified."""

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from remote_door import LIST, RemoteDoor, bearer, remote

from poweron_events.actor import Actor
from poweron_events.policy import Policy
from poweron_events.request import RequestIdentity
from poweron_events.request_seal import sealed
from poweron_projections import open_questions, reader
from poweron_projections.access_keys import digest
from poweron_projections.verify import verify
from poweron_services.client.approve import ApprovalOutcome, answer, answer_to
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Callbacks
from poweron_services.client.policy_request import apply_policy
from poweron_services.door.key_cache import KeyCache
from poweron_services.settings.config import Settings
from poweron_services.standalone import open_connections

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

LETTER = Path(__file__).parents[2] / "docs/examples/letter.txt"
VERIFIED = Policy.model_validate(
    {
        "apply": ["owners"],
        "groups": {
            "owners": {"members": ["carla"]},
            "risk": {"members": ["ada"], "verified": True},
            "officers": {"roles": ["officer"]},
        },
        "rules": [{"actions": ["*"], "decision": "approve", "approvers": 2, "from": ["risk", "officers"]}],
        "otherwise": "allow",
    }
)
CLAIMED = Actor(id="ada", via="cli")
ADA = Actor(id="ada", via="http", verified=True)
OTTO = Actor(id="otto", roles=("officer",), via="http", verified=True)


async def test_an_approval_counts_for_a_verified_group_only_with_a_key(door_settings: Settings) -> None:
    async with (
        remote(door_settings, serving=True) as door,
        open_connections(door_settings, lambda _: None) as connections,
    ):
        applied = await apply_policy(
            connections,
            VERIFIED,
            reason="Only with a key.",
            actor=Actor(id="carla", via="cli"),
            source="/tests",
            callbacks=Callbacks(),
        )
        assert applied.number == 1
        sender, ada = await door.key("crm", "request", actor="crm"), await door.key("ada", "approve")
        asked = await door.http.post(
            LIST,
            data={"request": '{"prompt": "When does it open?"}'},
            files={"file": ("letter.txt", LETTER.read_bytes())},
            headers=bearer(sender),
        )
        workflow = asked.json()["workflowId"]
        decided = partial(_decided, door, connections, workflow)

        forgeries: list[tuple[Actor, Callable[[bytes], bytes] | None]] = [
            (CLAIMED, None),
            (ADA, None),
            (ADA, partial(sealed, key=b"guessed")),
            (OTTO, None),
        ]
        for actor, seal in forgeries:
            refused = await decided(actor, seal)
            assert (refused.status, refused.code) == ("refused", "not_an_approver")

        keys = KeyCache()
        assert await keys.find(door.pool, digest(ada).hex())
        assert (await decided(ADA, keys.seal)).status == "counted"
        assert (await decided(OTTO, keys.seal)).status == "approved"
        while (await _finished(door, workflow)) is None:
            await decided(ADA, keys.seal)
            await decided(OTTO, keys.seal)
        events = await reader.events(door.pool, workflow, limit=500)
        actors = [event.data["actor"] for event in events if event.type == "poweron.approval.granted.v1"]
        assert [(actor["id"], actor["verified"]) for actor in actors[:2]] == [("ada", True), ("otto", True)]
        assert events[0].data["actor"] == {"id": "crm", "kind": "person", "roles": [], "via": "http", "verified": True}
        assert not (await verify(connections.log, door.pool)).differences


async def _decided(
    door: RemoteDoor,
    connections: Connections,
    workflow: str,
    actor: Actor,
    seal: Callable[[bytes], bytes] | None,
) -> ApprovalOutcome:
    """Approve the action that waits, as a door does that has this seal."""
    entry = await _waiting(door, workflow)
    identity = RequestIdentity(source=f"/tests/{actor.id}", id=secrets.token_hex(8))
    request = answer_to(entry, "approve", reason="So be it.", approver=actor)
    return await answer(replace(connections, seal=seal), request, identity=identity, callbacks=Callbacks())


async def _waiting(door: RemoteDoor, workflow: str) -> Any:
    async with asyncio.timeout(60):
        while not (waiting := await open_questions.approvals(door.pool, workflow)):
            pass
    return waiting[0]


async def _finished(door: RemoteDoor, workflow: str) -> str | None:
    """Return how the workflow has ended; None if another action of it waits for approval."""
    async with asyncio.timeout(60):
        while not await open_questions.approvals(door.pool, workflow):
            summary = await reader.workflow(door.pool, workflow)
            if summary is not None and summary.status == "completed":
                return summary.status
    return None
