"""The cases of a model check: what a model is shown at each stage, and which answers are right.

The workflow of a case is built from events, folded as the roles fold them.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from poweron_events import codec
from poweron_events.content import ContentStore
from poweron_events.envelope import Cause, Recorded, envelop
from poweron_events.event import CriterionProgress, DocumentRef, ModelCall
from poweron_events.fold.evolve import evolve
from poweron_events.fold.stage_specs import PromptStage
from poweron_events.fold.state import Workflow, result_label, step_place, task_place
from poweron_events.request import Requester, RequestIdentity, WorkflowRequested, workflow_id
from poweron_events.round_events import RoundCompleted, TaskPlan, TaskReviewed, TasksPlanned
from poweron_events.step_events import (
    ActionCompleted,
    ActionSelected,
    ActionStarted,
    Observation,
    ObservationRecorded,
    ParametersSet,
    Preview,
    RefinementDecided,
)
from poweron_events.stream import WorkflowEvent
from poweron_services.model_check.facts import FACTS, CaseFact

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


READING: Final = frozenset({"ai.process", "document.extract"})
OBJECTIVE: Final = {"en": "Find out: {}", "de": "Finde heraus: {}"}
PDF: Final = {"en": " Write a short report of it as a PDF.", "de": " Schreibe dazu einen kurzen Bericht als PDF."}
UNSAID: Final = {"en": "The documents do not say it.", "de": "Die Dokumente sagen dazu nichts."}
_DENIAL: Final = re.compile(
    r"\b(?:no|not|n't|nothing|none|unknown|unable|cannot|without|kein\w*|nicht\w*|unbekannt|ohne)\b|n't\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Case:
    """One question to one stage."""

    stage: PromptStage
    asks: str
    """What the case asks of the model, in a few words."""
    workflow: Workflow
    fact: CaseFact
    is_right: Callable[[Any], bool]
    """Returns whether the event, or the text from `process`, is a right answer."""


async def cases(stage: PromptStage, count: int, content: ContentStore) -> list[Case]:
    """Return the first `count` cases of a stage, at most 25."""
    return [await _MAKE[stage](Story(content, fact, number), number) for number, fact in enumerate(FACTS[:count])]


async def _plan(story: Story, number: int) -> Case:
    fact, wants_file = story.fact, number % 5 == 1
    await story.asked(fact.question + (PDF[fact.language] if wants_file else ""))

    def is_right(event: TasksPlanned) -> bool:
        formats = [name for task in event.tasks for name in task.expected_formats]
        if wants_file:
            return bool(formats) and {*formats} <= {"pdf", "markdown"}
        return len(event.tasks) == 1 and not formats

    return _case("plan", "plan a file" if wants_file else "plan one task for one question", story, is_right)


async def _select(story: Story, number: int) -> Case:
    fact, kind = story.fact, number % 5
    if kind == 1:
        await story.asked(fact.question + PDF[fact.language])
        story.planned(OBJECTIVE[fact.language].format(fact.question + PDF[fact.language]), "pdf")
        return _case("select", "write the file that is asked for", story, lambda event: _reads(event) or _writes(event))
    other = FACTS[(number + 7) % len(FACTS)]
    await story.asked(fact.question, *([other] if kind == 3 else []))
    story.planned(OBJECTIVE[fact.language].format(fact.question))
    if kind == 3:
        return _case("select", "choose the right document", story, lambda event: _reads(event, fact.document))
    return _case("select", "read before answering", story, _reads)


def _reads(event: ActionSelected, document: str = "") -> bool:
    references = event.required_input_documents
    return event.action in READING and any(
        document in reference or reference.startswith("docList:") for reference in references
    )


def _writes(event: ActionSelected) -> bool:
    return event.action == "document.generateReport"


async def _parameterize(story: Story, _: int) -> Case:
    fact = story.fact
    await story.asked(fact.question)
    story.planned(OBJECTIVE[fact.language].format(fact.question)).selected(context=fact.question)

    def is_right(event: ParametersSet) -> bool:
        return any(word in str(event.parameters["aiPrompt"]).casefold() for word in fact.topic)

    asks = "set a parameter in German" if fact.language == "de" else "set a parameter"
    return _case("parameterize", asks, story, is_right)


async def _refine(story: Story, number: int) -> Case:
    if await _add_step(story, number):
        return _case("refine", "stop when the answer is there", story, lambda event: event.decision == "stop")
    return _case("refine", "continue when it is not", story, lambda event: event.decision == "continue")


async def _review(story: Story, number: int) -> Case:
    is_found = await _add_step(story, number)
    story.refined(met=is_found)
    if is_found:
        return _case("review", "accept what meets its criterion", story, lambda event: event.status == "success")
    return _case("review", "see what was not met", story, lambda event: event.status != "success")


async def _add_step(story: Story, number: int) -> bool:
    """Add a step to the story that found the answer or only read something else; return whether it found it."""
    fact, is_found = story.fact, number % 2 == 0
    await story.asked(fact.question)
    story.planned(OBJECTIVE[fact.language].format(fact.question))
    story.selected("ai.process" if is_found else "document.extract")
    await story.done(_answer_sentence(fact) if is_found else FACTS[(number + 7) % len(FACTS)].text)
    return is_found


async def _process(story: Story, number: int) -> Case:
    fact, is_said = story.fact, number % 5 != 3
    question = fact.question if is_said else fact.unanswered
    story = Story(story.content, fact._replace(question=question), number)
    await story.asked(question)
    if is_said:
        return _case("process", "answer from the text", story, lambda text: _holds(text, fact.answer))
    return _case("process", "refuse to invent", story, _denies)


async def _message(story: Story, number: int) -> Case:
    fact, is_found = story.fact, number % 5 != 3
    await story.asked(fact.question)
    story.planned(OBJECTIVE[fact.language].format(fact.question)).selected()
    await story.done(_answer_sentence(fact) if is_found else UNSAID[fact.language])
    story.refined(met=is_found).reviewed()

    def is_right(event: RoundCompleted) -> bool:
        return _holds(event.message, fact.answer) if is_found else _denies(event.message)

    return _case("message", "tell what was found" if is_found else "tell that nothing was found", story, is_right)


def _answer_sentence(fact: CaseFact) -> str:
    """Return what a good step finds: the sentence of the text that contains the answer."""
    sentences: Sequence[str] = re.split(r"(?<=[.!?])\s+|\n", fact.text)
    holding = (sentence for sentence in sentences if _holds(sentence, fact.answer))
    return f"{next(holding, fact.text)} ({fact.document})"


def _holds(text: str, answers: Sequence[str]) -> bool:
    return any(answer.casefold() in text.casefold() for answer in answers)


def _denies(text: str) -> bool:
    return _DENIAL.search(text) is not None


def _case(stage: PromptStage, asks: str, story: Story, is_right: Callable[[Any], bool]) -> Case:
    return Case(stage, asks, story.workflow, story.fact, is_right)


_MAKE: Final[dict[PromptStage, Callable[[Story, int], Awaitable[Case]]]] = {
    "plan": _plan,
    "select": _select,
    "parameterize": _parameterize,
    "refine": _refine,
    "review": _review,
    "process": _process,
    "message": _message,
}
STAGES: Final[tuple[PromptStage, ...]] = tuple(_MAKE)
"""The stages that are checked: all but the deprecated `plan_actions`."""
