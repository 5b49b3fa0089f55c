"""All tables whose rows follow from the log; `offsets`, beside them, holds the projector's position."""

from typing import Final

from poweron_projections.audit.ledger_rows import CHECKPOINTS, ENTRIES, POSITIONS, SUBTREES
from poweron_projections.documents import DOCUMENTS
from poweron_projections.instance_rows import INSTANCES
from poweron_projections.messages import MESSAGES
from poweron_projections.offsets import OFFSETS
from poweron_projections.policies import POLICIES
from poweron_projections.records import RECORDS
from poweron_projections.requests import DEAD_LETTERS, REQUESTS
from poweron_projections.steps import STEPS
from poweron_projections.table_spec import Table
from poweron_projections.tasks import TASKS
from poweron_projections.usage import USAGE
from poweron_projections.workflows import ROUNDS, WORKFLOWS

PROJECTED: Final[tuple[Table, ...]] = (
    RECORDS,
    WORKFLOWS,
    ROUNDS,
    TASKS,
    STEPS,
    MESSAGES,
    DOCUMENTS,
    USAGE,
    REQUESTS,
    DEAD_LETTERS,
    POLICIES,
    INSTANCES,
    ENTRIES,
    SUBTREES,
    POSITIONS,
    CHECKPOINTS,
)

ALL: Final[tuple[Table, ...]] = (OFFSETS, *PROJECTED)
