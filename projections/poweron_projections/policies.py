"""The policies as rows: each that was applied, by whom, and which one it replaced."""

from typing import NamedTuple

from poweron_events.envelope import Recorded
from poweron_events.event import READING
from poweron_events.policy import AppliedPolicy, Policy
from poweron_events.request import PolicyApplied
from poweron_projections.connection import Found
from poweron_projections.table_spec import Json, Table, Uuid, json, text


class PolicyRow(NamedTuple):
    """One policy; it applies to rounds that are opened after it and before the next one."""

    workflow_id: Uuid
    number: int
    seq: int
    sha256: str
    previous: str | None
    name: str
    policy: Json
    reason: str
    actor: Json
    time_ms: int


POLICIES = Table("policies", PolicyRow, key=("workflow_id", "number"))


def applied_policy(row: Found) -> AppliedPolicy:
    """Return the policy that a row holds."""
    return AppliedPolicy(row["number"], row["sha256"], Policy.model_validate(row["policy"], context=READING))


def policy_rows(recorded: Recorded, seq: int) -> list[PolicyRow]:
    """Return the row of an accepted policy."""
    event = recorded.envelope.event
    if not isinstance(event, PolicyApplied):
        return []
    row = PolicyRow(
        workflow_id=recorded.envelope.workflow_id,
        number=event.number,
        seq=seq,
        sha256=event.sha256,
        previous=event.previous,
        name=text(event.policy.name),
        policy=json(event.policy),
        reason=text(event.reason),
        actor=json(event.actor),
        time_ms=recorded.time_ms,
    )
    return [row]
