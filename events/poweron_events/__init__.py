"""The events of PowerOn: request a workflow, follow it, fold it, audit it.

The names in `__all__` are the public API. Also public are `poweron_events.log.kafka` (extra `kafka`),
`poweron_events.content` (extra `content`) and the modules with the event classes: `request`, `round_events` and
`step_events`.
"""

from poweron_events import topics
from poweron_events.catalog import CATALOG, ActionSpec
from poweron_events.client import Heard, ask
from poweron_events.codec import (
    InvalidRequest,
    ReceivedRequest,
    Undecodable,
    decode,
    decode_request,
    encode,
    encode_request,
    read,
    read_record,
)
from poweron_events.dead_letter import DeadLetter, read_dead_letter
from poweron_events.envelope import Cause, Envelope, Recorded, envelop, event_id, rfc3339
from poweron_events.errors import Conflict, LogLost, PowerOnError, Refused, Unavailable
from poweron_events.event import DocumentRef, ModelCall
from poweron_events.fold.evolve import evolve
from poweron_events.fold.history import reverse_chronological
from poweron_events.fold.stage_specs import due, turn
from poweron_events.fold.state import ChatMessage, Verdict, Workflow
from poweron_events.log import EventLog, Message, Record
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_events.request import (
    CancellationRequested,
    DocumentErased,
    InlineDocument,
    RequestApproval,
    RequestCancellation,
    RequestIdentity,
    RequestRefused,
    RequestRound,
    RequestWorkflow,
    RoundRequested,
    StoredDocument,
    WorkflowRequested,
    workflow_id,
)
from poweron_events.round_events import (
    ActionsPlanned,
    AnswerRejected,
    DeadlinePassed,
    RoundCancelled,
    RoundCompleted,
    RoundFailed,
    StageFailed,
    TaskReviewed,
    TasksPlanned,
)
from poweron_events.step_events import (
    ActionCompleted,
    ActionSelected,
    ActionStarted,
    ApprovalDenied,
    ApprovalGranted,
    ApprovalRequested,
    CallReserved,
    ObservationRecorded,
    ParametersRejected,
    ParametersSet,
    RefinementDecided,
    SelectionRejected,
)
from poweron_events.stream import REQUESTS, WORKFLOW_EVENTS, Request, WorkflowEvent

__all__ = [
    "CATALOG",
    "REQUESTS",
    "WORKFLOW_EVENTS",
    "ActionCompleted",
    "ActionSelected",
    "ActionSpec",
    "ActionStarted",
    "ActionsPlanned",
    "AnswerRejected",
    "ApprovalDenied",
    "ApprovalGranted",
    "ApprovalRequested",
    "CallReserved",
    "CancellationRequested",
    "Cause",
    "ChatMessage",
    "Conflict",
    "DeadLetter",
    "DeadlinePassed",
    "DocumentErased",
    "DocumentRef",
    "Envelope",
    "EventLog",
    "Heard",
    "InlineDocument",
    "InvalidRequest",
    "KafkaSettings",
    "LogLost",
    "Message",
    "ModelCall",
    "ObservationRecorded",
    "ParametersRejected",
    "ParametersSet",
    "PowerOnError",
    "ReceivedRequest",
    "Record",
    "Recorded",
    "RefinementDecided",
    "Refused",
    "Request",
    "RequestApproval",
    "RequestCancellation",
    "RequestIdentity",
    "RequestRefused",
    "RequestRound",
    "RequestWorkflow",
    "RoundCancelled",
    "RoundCompleted",
    "RoundFailed",
    "RoundRequested",
    "SelectionRejected",
    "StageFailed",
    "StoredDocument",
    "TaskReviewed",
    "TasksPlanned",
    "Unavailable",
    "Undecodable",
    "Verdict",
    "Workflow",
    "WorkflowEvent",
    "WorkflowRequested",
    "ask",
    "decode",
    "decode_request",
    "due",
    "encode",
    "encode_request",
    "envelop",
    "event_id",
    "evolve",
    "read",
    "read_dead_letter",
    "read_record",
    "reverse_chronological",
    "rfc3339",
    "topics",
    "turn",
    "workflow_id",
]
