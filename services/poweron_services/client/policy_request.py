"""Apply a policy: send it, and wait until intake has applied or refused it and the rows show that."""

import uuid
from dataclasses import dataclass
from typing import Final

from poweron_events import topics
from poweron_events.actor import Actor
from poweron_events.client import hear, send
from poweron_events.codes import Code
from poweron_events.fold.state import Workflow
from poweron_events.policy import AppliedPolicy, Policy
from poweron_events.request import POLICY_ID, PolicyApplied, RequestPolicy, RequestRefused
from poweron_projections import request_answers
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Callbacks, RequestWaiter, wait_for_rows

APPLIES_ALREADY: Final = "policy_applies_already"
"""The code of the refusal of a policy that is the current one."""


@dataclass(frozen=True, slots=True)
class PolicyOutcome:
    """What became of a policy."""

    number: int | None
    """Its number; None if it was refused."""
    code: Code | None = None
    """Why it was refused; None if it was applied."""
    detail: str = ""
    """The reason as a sentence."""


async def apply_policy(
    connections: Connections,
    policy: Policy,
    *,
    reason: str,
    actor: Actor,
    source: str,
    callbacks: Callbacks,
    previous: str | None = None,
) -> PolicyOutcome:
    """Apply a policy to all rounds that are opened from now on.

    Args:
        connections: where to send it.
        policy: the policy.
        reason: why.
        actor: on whose behalf.
        source: the CloudEvent source of the request.
        callbacks: called with what happens meanwhile.
        previous: the SHA-256 of the policy to replace; the request is refused if another is current; None for any.

    Raises:
        NotServed: no process picked up the request in time; it remains in the log.
        RowsBehind: the policy was applied or refused, but the rows do not show it yet.
        Unavailable: a server cannot be reached.
    """
    start, newest = await _newest(connections)
    request = RequestPolicy(policy=policy, previous=previous, reason=reason, actor=actor)
    sent = await send(
        connections.log, request, source=source, request_id=str(uuid.uuid4()), start=start, seal=connections.seal
    )
    callbacks.requested(POLICY_ID)
    waiter = RequestWaiter(POLICY_ID, "policy", callbacks)
    record = await waiter.until_answered(hear(connections.log, sent, Workflow(POLICY_ID, policy=newest)))
    await wait_for_rows(connections, sent.partition, record.workflow)
    if isinstance(record.event, RequestRefused):
        return PolicyOutcome(None, record.event.precise_code, record.event.detail)
    assert isinstance(record.event, PolicyApplied)
    return PolicyOutcome(record.event.number)


async def _newest(connections: Connections) -> tuple[int, AppliedPolicy | None]:
    """Return where to read on after the rows, and the newest policy that they hold."""
    partition = connections.log.partition_of(topics.EVENTS.name, POLICY_ID.encode())
    return await request_answers.policy_after(connections.pool, partition, 0)
