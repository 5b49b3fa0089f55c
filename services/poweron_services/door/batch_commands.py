"""One verb for many workflows, with a result for each."""

import time
import uuid
from collections.abc import Sequence
from contextlib import aclosing
from typing import Final

import orjson
from fastapi import APIRouter, Request, Response

from poweron_events.request import NAMESPACE, RequestIdentity
from poweron_projections.verify import catch_up
from poweron_projections.workflow_filter import matching, parse_all
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Callbacks
from poweron_services.client.verbs import AMONG, MAX_WORKFLOWS, Instruction, carry_out
from poweron_services.door.access import Operator
from poweron_services.door.body_reader import received
from poweron_services.door.command_outcomes import BatchOutcome
from poweron_services.door.dispatch import Dispatching
from poweron_services.door.json_responses import JSON
from poweron_services.door.problems import Problem
from poweron_services.door.request_bodies import BatchBody, described

router = APIRouter(tags=["commands"])

BATCH_WITHIN: Final = 60.0  # seconds for all workflows, unless `Prefer: wait` says otherwise
EXAMPLE: Final = {"verb": "pause", "where": ["status=running and age>2h"], "reason": "The mail server is down."}


@router.post("/batch", **described(BatchBody, EXAMPLE, BatchOutcome, is_accepted=False))
async def carry_out_batch(*, request: Request, caller: Operator, dispatch: Dispatching) -> Response:
    """Pause, resume, restart or cancel up to 1,000 workflows; the result of one does not stop the others.

    A result is `pending` if there is no answer in time; repeat the batch with the same `Idempotency-Key` to see it.
    """
    async with received(request, BatchBody) as asked:
        identity = dispatch.identity(caller)
        repeated = await dispatch.first_response(identity, asked.sha256, None)
        if repeated is not None:
            return repeated
        body, connections = asked.body, dispatch.door.opened
        ids = list(dict.fromkeys(body.ids)) or await _matching_ids(connections, body)

        def own(id_: str) -> RequestIdentity:
            """Return the identity of the request about one workflow, the same one if the batch is repeated."""
            return RequestIdentity(source=identity.source, id=str(uuid.uuid5(NAMESPACE, f"{identity.id}|{id_}")))

        instruction = Instruction(body.verb, body.reason, caller.actor, own)
        wait = BATCH_WITHIN if dispatch.wait is None else dispatch.wait
        async with aclosing(carry_out(connections, instruction, ids, Callbacks(), within=wait)) as carried_out:
            results = [result.as_object() async for result in carried_out]
        response = Response(orjson.dumps({"results": results}), media_type=JSON)
        if dispatch.wait is not None:
            response.headers["Preference-Applied"] = f"wait={wait:.0f}"
        if all(result["status"] != "pending" for result in results):
            await dispatch.keep(identity, response)
        return response


async def _matching_ids(connections: Connections, body: BatchBody) -> Sequence[str]:
    conditions = parse_all(body.where, lambda: time.time_ns() // 1_000_000)
    await catch_up(connections.log, connections.pool)
    matches = await matching(connections.pool, conditions, limit=MAX_WORKFLOWS, among=AMONG[body.verb])
    if matches.count > MAX_WORKFLOWS:
        raise Problem(
            "invalid_request",
            f"where: {matches.count:,} workflows match; at most {MAX_WORKFLOWS:,} are allowed. Narrow the condition.",
        )
    return matches.workflow_ids
