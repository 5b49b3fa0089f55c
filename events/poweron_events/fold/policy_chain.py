"""The policies, which have a key of their own in the log: each names the one that it replaces and who applied it."""

from poweron_events.codec import dumps, sha256
from poweron_events.fold.state import Workflow
from poweron_events.policy import AppliedPolicy, Policy
from poweron_events.request import POLICY_ID, PolicyApplied


def policy_sha256(policy: Policy) -> str:
    """Return the SHA-256 of the policy as canonical JSON, by which everything else names it."""
    return sha256(dumps(policy.model_dump(mode="json", by_alias=True)))


def policy_applied(workflow: Workflow, event: PolicyApplied) -> Workflow | None:
    """Accept a policy if it follows the newest one and that one lets its actor apply it; anyone may apply the first.

    Intake computes the hash. It is not checked here, since a newer release may add fields that this one does not read.
    """
    newest = workflow.policy
    if workflow.id != POLICY_ID:
        return None
    follows = (1, None) if newest is None else (newest.number + 1, newest.sha256)
    if (event.number, event.previous) != follows or not (newest is None or newest.policy.may_apply(event.actor)):
        return None
    return workflow._replace(policy=AppliedPolicy(event.number, event.sha256, event.policy))
