"""The same requests in both modes, and what is compared of their courses (A-02).

The built-in model answers them. Where a document is named `broken.pdf` it is `Clumsy`: its first action reads only
that one and fails, so that the task is reviewed and tried again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from poweron_events.content import ContentStore
from poweron_events.event import DocumentRef
from poweron_events.fold.state import Workflow
from poweron_events.step_events import ActionCompleted, ActionSelected, ParametersSet, RefinementDecided
from poweron_services.models.builtin import BuiltinModel
from poweron_services.models.chat_model import Completion
from poweron_services.models.prompts import (
    ActionsPrompt,
    MessagePrompt,
    ProcessPrompt,
    Prompt,
    RefinementPrompt,
    SelectionPrompt,
)

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"
BROKEN = "broken.pdf"
CLOSED = {"action", "decision", "classification", "status", "taskType", "type", "schema", "criterion"}
"""The fields of answers that take one of a closed set of words."""
MODES = ("React", "Actionplan")


@dataclass(frozen=True)
class Wanted:
    """A request, its documents, and in which order its actions come."""

    prompt: str
    documents: tuple[str, ...]
    actions: tuple[str, ...]

    @property
    def files(self) -> list[tuple[str, bytes]]:
        return [(name, b"%PDF-1.7" if name == BROKEN else (EXAMPLES / name).read_bytes()) for name in self.documents]


READ_AND_ANSWER = ("document.extract", "ai.process")
REQUESTS = {
    "a lookup": Wanted("What is the grand total of the estimate?", ("estimate.pdf",), READ_AND_ANSWER),
    "two documents compared": Wanted(
        "Compare the estimate with the letter: which dates are named?", ("estimate.pdf", "letter.txt"), READ_AND_ANSWER
    ),
    "a report": Wanted(
        "Write a report about the letter.", ("letter.txt",), (*READ_AND_ANSWER, "document.generateReport")
    ),
    "a report that compares": Wanted(
        "Write a report comparing the estimates.",
        ("estimate.pdf", "budget.xlsx"),
        (*READ_AND_ANSWER, "document.generateReport"),
    ),
    "a file": Wanted("Convert the inventory to JSON.", ("inventory.csv",), (*READ_AND_ANSWER, "ai.process")),
    "a failure that is tried again": Wanted(
        "When does the exhibition open?", (BROKEN, "letter.txt"), ("document.extract", "ai.process")
    ),
}


class Clumsy(BuiltinModel):
    """The built-in model, which reads a broken document first and leaves it to the review what is to be done."""

    async def complete(self, prompt: Prompt) -> Completion:
        completion = await super().complete(prompt)
        answer = completion.text
        if isinstance(prompt, ActionsPrompt | SelectionPrompt) and not prompt.improvements:
            answer = _clumsy(answer, prompt)
        if isinstance(prompt, RefinementPrompt) and not prompt.observation.success:
            answer = orjson.dumps({**orjson.loads(answer), "decision": "stop", "classification": "failed"}).decode()
        return Completion(answer, completion.provider, completion.model)


def _clumsy(answer: str, prompt: ActionsPrompt | SelectionPrompt) -> str:
    broken = [line.reference for line in prompt.documents if line.name == BROKEN]
    if not broken:
        return answer
    said = orjson.loads(answer)
    first = said["actions"][0] if isinstance(prompt, ActionsPrompt) else said
    first["requiredInputDocuments"] = broken
    return orjson.dumps(said).decode()


class Careless(BuiltinModel):
    """The built-in model, which writes its answers in a way that is not quite what was asked for, but harmless."""

    async def complete(self, prompt: Prompt) -> Completion:
        completion = await super().complete(prompt)
        answer = completion.text
        if isinstance(prompt, ProcessPrompt) and prompt.output_format != "markdown":
            answer = f"```{prompt.output_format}\n{answer}\n```"
        elif not isinstance(prompt, ProcessPrompt | MessagePrompt):
            answer = orjson.dumps(_careless(orjson.loads(answer))).decode()
        return Completion(answer, completion.provider, completion.model)


def _careless(said: Any) -> Any:
    """The answer in other letters, its documents named by their ids, and with a word for no connection."""
    if isinstance(said, list):
        return [_careless(each) for each in said]
    if not isinstance(said, dict):
        return said
    careless = {name: value if name == "parameters" else _careless(value) for name, value in said.items()}
    for name in CLOSED & careless.keys():
        careless[name] = f" {careless[name].upper()}\n"
    if "action" in careless:
        named = careless.get("requiredInputDocuments", [])
        careless["requiredInputDocuments"] = [":".join(reference.split(":")[:2]) for reference in named]
        careless["requiredConnection"] = "none"
    return careless


@dataclass
class Course:
    """What came of a request, less what the modes may differ in: who decided, and the refinements."""

    ending: str | None
    message: str
    steps: list[list[str]] = field(default_factory=list)
    selected: list[tuple[Any, ...]] = field(default_factory=list)
    parameters: list[tuple[Any, ...]] = field(default_factory=list)
    results: list[tuple[Any, ...]] = field(default_factory=list)
    documents: dict[str, bytes] = field(default_factory=dict)
    messages: list[dict[str, Any]] = field(default_factory=list)


async def course(workflow: Workflow, accepted: Sequence[Any], content: ContentStore) -> Course:
    """The course of the last round of the workflow, from its accepted events."""
    told = [event for event in accepted if getattr(event, "round", 0) == workflow.current.number]
    found = Course(workflow.current.ending, told[-1].message)
    for event in told:
        if isinstance(event, ActionSelected):
            found.steps.append([])
            found.selected.append((event.action, event.action_objective, event.learnings, *_references(event)))
        if hasattr(event, "step") and not isinstance(event, RefinementDecided):
            found.steps[-1].append(type(event).__name__)
        if isinstance(event, ParametersSet):
            found.parameters.append((event.given, event.parameters, event.defaulted, event.dropped))
        if isinstance(event, ActionCompleted):
            found.results.append(
                (event.result_label, event.outcome, event.error, event.notes, *map(_named, event.documents))
            )
            for document in event.documents:
                found.documents[document.document_id] = await content.get(workflow.id, document.content)
    found.messages = [_compared(message.model_dump()) for message in workflow.current.messages]
    return found


def _references(event: ActionSelected) -> tuple[Any, ...]:
    return event.required_input_documents, event.required_connection


def _compared(message: dict[str, Any]) -> dict[str, Any]:
    told = {name: value for name, value in message.items() if name not in ("seq", "time_ms")}
    if told["kind"] == "step":
        del told["learnings"]  # those of the selection are compared beside it, the others are the refinement's
    unread = [{**document, "content": None} for document in told["unread"]]
    return {**told, "documents": [_named(document) for document in told["documents"]], "unread": unread}


def _named(document: DocumentRef | dict[str, Any]) -> tuple[Any, ...]:
    """What tells of a document; the commitment to its bytes is made with a key of the workflow's own."""
    fields = document if isinstance(document, dict) else document.model_dump()
    return tuple(value for name, value in fields.items() if name != "content")


def decided_by(accepted: Sequence[Any]) -> set[str]:
    """Who selected the actions and set their parameters."""
    return {event.decided_by for event in accepted if isinstance(event, ActionSelected | ParametersSet)}
