"""The outcomes of commands, for senders who wait for them, with the field names of `--json`."""

from collections.abc import Mapping
from typing import Any, Final

from poweron_events.codes import Code
from poweron_events.event import DocumentRef
from poweron_events.fold.state import Ending
from poweron_events.request import ForkedFrom
from poweron_services.client.approve import AnswerStatus
from poweron_services.client.verbs import Status
from poweron_services.door.json_responses import CamelModel
from poweron_services.door.query_parameters import EXAMPLE_ID

_ENDED: Final = {
    "workflowId": EXAMPLE_ID,
    "round": 1,
    "status": "completed",
    "code": None,
    "message": "It opens at nine.",
    "documents": [],
    "steps": 2,
    "tokens": 4_210,
    "costUsd": 0.003,
    "durationMs": 5_120,
}
_FORK: Final = {
    "forkedFrom": {"workflow": EXAMPLE_ID, "seq": 12, "head": "9f" * 32},
    "reusedCalls": 3,
    "reusedActions": 1,
    "nothingLeft": False,
}
_PAUSED: Final = {"workflowId": EXAMPLE_ID, "status": "paused", "code": None, "detail": "", "newWorkflowId": None}
_APPROVED: Final = {"workflowId": EXAMPLE_ID, "status": "approved", "code": None, "detail": "", "missing": 0}


class WorkflowOutcome(CamelModel):
    """How the round that was asked for has ended."""

    workflow_id: str
    round: int | None
    status: Ending
    code: Code | None
    message: str
    documents: list[DocumentRef]
    steps: int
    tokens: int
    cost_usd: float
    duration_ms: int


class ForkOutcome(WorkflowOutcome):
    """How the last round of a fork has ended, and what it took over."""

    forked_from: ForkedFrom
    reused_calls: int
    reused_actions: int
    nothing_left: bool


class VerbOutcome(CamelModel):
    """What a verb did to a workflow."""

    workflow_id: str
    status: Status
    code: Code | None
    detail: str
    new_workflow_id: str | None


class BatchOutcome(CamelModel):
    """What a verb did to each workflow."""

    results: list[VerbOutcome]


class AnswerOutcome(CamelModel):
    """What an answer of a person decided, and how many more people have to approve."""

    workflow_id: str
    status: AnswerStatus
    code: Code | None
    detail: str
    missing: int


OUTCOMES: Final[Mapping[str, Any]] = {
    "WorkflowOutcome": _ENDED,
    "ForkOutcome": _ENDED | _FORK,
    "VerbOutcome": _PAUSED,
    "BatchOutcome": {"results": [_PAUSED]},
    "AnswerOutcome": _APPROVED,
}
"""An example of each outcome."""
