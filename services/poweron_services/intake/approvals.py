"""What intake makes of a person's answer to the question whether an action may run."""

from poweron_events.execution import ApprovalDenied, ApprovalGranted
from poweron_events.request import RequestApproval, RequestIdentity
from poweron_services.intake.ports import StepApproval


def why_not(request: RequestApproval, approval: StepApproval | None, now_ms: int) -> str | None:
    """Why the answer cannot be taken, as a sentence; None if it can."""
    place = f"Step {request.step} of task {request.task} in round {request.round}"
    if approval is None:
        return f"{place} does not wait for an approval."
    if approval.state != "asked":
        return f"{place} was {'approved' if approval.state == 'granted' else 'denied'} already{_by(approval)}."
    if not approval.waits:
        return f"{place} does not wait for an approval any more; its round was stopped."
    if request.parameters_sha256 != approval.parameters_sha256:
        return f"{place} waits with other parameters than those that the answer is about; look at them again."
    if now_ms >= approval.due_ms:
        return f"The time in which {place[0].lower()}{place[1:]} could be approved is over."
    return None


def _by(approval: StepApproval) -> str:
    return f" by {approval.by}" if approval.by else ""


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
