"""Who may not answer under the policy is told so over HTTP, and the log keeps that they tried."""

import pytest
from door_requests import API, answered, expect, get, until
from opened_door import Door

from poweron_events.actor import Actor
from poweron_events.policy import Policy
from poweron_services.client.follow import Callbacks
from poweron_services.client.policy_request import apply_policy
from poweron_services.settings.config import Settings
from poweron_services.standalone import open_connections

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

FOUR_EYES = Policy.model_validate(
    {
        "apply": ["owners"],
        "groups": {"owners": {"members": ["carla"]}},
        "rules": [{"actions": ["*"], "decision": "approve", "notRequester": True}],
        "otherwise": "allow",
    }
)


async def test_who_asked_for_the_work_cannot_approve_it_but_deny_it(door: Door, door_settings: Settings) -> None:
    async with open_connections(door_settings, lambda _: None) as connections:
        await apply_policy(
            connections,
            FOUR_EYES,
            reason="",
            actor=Actor(id="carla", via="cli"),
            source="/tests",
            callbacks=Callbacks(),
        )
    asked = await door.http.post(f"{API}/workflows", json={"prompt": "Write it."})
    id_ = asked.json()["workflowId"]
    (entry,) = (await until(door, "/approvals", lambda page: page["items"]))["items"]
    path = f"{API}/workflows/{id_}/approvals/r1t{entry['task']}a{entry['attempt']}s{entry['step']}"
    approval = {"decision": "approve", "parametersSha256": entry["parametersSha256"]}

    refused = await door.http.post(path, json=approval, headers={"Idempotency-Key": "mine"})

    expect(refused, 403, "own_request")
    again = await door.http.post(path, json=approval, headers={"Idempotency-Key": "mine"})
    assert (again.status_code, again.text) == (403, refused.text)
    assert (await get(door, "/requests/mine"))["status"] == "refused"
    types = [event["type"] for event in (await get(door, f"/workflows/{id_}/events"))["items"]]
    assert types.count("poweron.request.refused.v1") == 1
    assert "poweron.approval.granted.v1" not in types
    denied = await door.http.post(path, json={**approval, "decision": "deny", "reason": "Not now."})
    assert denied.status_code == 202, denied.text
    assert (await answered(door, denied))["status"] == "accepted"
