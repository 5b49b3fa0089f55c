"""Replays one decision: runs the role's own code on the workflow as it was, with the recorded answer."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import product
from typing import Final, NamedTuple, cast

from structlog import DropEvent
from structlog.typing import EventDict

from poweron_events.codec import writable
from poweron_events.errors import PowerOnError, Unavailable
from poweron_events.event import ModelCall
from poweron_events.fold.costs import model_calls, without_reservations
from poweron_events.fold.stage_specs import TURNS
from poweron_events.fold.state import Workflow, step_place
from poweron_events.round_events import (
    ActionsPlanned,
    AnswerRejected,
    BudgetRequested,
    RoundCancelled,
    RoundCompleted,
    RoundFailed,
    Stage,
    StageFailed,
    TaskReviewed,
    TasksPlanned,
)
from poweron_events.step_events import (
    ActionCompleted,
    ActionSelected,
    ApprovalRequested,
    ObservationRecorded,
    ParametersRejected,
    ParametersSet,
    RefinementDecided,
    SelectionRejected,
)
from poweron_events.stream import WorkflowEvent
from poweron_services.decider.rules import BudgetNeeded, budget_request
from poweron_services.models.call import Caller
from poweron_services.models.time_limit import TimeLimit
from poweron_services.replay.action_specs import CatalogThen, KnownActions
from poweron_services.replay.earlier_release import (
    BEFORE_0_4,
    SENTENCES,
    EarlierPrompts,
    as_written_by,
    lacks_fields,
)
from poweron_services.replay.permission_check import PermissionCheck, asked_again
from poweron_services.replay.prompt_check import NO_PROMPT, CheckedPrompt, Sameness, StoredPrompt, release_of
from poweron_services.replay.replay_model import (
    UNUSABLE,
    StoredAnswers,
    StoredCall,
    differences,
    may_be_unusable,
)
from poweron_services.replay.workflow_records import Folded, StoredContent
from poweron_services.roles.reviewer import Reviewer
from poweron_services.wiring import stage_functions

AT_WORK: Final = ContextVar("poweron_replaying", default=False)
"""Whether a decision is being replayed; log lines of its role are then not about anything that happens now."""

OF_ROLES: Final = (
    TasksPlanned,
    ActionsPlanned,
    ActionSelected,
    SelectionRejected,
    ParametersSet,
    ParametersRejected,
    AnswerRejected,
    BudgetRequested,
    ObservationRecorded,
    RefinementDecided,
    TaskReviewed,
    RoundCompleted,
    RoundFailed,
    RoundCancelled,
)
"""The events that the stage functions of the roles write, apart from the failure of a stage."""
BY_CIRCUMSTANCE: Final = frozenset({"stage_timeout", "content_store_unavailable", "unavailable"})
"""The codes of stage failures that depend on a clock or a server."""
JUDGED: Final = frozenset({"done", "failed", "denied"})
"""The outcomes of actions for which code has decided whether they may run."""
FAILURE: Final = ("stage", "error", "code")
"""The fields of a stage failure that code decides."""
MOST_TOLD: Final = 3  # differences to report for one decision
STAGE_TIME: Final = 60.0  # seconds
SHARED_TEMPLATES: Final = frozenset({"parameterizer.v2.md"})
"""Templates that several releases have used, so that they do not identify the release."""


ALTERED: Final = CheckedPrompt("differs", "The stored prompt or answer is not the one that the event commits to.")
TAKEN_OVER: Final = CheckedPrompt(
    "same", "Taken over from the workflow that this one is a fork of, where it is judged."
)
"""A fork may have a different request and other limits than those that the decision was made with."""


class Replayed(NamedTuple):
    """The result of replaying a decision."""

    seq: int
    type: str
    decision: Sameness
    prompt: Sameness
    detail: str = ""

    @property
    def verdict(self) -> Sameness:
        """The verdict on decision and prompt together; if either differs, so does the whole."""
        both = {self.decision, self.prompt}
        return "differs" if "differs" in both else "inconclusive" if "inconclusive" in both else "same"


class _Checked(NamedTuple):
    """The results of comparing a decision and its prompt, and the actions that the prompt lists."""

    decision: CheckedPrompt
    prompt: CheckedPrompt
    listed: CatalogThen | None

    @property
    def explains(self) -> bool:
        """Return whether the decision follows from this state and these circumstances."""
        return self.decision.sameness == "same" and self.prompt.sameness != "differs"


def is_decision(event: WorkflowEvent | None) -> bool:
    """Return whether the event is a decision made by code, with or without a model."""
    if isinstance(event, StageFailed):
        return event.stage != "observe" and event.code not in BY_CIRCUMSTANCE
    if isinstance(event, ActionCompleted):
        return event.outcome in JUDGED
    return isinstance(event, (*OF_ROLES, ApprovalRequested))


def _states(workflow: Workflow) -> Iterator[Workflow]:
    """Yield the states that the decision may have read: reservations keep the head, so newer ones may be unread."""
    open_ = workflow.round.reservations if workflow.round else ()
    for known in range(len(open_), -1, -1):
        yield without_reservations(workflow, open_[known:])


def unless_replaying(_: object, __: str, line: EventDict) -> EventDict:
    """Drop the log lines of a replay; a structlog processor."""
    if AT_WORK.get():
        raise DropEvent
    return line


@dataclass(slots=True)
class DecisionReplay:
    """Replays the decisions of one workflow, in order."""

    content: StoredContent
    known: KnownActions
    _listed: CatalogThen | None = field(default=None, init=False)
    """The actions that were available, according to the last prompt that lists them."""
    _earlier: EarlierPrompts = field(default_factory=EarlierPrompts, init=False)
    _release: str | None = field(default=None, init=False)
    """The earlier release that made the decisions, according to the last template; None for the current release."""

    async def again(self, folded: Folded) -> Replayed:
        """Replay the decision in this record."""
        token = AT_WORK.set(True)
        try:
            return await self._again(folded)
        finally:
            AT_WORK.reset(token)

    async def _again(self, folded: Folded) -> Replayed:
        event = folded.recorded.envelope.event
        assert event is not None
        self.content.missing.clear()
        if isinstance(event, ObservationRecorded):
            self._earlier.observed(folded.after)
        if isinstance(event, ApprovalRequested):
            return _result(folded, asked_again(folded.known, event), NO_PROMPT)
        if isinstance(event, ActionCompleted):
            check = PermissionCheck(self.content, self.known.configured_places)
            return _result(folded, await check.completed(folded, event, self._catalog), NO_PROMPT)
        return await self._by_role(folded, event)

    @property
    def _catalog(self) -> CatalogThen:
        """The actions that were available, as far as is known."""
        return self._listed or CatalogThen(self._known.specs)

    @property
    def _known(self) -> KnownActions:
        """The actions that are known here, with PowerOn's own as of the release that made the decision."""
        return self.known if self._release is None else self.known.of_release(self._release)

    async def _by_role(self, folded: Folded, event: WorkflowEvent) -> Replayed:
        calls = [await self._find_call(folded.before.id, call) for call in model_calls(event)]
        if any(call.is_altered for call in calls):
            return _result(folded, ALTERED, ALTERED)
        if any(call.is_taken_over for call in model_calls(event)):
            self._look_at(folded.before, calls)
            return _result(folded, TAKEN_OVER, TAKEN_OVER)
        first: _Checked | None = None
        async for checked in self._each_compared(folded, event, calls):
            if checked.explains:
                first = checked
                break
            if first is None or (checked.decision.sameness == "same" != first.decision.sameness):
                first = checked
        assert first is not None
        self._listed = first.listed
        return _result(folded, *(self._as_far_as_known(folded.before, check) for check in first[:2]))

    async def _each_compared(
        self, folded: Folded, event: WorkflowEvent, calls: Sequence[StoredCall]
    ) -> AsyncIterator["_Checked"]:
        """Yield the result of each state that the role may have known, in all circumstances."""
        listed = self._listed
        for known in folded.known:
            self._listed = listed
            self._look_at(known, calls)
            for before, (catalog, unusable) in product(_states(known), self._circumstances(known, event)):
                answers = StoredAnswers(event, calls, self._earlier, self._release is not None, unusable)
                decision = await self._compare(folded._replace(known=(before,)), event, answers, catalog)
                yield _Checked(decision, answers.prompt, self._listed)

    async def _find_call(self, workflow_id: str, call: ModelCall) -> StoredCall:
        refs = (call.prompt_ref, call.answer_ref)
        prompt, answer = [await self.content.find(workflow_id, ref) for ref in refs]
        changes = [
            ref and content is not None and not await self.content.matches_commitment(workflow_id, ref, content)
            for ref, content in zip(refs, (prompt, answer), strict=True)
        ]
        return StoredCall(call, prompt, answer, any(changes))

    def _look_at(self, workflow: Workflow, calls: Sequence[StoredCall]) -> None:
        """Determine the release from the templates and the available actions from the prompts, if they show them."""
        self._earlier.look_at(workflow)
        for stored in calls:
            if stored.call.template not in SHARED_TEMPLATES:
                self._release = release_of(stored.call.template_sha256)
            if stored.prompt is not None and workflow.phase in ("plan", "plan_actions", "select"):
                listing = StoredPrompt(stored.prompt).actions or {}
                self._listed = self._known.then(workflow, listing)

    def _circumstances(self, workflow: Workflow, event: WorkflowEvent) -> Iterator[tuple[CatalogThen, str | None]]:
        """Yield the circumstances that may have been different then and that no event records, most likely first."""
        yield self._catalog, None
        if may_be_unusable(event):
            yield from ((self._catalog, code) for code in UNUSABLE)
        selection = workflow.step.selection if workflow.current.task is not None else None
        if selection is not None:  # its server may have been unavailable by then
            specs = {name: spec for name, spec in self._catalog.specs.items() if name != selection.action}
            yield CatalogThen(specs, self._catalog.guessed), None

    async def _compare(
        self, folded: Folded, event: WorkflowEvent, answers: StoredAnswers, catalog: CatalogThen
    ) -> CheckedPrompt:
        """Return whether the role makes the same decision with these answers."""
        now = await self._decide(folded.before, answers, catalog)
        if answers.answers_missing:
            return CheckedPrompt("inconclusive", "The answer was erased, or never kept.")
        if answers.unasked:
            return CheckedPrompt("differs", "A model would be asked now, and none was asked then.")
        if type(now) is not type(event):
            return self._difference(f"It would be {now.TYPE} now{_reason_of(now)}.")
        return self._same_or_not(folded, event, as_written_by(self._release, now, folded.before))

    def _same_or_not(self, folded: Folded, event: WorkflowEvent, now: WorkflowEvent) -> CheckedPrompt:
        earlier = self._release is not None or lacks_fields(folded.data, event)
        only = FAILURE if isinstance(event, StageFailed) else None
        sentences = differences(folded.data, now, only=only, earlier=earlier)
        if earlier and not differences(folded.data, now, only=folded.data.keys() - SENTENCES, earlier=True):
            return CheckedPrompt(
                "same", f"Worded otherwise now: {' '.join(sentences[:MOST_TOLD])}" if sentences else ""
            )
        return self._difference(" ".join(sentences[:MOST_TOLD])) if sentences else CheckedPrompt("same")

    def _difference(self, sentence: str) -> CheckedPrompt:
        """Return a difference, or "inconclusive" if content that the decision was based on has been erased."""
        if self.content.missing:
            return CheckedPrompt("inconclusive", "What it was to read was erased.")
        return CheckedPrompt("differs", sentence)

    def _as_far_as_known(self, workflow: Workflow, check: CheckedPrompt) -> CheckedPrompt:
        """Return the result, or "inconclusive" if it is a difference and the current action is unknown here."""
        selection = workflow.step.selection if workflow.current.task is not None else None
        if check.sameness != "differs" or selection is None or selection.action in self.known.specs:
            return check
        return CheckedPrompt("inconclusive", f"{selection.action} is no action that is known here. {check.detail}")

    async def _decide(self, workflow: Workflow, answers: StoredAnswers, catalog: CatalogThen) -> WorkflowEvent:
        """Return the role's decision; a stage that cannot be done is also an event."""
        caller = Caller(answers, self.content)
        functions = stage_functions(caller, self.content, catalog.specs, self.known.configured_places)
        if self._release in BEFORE_0_4:
            functions["reviewer"] = Reviewer(caller, self.content, as_in_0_3=True)
        function = functions[TURNS[workflow.phase]]
        try:
            async with TimeLimit(STAGE_TIME):
                return (await function(workflow))[0]
        except Unavailable:
            raise
        except BudgetNeeded as error:
            return budget_request(workflow, error.stop, answers.day_left_ms)
        except PowerOnError as error:
            return _failure(workflow, error)
        except Exception:  # noqa: BLE001 - a bug, then or now, is reported as the event it would be
            return _failure(workflow, PowerOnError("An unexpected error; the log of the service has it."))


def _failure(workflow: Workflow, error: PowerOnError) -> StageFailed:
    return StageFailed(
        **step_place(workflow),
        stage=cast("Stage", workflow.phase),
        error=writable(str(error))[:4_000],
        code=error.code,
        tries=1,
    )


def _reason_of(now: WorkflowEvent) -> str:
    reason = getattr(now, "reason", None) or getattr(now, "error", None)
    return f": {reason}" if reason else ""


def _result(folded: Folded, decision: CheckedPrompt, prompt: CheckedPrompt) -> Replayed:
    detail = " ".join(dict.fromkeys(filter(None, (decision.detail, prompt.detail))))
    return Replayed(folded.seq, folded.recorded.envelope.type, decision.sameness, prompt.sameness, detail)
