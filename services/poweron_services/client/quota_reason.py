"""Why a request waits for a quota of the policy, and until when."""

import time

from poweron_events import topics
from poweron_events.errors import PowerOnError
from poweron_events.fold.day_use import counted_day_start_ms, shares
from poweron_events.request import POLICY_ID, RequestIdentity, RequestRound, RequestWorkflow
from poweron_events.stream import claimed_actor
from poweron_projections import request_answers
from poweron_projections.day_totals import read_day_use
from poweron_services.client.connect import Connections
from poweron_services.decider.quotas import quota_reached


async def quota_reason(
    connections: Connections, request: RequestWorkflow | RequestRound, identity: RequestIdentity
) -> str | None:
    """Return which quota a request waits for, and until when; None if it waits for none or a server does not answer."""
    try:
        partition = connections.log.partition_of(topics.EVENTS.name, POLICY_ID.encode())
        _, policy = await request_answers.policy_after(connections.pool, partition, 0)
        if policy is None or not policy.has_quotas:
            return None
        day = await read_day_use(connections.pool, counted_day_start_ms(time.time_ns() // 1_000_000))
    except PowerOnError:
        return None
    actor = claimed_actor(request, identity.source)
    both = shares(policy.terms, actor, identity.source, day)
    reached = quota_reached(both, policy.number, day.day_start_ms)
    return None if reached is None else reached.reason
