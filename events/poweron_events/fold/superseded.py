"""What a superseded record leaves behind: who answers to the head in vain again and again makes the workflow stuck.

That is where a role and the fold disagree, such as two releases with different rules, or where somebody forges.
"""

from poweron_events.envelope import Recorded
from poweron_events.fold.state import Workflow


def superseded(workflow: Workflow, recorded: Recorded) -> Workflow:
    """The workflow after a record without effect. The same bytes again count once."""
    hashes = workflow.superseded
    if not workflow.stuck and answers_head(workflow, recorded):
        hashes |= {recorded.sha256}
    return workflow._replace(superseded=hashes, seq=workflow.seq + 1, last=recorded.offset)


def answers_head(workflow: Workflow, recorded: Recorded) -> bool:
    """Whether whoever wrote the record had read the workflow as it stands.

    An event that travelled with its cause, whose offset it could not know, was written before the verdict on that:
    where the round was stopped meanwhile, it is honestly too late.
    """
    cause = recorded.envelope.cause
    return workflow.is_open and cause is not None and cause.offset is not None and cause.names(workflow.head)
