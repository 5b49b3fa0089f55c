"""Requests that intake lets wait because a quota of the policy is used up: why, and until when."""

import time

from poweron_events import topics
from poweron_events.actor import claimed_actor
from poweron_events.errors import PowerOnError
from poweron_events.fold.day_use import begun_day_ms, shares
from poweron_events.request import POLICY_ID, RequestIdentity, RequestRound, RequestWorkflow
from poweron_projections import request_answers
from poweron_projections.day_totals import read_day_use
from poweron_services.client.connect import Connections
from poweron_services.decider.quotas import hold


async def quota_reason(
    connections: Connections, request: RequestWorkflow | RequestRound, identity: RequestIdentity
) -> str | None:
    """Return which quota lets a request wait, and until when; None if none does, or if a server does not say.

    If no process answers requests, that is why it waits.
    """
    try:
        group = await connections.log.group_state(topics.REQUESTS.name, topics.INTAKE_GROUP)
        partition = connections.log.partition_of(topics.EVENTS.name, POLICY_ID.encode())
        _, policy = await request_answers.policy_after(connections.pool, partition, 0)
        if policy is None or not policy.has_quotas or not group.has_members:
            return None
        day = await read_day_use(connections.pool, begun_day_ms(time.time_ns() // 1_000_000))
    except PowerOnError:
        return None
    actor = claimed_actor(request, identity.source)
    held = hold(shares(policy.terms, actor, identity.source, day), policy.number, day.day_ms)
    return None if held is None else held.sentence
