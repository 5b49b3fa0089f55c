"""Forks: a new workflow from an event of another one, with changes from there."""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from poweron_events.request import RequestIdentity
from poweron_services.client.follow import Callbacks
from poweron_services.client.fork_request import ForkWish, fork, plan_fork
from poweron_services.door.access import Sender
from poweron_services.door.body_reader import received
from poweron_services.door.command_outcomes import ForkOutcome
from poweron_services.door.dispatch import Dispatching
from poweron_services.door.query_parameters import WorkflowId
from poweron_services.door.request_bodies import ForkBody, described
from poweron_services.door.workflow_commands import outcome_json
from poweron_services.door.workflow_queries import find_workflow

router = APIRouter(tags=["commands"])

CHANGES: Final = ("model", "prompt", "max_steps", "live", "answer", "parameters")
EXAMPLE: Final = {"at": 0, "model": "builtin", "prompt": "When does it open in winter?", "live": False}


@router.post("/workflows/{workflow_id}/forks", status_code=202, **described(ForkBody, EXAMPLE, ForkOutcome))
async def fork_workflow(
    *, request: Request, workflow_id: WorkflowId, caller: Sender, dispatch: Dispatching
) -> Response:
    """Start a new workflow that takes over everything up to the event `at`; `workflowId` is the new one.

    From there, models decide again, or the one that `model` names: one of the settings, `builtin`, or one of a provider
    whose key is set. Results of the same actions are still reused; other actions only run with `live`.
    If several rounds are taken over, this door requests each one as the one before it ends.
    """
    async with received(request, ForkBody) as asked:
        body = asked.body
        wish = ForkWish(workflow_id, body.at, **{name: getattr(body, name) for name in CHANGES})

        async def work(identity: RequestIdentity, callbacks: Callbacks) -> Mapping[str, Any]:
            connections = dispatch.door.opened
            await find_workflow(connections, workflow_id)
            plan = await plan_fork(connections, wish)
            forked = await fork(connections, wish, plan, actor=caller.actor, identity=identity, callbacks=callbacks)
            return {
                **outcome_json(forked.outcome),
                "forkedFrom": plan.forked_from.model_dump(mode="json", by_alias=True),
                "reusedCalls": forked.reuse.calls,
                "reusedActions": forked.reuse.actions,
                "nothingLeft": plan.nothing_left,
            }

        return await dispatch.answer(dispatch.identity(caller), asked.sha256, work, keeps_working=True)
