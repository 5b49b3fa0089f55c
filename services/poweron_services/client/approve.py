"""Approve or deny: answer the question whether an action may run, and hear whether the answer was taken."""

from typing import Literal

from poweron_events.client import Heard
from poweron_events.execution import ApprovalDenied, ApprovalGranted
from poweron_events.request import RequestApproval, Requester, RequestIdentity
from poweron_projections.entries import ApprovalEntry
from poweron_services.client.connect import Connections
from poweron_services.client.follow import TAKEN_WITHIN, Following, Told, answered, standing


async def answer(
    connections: Connections,
    asked: ApprovalEntry,
    *,
    decision: Literal["approve", "deny"],
    reason: str,
    approver: Requester,
    identity: RequestIdentity,
    told: Told,
) -> Heard:
    """Approve or deny exactly what was shown; the record that says whether the answer was taken.

    Raises:
        Refused: there is no such workflow.
        Unavailable: a server cannot be reached.
        Unserved: nobody serves; the answer stands.
    """
    found = await standing(connections, asked.workflow_id)
    place = {name: getattr(asked, name) for name in ("round", "task", "attempt", "step")}
    request = RequestApproval(
        **place,
        workflow_id=asked.workflow_id,
        parameters_sha256=asked.parameters_sha256,
        decision=decision,
        reason=reason,
        requester=approver,
    )
    following = FollowingApproval(asked.workflow_id, told, news=found.position)
    return await answered(connections, request, identity=identity, found=found, following=following)


class FollowingApproval(Following):
    """An answer that is followed until it is taken or refused."""

    def _takes(self, heard: Heard) -> bool:
        """Whether somebody has answered: that the workflow waits tells nothing."""
        return isinstance(heard.event, ApprovalGranted | ApprovalDenied) and heard.verdict == "accepted"

    def _standing(self) -> str:
        return (
            f"Nobody has taken the answer within {TAKEN_WITHIN:g} s. It stands: as soon as a `poweron serve` "
            f"runs on these servers, it is judged, and `poweron watch {self._id}` shows what comes of it."
        )
