"""Recorded histories for tests: events as honest roles would write them, with everything that does not matter filled in.

told = Told()                                  # a workflow that nobody has asked for yet
told.tell(requested(), planned(), *step(1), reviewed(), completed())
await log.append("poweron.events", told.messages)
"""

from collections.abc import Iterable, Sequence
from typing import Any

from second_judge import SecondJudge

from poweron_events import codec
from poweron_events.actor import Actor
from poweron_events.archive_events import WorkflowExported
from poweron_events.codec import dumps, sha256
from poweron_events.envelope import Cause, Envelope, Recorded, envelop
from poweron_events.event import CriterionProgress, DocumentRef, FailedCalls, ModelCall
from poweron_events.fold.evolve import evolve
from poweron_events.fold.policy_chain import policy_sha256
from poweron_events.fold.questions import approval_terms, lacks_approval
from poweron_events.fold.stage_specs import TIMED_PHASES
from poweron_events.fold.state import (
    Verdict,
    Workflow,
    may_ask_again,
    parameters_sha256,
    rejections,
    result_label,
    step_place,
)
from poweron_events.instance_events import InstanceEnded, InstanceStarted
from poweron_events.log import Message
from poweron_events.policy import Escalation, Group, Policy, Rule
from poweron_events.request import (
    POLICY_ID,
    CancellationRequested,
    EarlierRounds,
    PolicyApplied,
    RequestIdentity,
    RequestRefused,
    RoundPaused,
    RoundRequested,
    RoundResumed,
    RulesChanged,
    WorkflowRequested,
    workflow_id,
)
from poweron_events.round_events import (
    ActionsPlanned,
    AnswerRejected,
    BudgetDenied,
    BudgetGranted,
    BudgetRequested,
    DeadlinePassed,
    PlannedAction,
    RoundCancelled,
    RoundCompleted,
    RoundFailed,
    StageFailed,
    TaskPlan,
    TaskReviewed,
    TasksPlanned,
    Totals,
)
from poweron_events.step_events import (
    ActionCompleted,
    ActionSelected,
    ActionStarted,
    ApprovalDenied,
    ApprovalEscalated,
    ApprovalGranted,
    ApprovalRequested,
    CallReserved,
    Observation,
    ObservationRecorded,
    ParametersChanged,
    ParametersRejected,
    ParametersSet,
    RefinementDecided,
    SelectionRejected,
)
from poweron_events.stream import WorkflowEvent

TIME = "2026-11-21T00:00:00.000Z"
SOURCE = "/tests"
COMMITMENT = "ab" * 32
PARAMETERS = {"documentList": ["docList:round1_request"]}
APPROVED = sha256(dumps(PARAMETERS))
"""What an answer to a question about these parameters names."""

CALL = ModelCall(
    provider="builtin",
    model="extractive",
    template="plan_select",
    template_sha256="cd" * 32,
    prompt_ref=COMMITMENT,
    answer_ref="ef" * 32,
    input_tokens=100,
    output_tokens=20,
    cost_nano_usd=3_000,
    duration_ms=5,
)
FAILED_CALLS = FailedCalls(
    code="model_busy", count=3, input_tokens=70, output_tokens=8, cost_nano_usd=900, duration_ms=1_200
)


def document(name: str = "estimate.pdf", **fields: Any) -> DocumentRef:
    given = {"document_id": f"doc-{name}", "mime_type": "application/pdf", "size": 1_000, "content": COMMITMENT}
    return DocumentRef(document_name=name, **{**given, **fields})


def identity(request_id: str = "1") -> RequestIdentity:
    return RequestIdentity(source=SOURCE, id=request_id)


def requested(request_id: str = "1", **fields: Any) -> WorkflowRequested:
    given = {"prompt": "What is the grand total?", "documents": (document(),)}
    return WorkflowRequested(round=1, request=identity(request_id), **{**given, **fields})


def follow_up(round_number: int = 2, request_id: str = "2", **fields: Any) -> RoundRequested:
    given = {"prompt": "And what was repaired?", "earlier": EarlierRounds(last_round=max(1, round_number - 1))}
    return RoundRequested(round=round_number, request=identity(request_id), **{**given, **fields})


def cancellation(round_number: int = 1, request_id: str = "3") -> CancellationRequested:
    return CancellationRequested(round=round_number, request=identity(request_id), reason="No longer needed.")


def paused(round_number: int = 1, request_id: str = "pause") -> RoundPaused:
    return RoundPaused(round=round_number, request=identity(request_id), reason="We look at it first.")


def resumed(round_number: int = 1, request_id: str = "resume") -> RoundResumed:
    return RoundResumed(round=round_number, request=identity(request_id), reason="It is as it should be.")


POLICY = Policy(
    apply=("admins",),
    groups={
        "admins": Group(members=("carla",)),
        "risk": Group(members=("ada", "bob", "dora")),
        "heads": Group(members=("eve",)),
    },
    rules=(
        Rule(
            actions=("document.extract",),
            decision="approve",
            approvers=2,
            from_=("risk",),
            not_requester=True,
            expires="1d",
            escalate=Escalation(after="1h", to=("heads",)),
        ),
        Rule(actions=("*",), decision="allow"),
    ),
)
"""Reading a document takes two members of `risk` other than the requester; after an hour `heads` may answer, too."""


def person(name: str) -> Actor:
    return Actor(id=name, via="cli")


def applied(number: int = 1, policy: Policy = POLICY, previous: PolicyApplied | None = None) -> PolicyApplied:
    """A policy; each number has a name of its own, so that no two are equal."""
    named = policy.model_copy(update={"name": f"policy {number}"})
    return PolicyApplied(
        number=number,
        policy=named,
        sha256=policy_sha256(named),
        previous=previous.sha256 if previous else None,
        actor=person("carla"),
        request=identity(f"policy-{number}"),
    )


def under_policy(number: int = 1, requester: str = "ada") -> dict[str, Any]:
    """The fields of an opening under a policy."""
    event = applied(number)
    return {"policy": event.policy.terms(number, event.sha256), "laws": 3, "actor": person(requester)}


def new_rules(workflow: Workflow, number: int = 2, policy: Policy = POLICY) -> RulesChanged:
    """The rules of a newer policy for the open round."""
    event = applied(number, policy)
    terms = event.policy.terms(number, event.sha256)
    asked = identity(f"rules-{workflow.place[0]}-{number}")
    return RulesChanged(round=workflow.place[0], policy=terms, actor=person("carla"), request=asked)


def refused(request_id: str = "4", **fields: Any) -> RequestRefused:
    given = {"reason": "round_open", "detail": "Round 1 is still open."}
    return RequestRefused(request=identity(request_id), **{**given, **fields})


def exported(request_id: str = "5") -> WorkflowExported:
    return WorkflowExported(format="bundle", with_content=True, actor=person("carla"), request=identity(request_id))


def planned(tasks: int = 1, round_number: int = 1, **fields: Any) -> TasksPlanned:
    given = {"objective": "Find the total", "success_criteria": ("The total is named",), "task_type": "lookup"}
    plan = TaskPlan(**{**given, **fields})
    return TasksPlanned(round=round_number, tasks=(plan,) * tasks, model_call=CALL)


NOTHING_SEEN = Observation(success=False, result_label="label", documents_count=0)


class At:
    """Builds the events of one step: `At(step=2).selected()`."""

    def __init__(self, step: int = 1, attempt: int = 1, task: int = 1, round_number: int = 1) -> None:
        self.place = {"round": round_number, "task": task, "attempt": attempt, "step": step}

    @classmethod
    def head(cls, workflow: Workflow) -> "At":
        round_number, task, attempt, step = workflow.place
        return cls(step, attempt, task, round_number)

    def actions_planned(self, count: int = 2) -> ActionsPlanned:
        action = PlannedAction(action="document.extract", action_objective="Read the estimate")
        return ActionsPlanned(**self.task_place, actions=(action,) * count, model_call=CALL)

    @property
    def task_place(self) -> dict[str, int]:
        return {name: value for name, value in self.place.items() if name != "step"}

    def selected(self, **fields: Any) -> ActionSelected:
        given = {"action": "document.extract", "action_objective": "Read the estimate", "model_call": CALL}
        return ActionSelected(**self.place, **{**given, **fields})

    def selection_rejected(self, try_: int = 1, code: str | None = None) -> SelectionRejected:
        return SelectionRejected(**self.place, try_=try_, reason="No such action.", code=code, model_call=CALL)

    def parameters(self, **fields: Any) -> ParametersSet:
        given = {"given": {}, "parameters": PARAMETERS, "model_call": CALL}
        return ParametersSet(**self.place, **{**given, **fields})

    def parameters_rejected(self, try_: int = 1) -> ParametersRejected:
        return ParametersRejected(**self.place, try_=try_, reason="A field is missing.", model_call=CALL)

    def approval_requested(self, **fields: Any) -> ApprovalRequested:
        given = {"parameters_sha256": APPROVED, "action": "document.extract", "expires_ms": 60_000}
        return ApprovalRequested(**self.place, **{**given, **fields})

    def approval_granted(self, request_id: str = "5", **fields: Any) -> ApprovalGranted:
        given = {"parameters_sha256": APPROVED, "request": identity(request_id)}
        return ApprovalGranted(**self.place, **{**given, **fields})

    def approval_denied(self, request_id: str | None = None, **fields: Any) -> ApprovalDenied:
        asked = None if request_id is None else identity(request_id)
        return ApprovalDenied(**self.place, **{"parameters_sha256": APPROVED, "request": asked, **fields})

    def escalated(self, **fields: Any) -> ApprovalEscalated:
        return ApprovalEscalated(**self.place, **{"parameters_sha256": APPROVED, "to": ("heads",), **fields})

    def parameters_changed(self, request_id: str = "change", **fields: Any) -> ParametersChanged:
        given = {"parameters_sha256": APPROVED, "parameters": {**PARAMETERS, "prompt": "Only the total."}}
        return ParametersChanged(**self.place, request=identity(request_id), **{**given, **fields})

    def started(self, try_: int = 1, **fields: Any) -> ActionStarted:
        given = {"claim": "claim", "worker": "w1", "effect_class": "pure", "deadline_ms": 60_000}
        return ActionStarted(**self.place, try_=try_, action="document.extract", **{**given, **fields})

    def done(self, try_: int = 1, **fields: Any) -> ActionCompleted:
        label = f"round{self.place['round']}_task{self.place['task']}_action{self.place['step']}_extract"
        given = {"success": True, "outcome": "done", "documents": (document("text.md"),), "result_label": label}
        return ActionCompleted(**self.place, try_=try_, duration_ms=12, **{**given, **fields})

    def observed(self, **fields: Any) -> ObservationRecorded:
        seen = Observation(success=True, result_label="label", documents_count=1, notes=("The total is 42.",))
        given = {"observation": seen, "summary": "Read one document."}
        return ObservationRecorded(**self.place, **{**given, **fields})

    def refined(self, **fields: Any) -> RefinementDecided:
        given = {"decision": "stop", "reason": "The total is known.", "classification": "success", "model_call": CALL}
        progress = (CriterionProgress(criterion="The total is named", met=True, progress=1000),)
        return RefinementDecided(**self.place, criteria_progress=progress, **{**given, **fields})

    def rejected(self, stage: str, try_: int = 1) -> AnswerRejected:
        return AnswerRejected(**self.place, stage=stage, try_=try_, reason="The answer is no JSON.", model_call=CALL)

    def failed(self, stage: str, error: str = "The model does not answer.", code: str | None = None) -> StageFailed:
        return StageFailed(**self.place, stage=stage, error=error, code=code, tries=3)

    def budget_requested(self, stage: str, question: int = 1, **fields: Any) -> BudgetRequested:
        given = {"code": "token_budget", "reason": "The budget is used up.", "totals": Totals(), "expires_ms": 60_000}
        return BudgetRequested(**self.place, question=question, stage=stage, **{**given, **fields})

    def budget_granted(self, question: int = 1, tokens: int = 1_000, **fields: Any) -> BudgetGranted:
        given = {"tokens": tokens, "request": identity(f"grant-{question}")}
        return BudgetGranted(**self.place, question=question, **{**given, **fields})

    def budget_denied(self, question: int = 1, request_id: str | None = None) -> BudgetDenied:
        return BudgetDenied(**self.place, question=question, request=request_id and identity(request_id))

    def reviewed(self, **fields: Any) -> TaskReviewed:
        return TaskReviewed(**self.task_place, **{"status": "success", "reason": "", "model_call": CALL, **fields})


def step(
    number: int = 1, attempt: int = 1, task: int = 1, round_number: int = 1, **refinement: Any
) -> list[WorkflowEvent]:
    """A whole iteration, from the selection to the decision."""
    at = At(number, attempt, task, round_number)
    return [at.selected(), at.parameters(), at.started(), at.done(), at.observed(), at.refined(**refinement)]


def reviewed(task: int = 1, attempt: int = 1, round_number: int = 1, **fields: Any) -> TaskReviewed:
    return At(1, attempt, task, round_number).reviewed(**fields)


def reserved(workflow: Workflow, input_tokens: int = 5_000, output_tokens: int = 1_000, **fields: Any) -> CallReserved:
    """The next reservation of the round."""
    given = {"reservation": workflow.current.reserved + 1, "cost_nano_usd": 90_000}
    tokens = {"input_tokens": input_tokens, "output_tokens": output_tokens}
    return CallReserved(**step_place(workflow), **tokens, **{**given, **fields})


def completed(round_number: int = 1, message: str = "The grand total is 42.") -> RoundCompleted:
    return RoundCompleted(round=round_number, message=message, totals=Totals())


class Told:
    """A workflow's story as it is told: every event with its honest cause, folded as it comes."""

    def __init__(self, request_id: str = "1") -> None:
        self.id = workflow_id(SOURCE, request_id)
        self.workflow = Workflow(self.id)
        self.values: list[bytes] = []
        self.verdicts: list[Verdict] = []
        self._second: SecondJudge | None = None
        self._judged = self.workflow

    def tell(self, *events: WorkflowEvent) -> "Told":
        """Append events, each caused by the head as it is then (a completion by its start)."""
        for event in events:
            self.write(codec.encode(self.envelope(event)))
        return self

    def envelope(self, event: WorkflowEvent) -> Envelope:
        cause = honest_cause(self.workflow, event)
        return envelop(event, workflow_id=self.id, source="/poweron/test/1", time=TIME, cause=cause)

    def write(self, value: bytes) -> None:
        """Append bytes as they are; they have to be an envelope of this workflow."""
        offset = len(self.values)
        recorded = Recorded(codec.decode(value), 0, offset, offset, codec.sha256(value))
        is_own = self.workflow is self._judged
        self.workflow, verdict = evolve(self.workflow, recorded)
        if is_own:
            self._second = self._second or SecondJudge(self.workflow.id)
            self._second.agree(value, recorded, verdict)
            self._judged = self.workflow
        self.values.append(value)
        self.verdicts.append(verdict)

    @property
    def messages(self) -> list[Message]:
        return [Message(self.id.encode(), value) for value in self.values]

    def next_events(self) -> Sequence[WorkflowEvent]:
        """What an honest role could write now."""
        return list(next_events(self.workflow))


class Policies(Told):
    """The story under the key of the policies."""

    def __init__(self) -> None:
        super().__init__()
        self.id = POLICY_ID
        self.workflow = self._judged = Workflow(POLICY_ID)


def two_policies() -> Told:
    return Policies().tell(applied(1), applied(2, previous=applied(1)))


def typical(request_id: str = "1", steps: int = 2) -> Told:
    """A workflow of one task, from its request to its answer."""
    told = Told(request_id).tell(requested(request_id), planned())
    for number in range(1, steps + 1):
        told.tell(*step(number, decision="continue" if number < steps else "stop"))
    return told.tell(reviewed(), completed())


UNCAUSED = CallReserved | RoundPaused | RoundResumed | RulesChanged | PolicyApplied | InstanceStarted | InstanceEnded


def honest_cause(workflow: Workflow, event: WorkflowEvent) -> Cause | None:
    """What an honest role would name as its cause: the head, or the start that the completion ends; nothing for a reservation or a pause."""
    if isinstance(event, UNCAUSED):
        return None
    task = workflow.round.task if workflow.round else None
    if isinstance(event, ActionCompleted) and task is not None and task.step.starts:
        return task.step.starts[min(event.try_, len(task.step.starts)) - 1].cause
    return workflow.head


def next_events(workflow: Workflow) -> Iterable[WorkflowEvent]:  # noqa: C901, PLR0912, PLR0915 - one case per phase
    """Everything that could be accepted next, the way forward first."""
    number = workflow.place[0]
    at = At.head(workflow)
    if workflow.asks_for_budget:
        question = workflow.current.question.number
        yield from (at.budget_granted(question), at.budget_denied(question, "no"), at.budget_denied(question))
    match "asks" if workflow.asks_for_budget else workflow.phase:
        case "none":
            yield requested()
        case "ended":
            yield follow_up(len(workflow.openings) + 1, request_id=f"round-{len(workflow.openings) + 1}")
        case "plan":
            yield from (planned(2, number), planned(1, number), *_rejected(workflow))
        case "plan_actions":
            yield from (at.actions_planned(2), at.actions_planned(1), *_rejected(workflow))
        case "select":
            yield from (at.selected(), at.selection_rejected(workflow.step.try_), at.failed("select"))
        case "parameterize":
            yield from (at.parameters(), at.parameters_rejected(workflow.step.try_))
        case "ready":
            if not lacks_approval(workflow):
                yield at.started(len(workflow.step.starts) + 1)
            if workflow.step.approval is None:
                yield at.approval_requested()
        case "approve":
            yield from _answers(workflow)
        case "started" | "draining":
            label = result_label(workflow, "document.extract")
            yield from (at.done(result_label=label), at.done(success=False, outcome="failed", documents=()))
            if workflow.is_paused:
                yield at.done(success=False, outcome="not_begun", code="paused", documents=())
            yield at.started(len(workflow.step.starts) + 1)
        case "observe":
            yield from (at.observed(), at.observed(observation=NOTHING_SEEN))
        case "refine":
            yield from (at.refined(decision="continue"), at.refined(), at.refined(classification="retry"))
            yield at.refined(decision="continue", classification="retry")
            yield from _rejected(workflow)
        case "review":
            yield from (at.reviewed(), at.reviewed(status="retry"), at.reviewed(status="failed", reason="Not found."))
            yield from _rejected(workflow)
        case "closing":
            yield from _endings(workflow)
    if workflow.is_open:
        yield reserved(workflow)
        if (
            workflow.phase in TIMED_PHASES
            and not workflow.asks_for_budget
            and workflow.current.opening.on_budget == "ask"
        ):
            yield At.head(workflow).budget_requested(workflow.phase, len(workflow.current.grants) + 1)
        if workflow.current.policy is not None and workflow.phase not in ("closing", "draining"):
            yield new_rules(workflow, workflow.current.policy.number + 1)
        switch = str(len(workflow.current.pause_requests))
        yield (resumed if workflow.is_paused else paused)(number, f"switch-{number}-{switch}")
        yield from (
            cancellation(number, f"cancel-{number}"),
            DeadlinePassed(round=number, due_ms=0, moves=workflow.current.moves),
        )


def _answers(workflow: Workflow) -> Iterable[WorkflowEvent]:
    """What people may answer, each with an id of its own, and what happens if they do not."""
    at, asked, step_ = At.head(workflow), parameters_sha256(workflow), workflow.step
    terms = approval_terms(workflow)
    if workflow.current.policy is None:
        yield at.approval_granted(parameters_sha256=asked)
    for name in ("bob", "dora", "eve"):
        if workflow.current.policy is not None and terms.objection(person(name), "approve") is None:
            yield at.approval_granted(
                f"{name}-{asked[:8]}-{len(step_.approved_by)}", actor=person(name), parameters_sha256=asked
            )
    yield from (
        at.approval_denied("6", actor=person("bob"), parameters_sha256=asked),
        at.approval_denied(parameters_sha256=asked),
    )
    if step_.escalation_due_ms and not workflow.is_paused:
        yield at.escalated(parameters_sha256=asked)
    if terms.objection(person("bob"), "change") is None:
        yield at.parameters_changed(f"change-{asked[:8]}", actor=person("bob"), parameters_sha256=asked)


def _rejected(workflow: Workflow) -> Iterable[WorkflowEvent]:
    if may_ask_again(rejections(workflow)):
        yield At.head(workflow).rejected(workflow.phase, len(rejections(workflow)) + 1)


def _endings(workflow: Workflow) -> Iterable[WorkflowEvent]:
    number = workflow.current.number
    match workflow.current.ending:
        case "completed":
            yield completed(number)
        case "cancelled":
            yield RoundCancelled(round=number, message="Cancelled as asked.", totals=Totals())
        case _:
            yield RoundFailed(round=number, message="It failed.", reason="Not found.", totals=Totals())
