"""What intake makes of a person's answer to the question whether an action may run."""

from poweron_events.execution import ApprovalDenied, ApprovalGranted
from poweron_events.request import RequestApproval, RequestIdentity
from poweron_services.intake.ports import Asked


def why_not(request: RequestApproval, asked: Asked | None, now_ms: int) -> str | None:
    """Why the answer cannot be taken, as a sentence; None if it can."""
    place = f"Step {request.step} of task {request.task} in round {request.round}"
    if asked is None:
        return f"{place} does not wait for an approval."
    if asked.state != "asked":
        return f"{place} was {'approved' if asked.state == 'granted' else 'denied'} already{_by(asked)}."
    if not asked.waits:
        return f"{place} does not wait for an approval any more; its round was stopped."
    if request.parameters_sha256 != asked.parameters_sha256:
        return f"{place} waits with other parameters than those that the answer is about; look at them again."
    if now_ms >= asked.due_ms:
        return f"The time in which {place[0].lower()}{place[1:]} could be approved is over."
    return None


def _by(asked: Asked) -> str:
    return f" by {asked.by}" if asked.by else ""


def answer(request: RequestApproval, identity: RequestIdentity) -> ApprovalGranted | ApprovalDenied:
    """The answer as an event."""
    return (ApprovalGranted if request.decision == "approve" else ApprovalDenied)(
        round=request.round,
        task=request.task,
        attempt=request.attempt,
        step=request.step,
        parameters_sha256=request.parameters_sha256,
        reason=request.reason,
        requester=request.requester,
        request=identity,
    )
