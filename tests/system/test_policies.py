"""Policies on the real servers: who may apply them, whose approvals count, and what is forged past intake."""

from pathlib import Path
from typing import Any

import pytest
from beside import beside
from commands import Ended, Shell
from followed_workflows import Followed, send_request
from processes import serving
from surviving import until
from test_tool_kill import counted, prepared

from builders import At, person
from poweron_events import RequestWorkflow, topics
from poweron_events.codec import encode
from poweron_events.envelope import envelop
from poweron_events.fold.policy_chain import policy_sha256
from poweron_events.fold.state import parameters_sha256
from poweron_events.log import Message
from poweron_events.request import POLICY_ID, PolicyApplied, RequestIdentity
from poweron_events.stream import WorkflowEvent
from poweron_projections import reader
from poweron_projections.verify import verify
from poweron_services.cli.policy_commands import read_policy
from poweron_services.client.connect import Connections

pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]

FOUR_EYES = """
name = "four eyes"
apply = ["admins"]

[groups.admins]
members = ["carla"]

[groups.risk]
members = ["ada", "bob", "dora"]

[[rules]]
actions = ["lying"]
decision = "approve"
approvers = 2
from = ["risk"]
notRequester = true

[[rules]]
actions = ["*"]
decision = "allow"
"""
FROZEN = FOUR_EYES.replace(
    'decision = "approve"\napprovers = 2\nfrom = ["risk"]\nnotRequester = true', 'decision = "deny"'
)


class Office:
    """People who type commands, each under a name."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    async def __call__(self, name: str, *arguments: str | Path) -> Ended:
        return await self._shell(*arguments, POWERON_ACTOR=name)

    async def answer(self, name: str, workflow: str, *arguments: str) -> tuple[str, str | None]:
        """Approve or deny; what became of it, and why."""
        (told,) = (await self(name, *(arguments or ("approve",)), workflow, "--json")).lines
        return told["status"], told["code"]


def policy(folder: Path, text: str) -> Path:
    path = folder / "policy.toml"
    path.write_text(text)
    return path


async def forge(connections: Connections, key: str, event: WorkflowEvent) -> None:
    """Write an event past intake, as one can who may write to the topic."""
    value = encode(envelop(event, workflow_id=key, source="/poweron/intake/forger", time="2026-11-28T00:00:00.000Z"))
    await connections.log.append(topics.EVENTS.name, [Message(key.encode(), value)])


@pytest.mark.req("E-08")
async def test_two_people_approve_and_nothing_that_is_killed_or_forged_in_between_changes_that(
    shell: Shell, connections: Connections, environment: dict[str, str], tmp_path: Path
) -> None:
    prepared(environment, tmp_path, "count")
    office = Office(shell)
    with serving(environment, tmp_path, ["all"]) as processes:
        applied = await office("carla", "policy", "apply", policy(tmp_path, FOUR_EYES), "--reason", "Two see more.")
        assert (applied.code, applied.out) == (0, "Policy 1 applies to all rounds that are opened from now on.\n")
        request = RequestWorkflow(prompt="Count.", actor=person("ada"))
        followed = Followed(connections.log, await send_request(connections, request))
        async with beside(followed.follow()):
            id_ = followed.workflow.id
            await until(lambda: followed.workflow.phase == "approve", "the action waits")
            processes.replace(["all"])
            assert await office.answer("ada", id_) == ("refused", "own_request")
            assert await office.answer("mallory", id_) == ("refused", "not_an_approver")
            assert await office.answer("bob", id_) == ("counted", None)
            processes.replace(["all"])
            assert await office.answer("Bob", id_) == ("refused", "answered_already")
            digest = parameters_sha256(followed.workflow)
            for name in ("mallory", "bob"):
                forged = RequestIdentity(source="/forger", id=name)
                await forge(
                    connections,
                    id_,
                    At().approval_granted(parameters_sha256=digest, actor=person(name), request=forged),
                )
            assert [asked["workflowId"] for asked in (await office("dora", "approvals", "--mine", "--json")).lines] == [
                id_
            ]
            assert (await office("bob", "approvals", "--mine", "--json")).lines == []
            assert (followed.workflow.phase, counted(tmp_path, "count")) == ("approve", 0)
            processes.replace(["all"])
            assert await office.answer("dora", id_) == ("approved", None)
            await followed.ended()
    assert counted(tmp_path, "count") == 1
    assert [event.actor.id for event in followed.of("ApprovalGranted")] == ["bob", "dora"]
    assert [event.actor.id for event in followed.of("RequestRefused")] == ["ada", "mallory", "Bob"]
    assert (await verify(connections.log, connections.pool)).differences == []


@pytest.mark.soak
async def test_a_policy_follows_the_newest_one_and_comes_from_those_who_may_apply_it(
    shell: Shell, connections: Connections, environment: dict[str, str], tmp_path: Path
) -> None:
    prepared(environment, tmp_path, "count")
    office = Office(shell)
    with serving(environment, tmp_path, ["all"]) as processes:
        await office("anyone", "policy", "apply", policy(tmp_path, FOUR_EYES))
        request = RequestWorkflow(prompt="Count.", actor=person("ada"))
        followed = Followed(connections.log, await send_request(connections, request))
        async with beside(followed.follow()):
            await until(lambda: followed.workflow.phase == "approve", "the action waits")
            refused = await office("mallory", "policy", "apply", policy(tmp_path, FROZEN), "--json")
            assert (refused.code, refused.lines[0]["code"]) == (1, "not_permitted")
            await forge(connections, POLICY_ID, _forged(tmp_path))
            processes.replace(["all"])
            frozen = await office("carla", "policy", "apply", policy(tmp_path, FROZEN), "--also-open", "--json")
            assert (frozen.code, frozen.lines[0]["number"], frozen.lines[1]["status"]) == (0, 2, "applied")
            await followed.ended()
        log = (await office("ada", "policy", "log", "--json")).lines
    assert counted(tmp_path, "count") == 0
    (completed,) = followed.of("ActionCompleted")
    assert (completed.outcome, completed.code) == ("denied", "action_not_allowed")
    assert [(line["number"], line["actor"]["id"], line["previous"]) for line in log] == [
        (2, "carla", log[1]["sha256"]),
        (1, "anyone", None),
    ]
    records = await reader.events(connections.pool, POLICY_ID)
    assert [(record.type.split(".")[-2], record.verdict) for record in records] == [
        ("applied", "accepted"),
        ("refused", "accepted"),
        ("applied", "superseded"),
        ("applied", "accepted"),
    ]
    assert (await verify(connections.log, connections.pool)).differences == []


@pytest.mark.soak
async def test_an_auditor_answers_five_questions_with_commands_alone_after_the_policy_changed_twice(
    shell: Shell, connections: Connections, environment: dict[str, str], tmp_path: Path
) -> None:
    prepared(environment, tmp_path, "count")
    office = Office(shell)
    with serving(environment, tmp_path, ["all"]):
        await office("carla", "policy", "apply", policy(tmp_path, FOUR_EYES), "--reason", "Two see more.")
        request = RequestWorkflow(prompt="Count.", actor=person("ada"))
        followed = Followed(connections.log, await send_request(connections, request))
        async with beside(followed.follow()):
            id_ = followed.workflow.id
            await until(lambda: followed.workflow.phase == "approve", "the action waits")
            for name in ("ada", "bob", "dora"):
                await office.answer(name, id_)
            await followed.ended()
        for text in (FROZEN, FOUR_EYES.replace("approvers = 2\n", "")):
            assert (await office("carla", "policy", "apply", policy(tmp_path, text))).code == 0

    events = (await office("eve", "events", id_, "--json")).lines
    of = {name: [event for event in events if event["type"] == f"poweron.{name}.v1"] for name in NAMES}
    (opening,), (started,) = of["workflow.requested"], of["action.started"]
    asked = ("permissions", "--at", opening["time"], "--action", "lying.count", "--actor", "ada", "--json")
    (then,) = (await office("eve", *asked)).lines
    (permission,) = then["permissions"]
    # What was it permitted to do, and which process could do it? Who granted that?
    assert (permission["decision"], then["policy"]["number"]) == ("approval", opening["data"]["policy"]["number"])
    assert then["policy"]["sha256"] == opening["data"]["policy"]["sha256"]
    assert [started["source"].rpartition("/")[2]] == permission["processes"]
    assert (then["policy"]["actor"]["id"], then["policy"]["reason"]) == ("carla", "Two see more.")
    # Who approved, and could the requester approve her own request? What was refused?
    assert [event["data"]["actor"]["id"] for event in of["approval.granted"]] == ["bob", "dora"]
    assert (permission["actor"]["may"], permission["actor"]["notOwnRequests"]) == (True, True)
    (refused,) = of["request.refused"]
    assert (refused["data"]["actor"]["id"], refused["data"]["code"]) == ("ada", "own_request")
    assert refused["why"] == "ada requested the round, so someone else has to approve."
    # The commands say what the events say.
    assert [event.actor.id for event in followed.of("ApprovalGranted")] == ["bob", "dora"]
    assert [event.code for event in followed.of("RequestRefused")] == ["own_request"]
    (now,) = (await office("eve", "permissions", "--action", "lying.count", "--json")).lines
    assert now["policy"]["number"] == 3


NAMES = ("workflow.requested", "action.started", "approval.granted", "request.refused")


def _forged(folder: Path) -> PolicyApplied:
    written = read_policy(policy(folder, FROZEN))
    first: Any = policy_sha256(read_policy(policy(folder, FOUR_EYES)))
    return PolicyApplied(
        number=2,
        policy=written,
        sha256=policy_sha256(written),
        previous=first,
        actor=person("mallory"),
        request=RequestIdentity(source="/forger", id="policy"),
    )
