"""How intake judges a person's answer to the question whether an action may run."""

from poweron_events.execution import ApprovalDenied, ApprovalGranted
from poweron_events.request import RequestApproval, RequestIdentity
from poweron_services.intake.intake_ports import OpenQuestion
from poweron_services.intake.judgement import Refusal


def why_not(request: RequestApproval, approval: OpenQuestion | None, now_ms: int) -> Refusal | None:
    """Return why the answer cannot be accepted, or None if it can."""
    place = f"Step {request.step} of task {request.task} in round {request.round}"
    if approval is None:
        return Refusal("nothing_to_approve", f"{place} does not wait for an approval.")
    if approval.state != "asked":
        is_granted = approval.state == "granted"
        message = f"{place} was {'approved' if is_granted else 'denied'} already{_by(approval)}."
        return Refusal("already_approved" if is_granted else "already_denied", message)
    if not approval.waits:
        return Refusal("nothing_to_approve", f"{place} does not wait for an approval any more; its round was stopped.")
    if request.parameters_sha256 != approval.parameters_sha256:
        message = f"{place} waits with other parameters than those that the answer is about; look at them again."
        return Refusal("other_parameters", message)
    if now_ms >= approval.due_ms:
        message = f"The time in which {place[0].lower()}{place[1:]} could be approved is over."
        return Refusal("approval_overdue", message)
    return None


def _by(approval: OpenQuestion) -> str:
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
