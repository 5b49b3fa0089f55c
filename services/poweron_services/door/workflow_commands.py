"""Commands about one workflow: requests in the log, each answered with 202 as soon as it is there."""

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from starlette.datastructures import UploadFile

from poweron_events.errors import Refused
from poweron_events.event import Model
from poweron_events.request import Requester, RequestIdentity, RequestWorkflow, workflow_id
from poweron_services.client.ask import ask, follow_up
from poweron_services.client.follow import Callbacks, Outcome
from poweron_services.client.verbs import Instruction, Verb, carry_out
from poweron_services.door.access import HttpCaller, Operator, Sender
from poweron_services.door.body_reader import received, store
from poweron_services.door.command_outcomes import VerbOutcome, WorkflowOutcome
from poweron_services.door.dispatch import Dispatch, Dispatching
from poweron_services.door.door_state import DoorState
from poweron_services.door.query_parameters import WorkflowId
from poweron_services.door.request_bodies import PROMPT, ReasonBody, RoundBody, WorkflowBody, described
from poweron_services.door.workflow_queries import find_workflow

router = APIRouter(tags=["commands"])

REASON: Final = {"reason": "The supplier answered by telephone."}


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """Return the outcome of a request, with the fields of `--json`.

    Raises:
        Refused: the request was refused.
    """
    if outcome.refusal is not None:
        raise Refused(outcome.message, code=outcome.code)
    return outcome.as_object()


@router.post("/workflows", status_code=202, **described(WorkflowBody, PROMPT, WorkflowOutcome, files=True))
async def start_workflow(*, request: Request, caller: Sender, dispatch: Dispatching) -> Response:
    """Ask for work: open a workflow, with documents as further parts of a form."""
    async with received(request, WorkflowBody, files=True) as asked:
        identity = dispatch.identity(caller)
        opened = workflow_id(identity.source, identity.id)

        async def work(identity: RequestIdentity, callbacks: Callbacks) -> Mapping[str, Any]:
            stored = await _with_documents(dispatch.door, opened, _request(asked.body, caller), asked.files)
            return outcome_json(
                await ask(dispatch.door.for_requests, stored, (), identity=identity, callbacks=callbacks)
            )

        return await dispatch.answer(identity, asked.sha256, work)


@router.post(
    "/workflows/{workflow_id}/rounds", status_code=202, **described(RoundBody, PROMPT, WorkflowOutcome, files=True)
)
async def follow_up_workflow(
    *, request: Request, workflow_id: WorkflowId, caller: Sender, dispatch: Dispatching
) -> Response:
    """Follow up on a workflow whose rounds have ended."""
    async with received(request, RoundBody, files=True) as asked:

        async def work(identity: RequestIdentity, callbacks: Callbacks) -> Mapping[str, Any]:
            connections = dispatch.door.opened
            await find_workflow(connections, workflow_id)
            round_ = await follow_up(connections, _request(asked.body, caller), workflow_id)
            stored = await _with_documents(dispatch.door, workflow_id, round_, asked.files)
            return outcome_json(await ask(connections, stored, (), identity=identity, callbacks=callbacks))

        return await dispatch.answer(dispatch.identity(caller), asked.sha256, work, workflow=workflow_id)


def _request(body: Model, caller: HttpCaller) -> RequestWorkflow:
    return RequestWorkflow(**dict(body), actor=caller.actor, requester=Requester(name=caller.actor.id))


async def _with_documents(door: DoorState, workflow: str, request: Any, files: Sequence[UploadFile]) -> Any:
    """Return the request with the files, stored as content of the workflow."""
    return request.model_copy(update={"documents": await store(door, workflow, files)})


@router.post("/workflows/{workflow_id}/cancellation", status_code=202, **described(ReasonBody, REASON, VerbOutcome))
async def cancel_workflow(
    *, request: Request, workflow_id: WorkflowId, caller: Operator, dispatch: Dispatching
) -> Response:
    """Cancel the open round, or the request for one that has no answer yet."""
    return await _carry_out("cancel", workflow_id, request, caller, dispatch)


@router.post("/workflows/{workflow_id}/pause", status_code=202, **described(ReasonBody, REASON, VerbOutcome))
async def pause_workflow(
    *, request: Request, workflow_id: WorkflowId, caller: Operator, dispatch: Dispatching
) -> Response:
    """Pause the open round: what runs is finished, and nothing new begins."""
    return await _carry_out("pause", workflow_id, request, caller, dispatch)


@router.post("/workflows/{workflow_id}/resume", status_code=202, **described(ReasonBody, REASON, VerbOutcome))
async def resume_workflow(
    *, request: Request, workflow_id: WorkflowId, caller: Operator, dispatch: Dispatching
) -> Response:
    """Resume the paused round."""
    return await _carry_out("resume", workflow_id, request, caller, dispatch)


@router.post("/workflows/{workflow_id}/restart", status_code=202, **described(ReasonBody, REASON, VerbOutcome))
async def restart_workflow(
    *, request: Request, workflow_id: WorkflowId, caller: Operator, dispatch: Dispatching
) -> Response:
    """Start a new workflow with the first request of this one; `workflowId` is the new one."""
    return await _carry_out("restart", workflow_id, request, caller, dispatch)


async def _carry_out(verb: Verb, id_: str, request: Request, caller: HttpCaller, dispatch: Dispatch) -> Response:
    async with received(request, ReasonBody) as asked:

        async def work(identity: RequestIdentity, callbacks: Callbacks) -> Mapping[str, Any]:
            connections = dispatch.door.opened
            instruction = Instruction(verb, asked.body.reason, caller.actor, lambda _: identity)
            if verb != "cancel":
                await find_workflow(connections, id_)
            async with aclosing(carry_out(connections, instruction, [id_], callbacks)) as results:
                result = await anext(results)
            if result.error is not None:
                raise result.error
            if result.status == "refused":
                raise Refused(result.detail, code=result.code)
            return result.as_object()

        return await dispatch.answer(
            dispatch.identity(caller),
            asked.sha256,
            work,
            workflow=None if verb == "restart" else id_,
            is_decision=verb != "restart",
        )
