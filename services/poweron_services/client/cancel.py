"""Cancel: stop the open round of a workflow, and hear what came of it."""

import time

from poweron_events.errors import Refused
from poweron_events.request import RequestCancellation, Requester, RequestIdentity
from poweron_services.client.connect import Connections
from poweron_services.client.follow import FollowingCancellation, Outcome, Told, answered, outcome, standing


async def cancel(
    connections: Connections,
    workflow_id: str,
    *,
    reason: str,
    requester: Requester,
    identity: RequestIdentity,
    told: Told,
) -> Outcome:
    """Ask for the end of the workflow's open round and follow it to there.

    The outcome is `cancelled` unless the round came to another end before, or was about to (`refusal`).

    Raises:
        Refused: there is no such workflow, or no round of it is open.
        Unavailable: a server cannot be reached.
        Unserved: nobody serves; the request stands.
    """
    found = await standing(connections, workflow_id)
    if not found.stub.is_open:
        raise Refused(
            f"Round {found.last_round} of workflow {workflow_id} has ended already, there is nothing to cancel. "
            f"`poweron history {workflow_id}` shows what came of it"
        )
    request = RequestCancellation(workflow_id=workflow_id, round=found.last_round, reason=reason, requester=requester)
    began = time.monotonic()
    following = FollowingCancellation(workflow_id, told, news=found.position)
    heard = await answered(connections, request, identity=identity, found=found, following=following)
    return outcome(heard, round((time.monotonic() - began) * 1000))
