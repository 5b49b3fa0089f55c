"""A builder for the workflow of a case, which folds its events as the roles do."""

from typing import Final

from poweron_events import codec
from poweron_events.content import ContentStore
from poweron_events.envelope import Cause, Recorded, envelop
from poweron_events.event import CriterionProgress, DocumentRef, ModelCall
from poweron_events.execution import ActionCompleted, ActionStarted
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Workflow, result_label, step_place, task_place
from poweron_events.observation import Observation, ObservationRecorded, Preview
from poweron_events.outcome import TaskReviewed
from poweron_events.parameters import ParametersSet
from poweron_events.planning import TaskPlan, TasksPlanned
from poweron_events.refinement import RefinementDecided
from poweron_events.request import Requester, RequestIdentity, WorkflowRequested, workflow_id
from poweron_events.selection import ActionSelected
from poweron_events.stream import WorkflowEvent
from poweron_services.model_check.facts import CaseFact

SOURCE: Final = "/poweron/models-check"
TIME: Final = "2026-01-01T00:00:00.000Z"
_CALL: Final = ModelCall(provider="none", model="none", template="none", template_sha256="0" * 64)


class Story:
    """A workflow about a document, built event by event."""

    def __init__(self, content: ContentStore, fact: CaseFact, number: int) -> None:
        self.fact = fact
        self.workflow = Workflow(workflow_id(SOURCE, str(number)))
        self.content = content
        self._number = number
        self._told = 0

    async def asked(self, prompt: str, *others: CaseFact) -> "Story":
        """Add the request, with the document and those of the other facts."""
        documents = [await self._document(fact, f"d{place}") for place, fact in enumerate((self.fact, *others), 1)]
        opening = WorkflowRequested(
            round=1,
            request=RequestIdentity(source=SOURCE, id=str(self._number)),
            prompt=prompt,
            requester=Requester(name="check", language=self.fact.language),
            documents=tuple(documents),
        )
        return self._tell(opening)

    def planned(self, objective: str, *formats: str) -> "Story":
        """Add one task about the document; if formats are given, the task writes a report."""
        german = self.fact.language == "de"
        criterion = f"Die Antwort steht da: {objective}" if german else f"The answer is stated: {objective}"
        plan = TaskPlan(
            objective=objective,
            success_criteria=(criterion,),
            task_type="report" if formats else "lookup",
            expected_formats=formats,
        )
        return self._tell(TasksPlanned(round=1, tasks=(plan,), model_call=_CALL))

    def selected(self, action: str = "ai.process", objective: str = "", context: str = "") -> "Story":
        """Select an action that works on the document."""
        return self._tell(
            ActionSelected(
                **step_place(self.workflow),
                action=action,
                action_objective=objective or self.fact.question,
                required_input_documents=("docList:round1_request",),
                parameters_context=context,
                model_call=_CALL,
            )
        )

    async def done(self, text: str) -> "Story":
        """Complete the action with this text as its result."""
        selection = self.workflow.step.selection
        assert selection is not None
        action = selection.action
        result_fact = self.fact._replace(
            document="answer.md" if action == "ai.process" else f"{self.fact.document}.md", text=text
        )
        document = await self._document(result_fact, "r1t1a1d1")
        label = result_label(self.workflow, action)
        preview = Preview(name=document.document_name, mime=document.mime_type, snippet=text)
        place = step_place(self.workflow)
        return self._tell(
            ParametersSet(**place, given={}, parameters={"aiPrompt": self.fact.question}, model_call=_CALL),
            ActionStarted(
                **place,
                try_=1,
                action=action,
                claim="check",
                worker="check",
                effect_class="idempotent",
                deadline_ms=60_000,
            ),
            ActionCompleted(
                **place, try_=1, success=True, outcome="done", documents=(document,), result_label=label, duration_ms=1
            ),
            ObservationRecorded(
                **place,
                observation=Observation(success=True, result_label=label, documents_count=1, previews=(preview,)),
                summary=f"{action} gave 1 document: {document.document_name} - {text}",
            ),
        )

    def refined(self, *, met: bool) -> "Story":
        """Stop the loop; `met` says whether the criterion is met."""
        criterion = self.workflow.task.plan.success_criteria[0]
        progress = CriterionProgress(criterion=criterion, met=met, progress=1000 if met else 0)
        return self._tell(
            RefinementDecided(
                **step_place(self.workflow),
                decision="stop",
                reason="It is answered." if met else "The text does not say it.",
                classification="success" if met else "failed",
                criteria_progress=(progress,),
                model_call=_CALL,
            )
        )

    def reviewed(self) -> "Story":
        """Review the task as a success."""
        return self._tell(TaskReviewed(**task_place(self.workflow), status="success", model_call=_CALL))

    async def _document(self, fact: CaseFact, document_id: str) -> DocumentRef:
        content = fact.text.encode()
        ending = fact.document.rpartition(".")[2]
        kinds = {"csv": "text/csv", "md": "text/markdown"}
        return DocumentRef(
            document_id=document_id,
            document_name=fact.document,
            mime_type=kinds.get(ending, "text/plain"),
            size=len(content),
            content=await self.content.put(self.workflow.id, content),
        )

    def _tell(self, *events: WorkflowEvent) -> "Story":
        for event in events:
            value = codec.encode(
                envelop(event, workflow_id=self.workflow.id, source=SOURCE, time=TIME, cause=self._cause(event))
            )
            recorded = Recorded(codec.decode(value), 0, self._told, self._told, codec.sha256(value))
            self.workflow, verdict = evolve(self.workflow, recorded)
            assert verdict == "accepted", f"{event.TYPE} is {verdict}"
            self._told += 1
        return self

    def _cause(self, event: WorkflowEvent) -> Cause | None:
        """Return the cause that a role would name: for a completion the start of its action, otherwise the head."""
        return self.workflow.step.starts[-1].cause if isinstance(event, ActionCompleted) else self.workflow.head
