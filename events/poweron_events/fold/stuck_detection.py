"""The effect of superseded records: several that respond to the same head in vain make the workflow stuck.

That happens when a role and the fold disagree, such as two releases with different rules, or when events are forged.
"""

from poweron_events.envelope import Recorded
from poweron_events.fold.state import Workflow


def superseded(workflow: Workflow, recorded: Recorded) -> Workflow:
    """Return the workflow after a record without effect. Identical bytes count once."""
    hashes = workflow.superseded
    if not workflow.stuck and answers_head(workflow, recorded):
        hashes |= {recorded.sha256}
    return workflow._replace(superseded=hashes, seq=workflow.seq + 1, last=recorded.offset)


def answers_head(workflow: Workflow, recorded: Recorded) -> bool:
    """Return whether the writer of the record had read the current state of the workflow.

    An event that was appended together with its cause, whose offset was not known yet, was written before the verdict
    on that cause: if the round was stopped in the meantime, the event is merely late.
    """
    cause = recorded.envelope.cause
    return workflow.is_open and cause is not None and cause.offset is not None and cause.names(workflow.head)
