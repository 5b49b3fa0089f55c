"""The executor: claims the action before it has any effect, runs it, tells what came of it (E-08)."""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import structlog

from poweron_events.catalog import ActionSpec
from poweron_events.codec import dumps, writable
from poweron_events.content import ContentStore
from poweron_events.envelope import idempotency_key
from poweron_events.errors import PowerOnError, Refused, Unavailable
from poweron_events.event import DocumentRef, ModelCall
from poweron_events.execution import (
    MAX_TRIES,
    ActionCompleted,
    ActionDocument,
    ActionResult,
    ActionStarted,
    Outcome,
)
from poweron_events.fold.history import item_reference
from poweron_events.fold.state import Start, Workflow, change_step, result_label, step_place
from poweron_events.observation import MAX_PREVIEWS
from poweron_events.parameters import ParametersSet
from poweron_events.stream import WorkflowEvent
from poweron_services import telemetry
from poweron_services.actions.action import Action, Done, Failed, InputDocument, Order
from poweron_services.decider.approval import NEVER, Approval, expired
from poweron_services.decider.defaults import language
from poweron_services.decider.schema_check import check_values
from poweron_services.decider.size_limits import (
    DOCUMENTS_BUDGET,
    ERROR_BUDGET,
    NOTES_BUDGET,
    fitting,
    fitting_calls,
    fitting_text,
)
from poweron_services.decider.validation import NotAllowed, check_action
from poweron_services.models.call import Called, Caller
from poweron_services.models.prompts import Prompt
from poweron_services.models.time_limit import TimeLimit, Unkept
from poweron_services.retry import answered
from poweron_services.roles.named_documents import documents_named
from poweron_services.roles.observation_builder import observe_build, text_of

log = structlog.get_logger()

GRACE_MS = 30_000  # what a claim holds beyond the action's time limit: reading documents or storing results, appending
STORE_TIMEOUT = 20.0  # seconds that a content store which is away is waited for
MAX_DOCUMENTS = 99  # of one result that its event names; all of them stand in `ALL_DOCUMENTS` if there are more
ALL_DOCUMENTS = "documents.json"
MAX_NOTES = 20
MAX_NOTE = 500  # characters
MAX_ERROR = 4_000  # characters

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Standing:
    """How a worker stands towards the partition of the workflow it works on."""

    end_at_assignment: int
    is_ours: Callable[[], bool]
    caught_up: Callable[[], Awaitable[bool]]
    """Waits until everything there is now has been folded; False if the assignment was lost meanwhile."""
    wait_until: Callable[[int], Awaitable[bool]]
    """Waits until a moment (ms since 1970); False, at once, if the assignment was lost meanwhile."""


@dataclass(slots=True, eq=False)
class _Claim:
    """A claim of ours. It holds one of the executor's places until its action has run, or it is forgotten."""

    token: str
    begun: bool = False


@dataclass(slots=True)
class Executor:
    """Runs actions, each at most as often as its effect class allows.

    Where the process is observer too, result and observation travel in one append.
    """

    actions: Mapping[str, Action]
    caller: Caller
    content: ContentStore
    worker: str
    observes: bool
    concurrency: int
    now_ms: Callable[[], int]
    approval: Approval = NEVER
    _claims: dict[str, _Claim] = field(default_factory=dict)  # by workflow: each has one action at a time
    _places: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._places = asyncio.Semaphore(self.concurrency)

    @property
    def _specs(self) -> Mapping[str, ActionSpec]:
        return {name: action.spec for name, action in self.actions.items()}

    async def __call__(self, workflow: Workflow, standing: Standing) -> Sequence[WorkflowEvent]:
        claim = self._claims.get(workflow.id)
        match workflow.phase:
            case "ready" if self.approval.must_be_asked(workflow):
                return [self.approval.request(workflow)]
            case "ready":
                return await self._claim(workflow, 1, standing)
            case "approve":
                return await self._deny_when_due(workflow, standing)
            case "started" if claim is not None and not claim.begun and claim.token == workflow.step.starts[-1].claim:
                return await self._begin(workflow, claim, standing)
            case _:
                return await self._other_claim(workflow, standing)

    async def claim_at_once(self, workflow: Workflow, told: Sequence[WorkflowEvent]) -> Sequence[WorkflowEvent]:
        """The claim that travels with the parameters it is for, where there is a place to run the action now.

        The action begins no sooner: its claim must be read back first, and if the parameters are
        superseded, so is the claim, whose cause they are.
        """
        match told:
            case [ParametersSet()] if self._places.locked() or self.approval.must_be_asked(workflow):
                return []
            case [ParametersSet() as parameters]:
                self.forget(workflow.id)
                await self._places.acquire()
                return [self._claimed(change_step(workflow, "ready", parameters=parameters), 1)]
            case _:
                return []

    def forget(self, workflow_id: str) -> None:
        """Give up a claim that has not begun: the workflow has gone on without it, or is no longer ours."""
        claim = self._claims.get(workflow_id)
        if claim is not None:
            del self._claims[workflow_id]
            if not claim.begun:
                self._places.release()

    async def _claim(self, workflow: Workflow, try_: int, standing: Standing) -> Sequence[WorkflowEvent]:
        """Claim the action once there is a place to run it: what is claimed can begin at once."""
        self.forget(workflow.id)
        await self._places.acquire()
        if not standing.is_ours():
            self._places.release()
            return []
        return [self._claimed(workflow, try_)]

    def _claimed(self, workflow: Workflow, try_: int) -> ActionStarted:
        self._claims[workflow.id] = claim = _Claim(secrets.token_hex(16))
        selection = workflow.step.selection
        assert selection is not None
        spec = self.actions[selection.action].spec if selection.action in self.actions else None
        return ActionStarted(
            **step_place(workflow),
            try_=try_,
            action=selection.action,
            claim=claim.token,
            worker=self.worker,
            effect_class=spec.effect_class if spec else "at_most_once",
            deadline_ms=(spec.limit_ms if spec else 0) + GRACE_MS,
        )

    async def _deny_when_due(self, workflow: Workflow, standing: Standing) -> Sequence[WorkflowEvent]:
        """Wait for a person, for days if need be: nothing is held meanwhile but the workflow itself."""
        return [expired(workflow)] if await standing.wait_until(workflow.step.approval_due_ms) else []

    async def _begin(self, workflow: Workflow, claim: _Claim, standing: Standing) -> Sequence[WorkflowEvent]:
        """Run the action under a claim that was read back as accepted; its token is used up from here on."""
        ours = await standing.caught_up() and self._claims.get(workflow.id) is claim
        if not ours or self.now_ms() >= workflow.step.starts[-1].due_ms:
            self.forget(workflow.id)
            return [self._without_result(workflow, "not_begun", "The worker lost its claim before the action began.")]
        claim.begun = True
        try:
            return await self._run(workflow)
        finally:
            self._places.release()

    async def _other_claim(self, workflow: Workflow, standing: Standing) -> Sequence[WorkflowEvent]:
        """The action was started by somebody else, by us in an earlier life, or is being stopped."""
        start, own = workflow.step.starts[-1], self._claims.get(workflow.id)
        if workflow.phase == "draining" and own is not None and own.token == start.claim:
            return [self._cancelled(workflow, start, own)]
        if own is not None and own.token != start.claim:
            self.forget(workflow.id)  # another worker was first: ours holds no place while that one runs
        retriable = start.effect_class != "at_most_once"
        held_before = start.cause.offset is not None and start.cause.offset < standing.end_at_assignment
        if not await standing.wait_until(0 if retriable and held_before else start.due_ms):
            return []
        if retriable and workflow.phase == "started" and len(workflow.step.starts) < MAX_TRIES:
            return await self._claim(workflow, len(workflow.step.starts) + 1, standing)
        if retriable:
            return [self._without_result(workflow, "crashed", "The worker stopped before the action ended.")]
        return [
            self._without_result(
                workflow, "unknown", "The worker stopped before the action ended; whether it had its effect is unknown."
            )
        ]

    def _cancelled(self, workflow: Workflow, start: Start, own: _Claim) -> ActionCompleted:
        if not own.begun:
            self.forget(workflow.id)
            return self._without_result(workflow, "not_begun", "The round was stopped before the action began.")
        if start.effect_class == "at_most_once":
            return self._without_result(workflow, "unknown", "The round was stopped while the action ran.")
        return self._without_result(workflow, "cancelled", "The round was stopped while the action ran.")

    def _without_result(self, workflow: Workflow, outcome: Outcome, error: str) -> ActionCompleted:
        return self._completed(workflow, outcome=outcome, error=error)

    def _completed(
        self,
        workflow: Workflow,
        *,
        outcome: Outcome,
        error: str | None = None,
        documents: tuple[DocumentRef, ...] = (),
        notes: tuple[str, ...] = (),
        duration_ms: int = 0,
        model_calls: tuple[ModelCall, ...] = (),
    ) -> ActionCompleted:
        selection = workflow.step.selection
        assert selection is not None
        return ActionCompleted(
            **step_place(workflow),
            try_=len(workflow.step.starts),
            success=outcome == "done",
            outcome=outcome,
            error=fitting_text(writable(error)[:MAX_ERROR], ERROR_BUDGET) if error else None,
            documents=documents,
            result_label=result_label(workflow, selection.action),
            notes=_fitting_notes(notes),
            duration_ms=duration_ms,
            model_calls=fitting_calls(model_calls),
        )

    # --- running ------------------------------------------------------------------------------------------

    async def _run(self, workflow: Workflow) -> Sequence[WorkflowEvent]:
        """The action's result as events; whatever goes wrong is told as its result."""
        calls: list[ModelCall] = []
        began = time.monotonic_ns()
        selection = workflow.step.selection
        assert selection is not None
        with telemetry.running(selection.action) as told:
            outcome, done = await self._outcome(workflow, calls)
            told.ended(outcome)
        try:
            documents, notes = await self._stored(workflow, done)
        except Exception as error:
            log.exception("a result could not be stored", workflow_id=workflow.id)
            outcome, done = "failed", _failed(f"The action ended, but its result could not be stored: {error}")
            documents, notes = (), ()
        completed = self._completed(
            workflow,
            outcome=outcome,
            error=done.result.error,
            documents=documents,
            notes=notes,
            duration_ms=(time.monotonic_ns() - began) // 1_000_000,
            model_calls=tuple(calls),
        )
        if not self.observes:
            return [completed]
        texts = [
            text_of(document.mime_type, document.document_data) for document in done.result.documents[:MAX_PREVIEWS]
        ]
        return [completed, observe_build(change_step(workflow, completed=completed), completed, texts, self._specs)]

    async def _outcome(self, workflow: Workflow, calls: list[ModelCall]) -> tuple[Outcome, Done]:
        """What the action came to; a refusal is an outcome, too."""
        selection = workflow.step.selection
        assert selection is not None
        try:
            spec = check_action(selection.action, workflow, self._specs)
            if (why_not := self.approval.why_not(workflow)) is not None:
                return "denied", _failed(why_not)
            order = await self._order(workflow, calls)
        except NotAllowed as error:
            return "denied", _failed(str(error))
        except (PowerOnError, ValueError) as error:
            return "failed", _failed(str(error))
        return await self._performed(workflow, self.actions[spec.name], order, calls)

    async def _performed(
        self, workflow: Workflow, action: Action, order: Order, calls: list[ModelCall]
    ) -> tuple[Outcome, Done]:
        """Run the action within its time limit, and before its claim is over."""
        start, spec = workflow.step.starts[-1], action.spec
        interrupted: Outcome = "unknown" if start.effect_class == "at_most_once" else "failed"
        seconds = min(spec.limit_ms, start.due_ms - self.now_ms()) / 1000
        try:
            async with TimeLimit(seconds):
                done = await action(order)
        except TimeoutError:
            return interrupted, _failed(f"{spec.name} was stopped after {seconds:.3g} s, its time limit.")
        except Refused as error:
            return "failed", _failed(str(error), error.notes if isinstance(error, Failed) else ())
        except PowerOnError as error:
            calls.extend(error.calls if isinstance(error, Unkept) else ())
            return interrupted, _failed(str(error))
        except Exception:
            log.exception("action raised", workflow_id=workflow.id, action=spec.name)
            return interrupted, _failed(f"{spec.name} met an unexpected error; the service's log has it.")
        return ("done" if done.result.success else "failed"), done

    async def _order(self, workflow: Workflow, calls: list[ModelCall]) -> Order:
        selection, parameters = workflow.step.selection, workflow.step.parameters
        assert selection is not None
        assert parameters is not None

        async def ask(prompt: Prompt) -> Called:
            called = await self.caller.call(workflow, prompt, calls)
            calls.append(called.call)
            if called.refusal:
                raise Refused(called.refusal)
            return called

        return Order(
            parameters=check_values(parameters.parameters, self.actions[selection.action].spec),
            documents=await self._documents(workflow, selection.required_input_documents),
            language=language(workflow),
            idempotency_key=idempotency_key(workflow.id, workflow.place),
            ask=ask,
        )

    async def _documents(self, workflow: Workflow, references: Sequence[str]) -> list[InputDocument]:
        """What the action reads; a store that is away is waited for a while."""
        async with _patient(STORE_TIMEOUT):
            named = partial(documents_named, references, workflow, self.content)
            return [
                InputDocument(
                    reference=item_reference(found.document_id, found.document_name),
                    name=found.document_name,
                    mime_type=found.mime_type,
                    data=await _from_store(workflow.id, partial(self.content.get, workflow.id, found.content)),
                )
                for found in await _from_store(workflow.id, named)
            ]

    async def _stored(self, workflow: Workflow, done: Done) -> tuple[tuple[DocumentRef, ...], tuple[str, ...]]:
        """Bytes before the event that names them (E-10); a store that is away is waited for a while."""
        async with _patient(STORE_TIMEOUT):
            documents = [
                await self._store(workflow, number, document)
                for number, document in enumerate(done.result.documents, start=1)
            ]
            kept = fitting(documents[:MAX_DOCUMENTS], DOCUMENTS_BUDGET)
            left_out = len(documents) - len(kept)
            if not left_out:
                return kept, done.notes
            everything = dumps([document.model_dump(mode="json", by_alias=True) for document in documents])
            listed = ActionDocument(document_name=ALL_DOCUMENTS, document_data=everything, mime_type="application/json")
            index = await self._store(workflow, len(documents) + 1, listed)
        return (*kept, index), (f"{left_out} more documents are named in {ALL_DOCUMENTS!r} only.", *done.notes)

    async def _store(self, workflow: Workflow, number: int, document: ActionDocument) -> DocumentRef:
        task = workflow.task
        return DocumentRef(
            document_id=f"r{workflow.current.number}t{task.number}a{task.actions}d{number}",
            document_name=document.document_name,
            mime_type=document.mime_type,
            size=len(document.document_data),
            content=await _from_store(workflow.id, partial(self.content.put, workflow.id, document.document_data)),
        )


async def _from_store(workflow_id: str, ask: Callable[[], Awaitable[Answer]]) -> Answer:
    return await answered(ask, "an action waits for the content store", workflow_id=workflow_id)


@asynccontextmanager
async def _patient(seconds: float) -> AsyncGenerator[None, None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise Unavailable(f"the content store did not answer for {seconds:g} s") from error


def _failed(error: str, notes: tuple[str, ...] = ()) -> Done:
    return Done(ActionResult(success=False, error=error), notes)


def _fitting_notes(notes: Sequence[str]) -> tuple[str, ...]:
    kept = fitting([writable(note)[:MAX_NOTE] for note in notes[:MAX_NOTES]], NOTES_BUDGET)
    left_out = len(notes) - len(kept)
    return (*kept, f"{left_out} more notes were left out.") if left_out else kept
