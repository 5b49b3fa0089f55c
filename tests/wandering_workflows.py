"""Workflows that go on by chance, mostly forward, at times of their own: data that views and reports can count.

Whatever a view tells apart comes about: every way to end with each of its codes, calls that cost, fail and are cached,
tries, approvals, pages of the web, records that come twice or too late.
"""

import random
from collections.abc import Iterable, Sequence
from typing import Any, Final, get_args

from builders import CALL, FAILED_CALLS, At, Told, document, follow_up, refused, requested
from poweron_events import topics
from poweron_events.codes import RUN_TIME, Code, StopCode
from poweron_events.event import CitedSource, DocumentRef, Event, ModelCall, WebPage
from poweron_events.fold.state import Workflow, parameters_sha256
from poweron_events.log import Record
from poweron_events.log.memory import MemoryLog
from poweron_events.request import ForkedFrom, RoundRequested, WorkflowRequested
from poweron_events.round_events import Stage, StageFailed, TaskReviewed, TasksPlanned
from poweron_events.step_events import (
    ActionCompleted,
    ActionSelected,
    ActionStarted,
    ApprovalRequested,
    ParametersRejected,
    RefinementDecided,
    SelectionRejected,
)
from poweron_events.stream import WorkflowEvent

EVENTS = topics.EVENTS.name
BEGIN = 1_795_000_000_000  # 2026-11-18 11:06:40 UTC

ACTIONS: Final = ("document.extract", "web.search", "ai.process")
BY_EVENT: Final = ("cancelled", "deadline")
JUDGED: Final[Sequence[Code]] = (
    *sorted({*get_args(StopCode)} - {*BY_EVENT}),
    "approval_denied",
    "approval_expired",
    "action_failed",
)
"""What the review of a task, and with it a round, ends for."""
FAILED: Final[Sequence[Code]] = (*sorted(RUN_TIME), "refused", "prompt_too_long", "fork_needs_live", "fork_never_runs")
"""What a round ends for because a stage could not be done."""
ENDINGS: Final = frozenset({*JUDGED, *FAILED, *BY_EVENT})


def wandering(number: int) -> tuple[Told, list[int]]:
    """A workflow that goes on by chance, mostly forward, and when the broker took each of its records."""
    chance, told, times = random.Random(number), Told(f"w{number}"), list[int]()
    time_ms, calm = BEGIN + chance.randrange(5 * 86_400_000), chance.choice((6, 40, 1_000))
    for _ in range(chance.randint(1, 45)):
        rare = chance.random()
        if rare < 0.02 and told.values:
            told.write(told.values[-1])  # delivered twice
        elif rare < 0.03 and told.values:
            told.tell(refused(str(len(told.values))))
        elif rare < 0.04 and told.workflow.head:
            _answer_in_vain(chance, told)
        else:
            told.tell(_varied(chance, _next(chance, told, number, calm)))
        time_ms += chance.randrange(10_000 if chance.random() < 0.9 else 20_000_000)
        times.extend([time_ms] * (len(told.values) - len(times)))
        if told.workflow.stuck and chance.random() < 0.5:
            break
    return told, times


def write(log: MemoryLog, stories: Iterable[tuple[Told, list[int]]]) -> None:
    for told, times in stories:
        for message, time_ms in zip(told.messages, times, strict=True):
            number = log.partition_of(EVENTS, message.key)
            partition = log._topics[EVENTS][number]
            partition.append(Record(EVENTS, number, len(partition), time_ms, message.key, message.value, {}))


def _next(chance: random.Random, told: Told, number: int, calm: int) -> WorkflowEvent:
    mode = chance.choice(("React", "Actionplan"))
    limits: dict[str, Any] = {"max_steps": chance.randint(1, 5), "max_retries": chance.randint(0, 2)}
    if not told.values:
        fork = ForkedFrom(workflow=told.id, seq=number, head="ab" * 32) if number % 10 == 0 else None
        return requested(f"w{number}", workflow_mode=mode, forked_from=fork, **limits)
    workflow = told.workflow
    if workflow.phase == "ended":
        round_number = len(workflow.openings) + 1
        return follow_up(round_number, f"w{number}-{round_number}", workflow_mode=mode, **limits)
    if workflow.phase == "ready" and workflow.step.approval is None and chance.random() < 0.2:
        return At.head(workflow).approval_requested()
    if workflow.phase == "approve" and chance.random() < 0.3:
        return At.head(workflow).approval_denied(parameters_sha256=parameters_sha256(workflow))
    if workflow.phase == "review" and chance.random() < 0.3:
        return At.head(workflow).reviewed(status=chance.choice(("retry", "failed")))
    forward, *others = [*told.next_events(), *_failures(workflow)]
    return forward if chance.random() < calm / (calm + len(others)) else chance.choice(others)


def _failures(workflow: Workflow) -> Iterable[WorkflowEvent]:
    """That the stage at hand cannot be done."""
    if workflow.phase in get_args(Stage):
        yield At.head(workflow).failed(workflow.phase)


def _answer_in_vain(chance: random.Random, told: Told) -> None:
    """Some records that answer to what happened last, though nobody waits for them."""
    at = At(77, 77, 77, max(1, told.workflow.place[0]))
    for hint in range(chance.randint(1, 4)):
        told.tell(at.refined(hint=str(hint)))


def _varied(chance: random.Random, event: WorkflowEvent) -> WorkflowEvent:
    """The event with what chance changes in it."""
    return event.model_copy(update={**_calls(chance, event), **_told(chance, event)})


def _calls(chance: random.Random, event: Event) -> dict[str, Any]:
    fields, changes = type(event).model_fields, dict[str, Any]()
    if getattr(event, "model_call", None) is not None:
        changes["model_call"] = _call(chance)
    if "model_calls" in fields:
        changes["model_calls"] = tuple(_call(chance) for _ in range(chance.choice((0, 0, 1, 2))))
    if "failed_calls" in fields and chance.random() < 0.1:
        codes = chance.sample(("model_busy", "model_timeout"), chance.randint(1, 2))
        changes["failed_calls"] = tuple(FAILED_CALLS.model_copy(update={"code": code}) for code in codes)
    return changes


def _call(chance: random.Random) -> ModelCall:
    provider, model = chance.choice((("builtin", "extractive"), ("elsewhere", "large"), ("elsewhere", "small")))
    read, written = chance.randrange(1, 5_000), chance.randrange(1, 500)
    return CALL.model_copy(
        update={
            "provider": provider,
            "model": model,
            "input_tokens": read,
            "output_tokens": written,
            "cached_input_tokens": chance.choice((0, read // 2)),
            "reasoning_tokens": chance.choice((0, written // 2)),
            "cost_nano_usd": chance.randrange(10**7),
            "duration_ms": chance.randrange(9_000),
            "tries": chance.choice((1, 1, 1, 2, 3)),
            "finish_reason": chance.choice((None, "stop", "length")),
        }
    )


def _told(chance: random.Random, event: Event) -> dict[str, Any]:  # noqa: PLR0911 - one case per event
    match event:
        case WorkflowRequested() | RoundRequested():
            return {"documents": _documents(chance)}
        case TasksPlanned():
            plan = {"task_type": chance.choice(("lookup", "report")), "max_steps": chance.choice((None, 1, 2))}
            return {"tasks": tuple(task.model_copy(update=plan) for task in event.tasks)}
        case ActionSelected():
            return {"action": chance.choice(ACTIONS)}
        case SelectionRejected() | ParametersRejected():
            return {"code": chance.choice((None, "action_not_allowed", "parameter_missing"))}
        case ApprovalRequested():
            return {"expires_ms": chance.choice((3_000, 60_000))}
        case ActionStarted():
            return {"effect_class": chance.choice(("pure", "idempotent", "at_most_once"))}
        case ActionCompleted():
            code = None if event.success else chance.choice(("action_failed", "page_timeout"))
            return {"code": code, "duration_ms": chance.randrange(9_000), "documents": _documents(chance)}
        case RefinementDecided() if event.decision == "stop":
            return {"code": chance.choice((None, "criteria_met", "step_limit"))}
        case TaskReviewed():
            return {"code": chance.choice(JUDGED)}
        case StageFailed():
            return {"code": chance.choice(FAILED)}
        case _:
            return {}


def _documents(chance: random.Random) -> tuple[DocumentRef, ...]:
    page = WebPage(url="https://example.org/", fetched_at="2026-11-18T00:00:00Z", sha256="ab" * 32, content="cd" * 32)
    return tuple(
        document(
            f"{place}.md",
            size=chance.randrange(10**6),
            mime_type=chance.choice(("application/pdf", "text/markdown", "no type")),
            by_model=chance.random() < 0.3,
            page=chance.choice((None, page)),
            sources=chance.choice(((), (CitedSource(n=1, page=page, text="ef" * 32),))),
        )
        for place in range(chance.choice((0, 1, 1, 2)))
    )
