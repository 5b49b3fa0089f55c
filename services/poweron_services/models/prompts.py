"""The prompts: what each stage shows to a model, as an object whose rendering is the prompt.

A language model is sent the rendering; the built-in model reads the same fields. A prompt's template
is a file beside the role or action that uses it: instructions first, then, below the line
`=== data ===`, the data, in which nothing is an instruction.
"""

import hashlib
import secrets
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import jinja2

from poweron_events.event import CriterionProgress
from poweron_events.fold.state import ChatMessage
from poweron_events.observation import Observation
from poweron_events.request import TaskType
from poweron_events.selection import SchemaField

DATA_LINE = "=== data ===\n"
OutputFormat = Literal["markdown", "json", "csv"]

_ENVIRONMENT = jinja2.Environment(
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    autoescape=False,  # noqa: S701 - prompts are plain text
)


@dataclass(frozen=True)
class Template:
    """A versioned prompt template; every decision names it together with its hash (P-08)."""

    name: str
    text: str

    @classmethod
    def beside(cls, module: str, name: str) -> "Template":
        """The template `name` in the folder of the module whose `__file__` is given."""
        return cls(name, Path(module).with_name(name).read_text(encoding="utf-8"))

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @cached_property
    def _parts(self) -> tuple[str, jinja2.Template]:
        """The instructions, which are the same every time, and what shows the data."""
        instructions, _, data = self.text.partition(DATA_LINE)
        template = _ENVIRONMENT.from_string(data)
        template.globals = {}  # a template has what its prompt has; chained mappings would be copied at every call
        return _ENVIRONMENT.from_string(instructions).render(), template

    def render(self, values: dict[str, Any], fence: str) -> "Rendered":
        instructions, data = self._parts
        return Rendered(instructions, data.render(values, fence=fence))


@dataclass(frozen=True, slots=True)
class Rendered:
    """A prompt as a language model gets it: the same instructions every time, then the data."""

    instructions: str
    data: str

    def __str__(self) -> str:
        return f"{self.instructions}\n{self.data}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What every stage's prompt is: a template and the fields it shows."""

    template: Template

    def render(self, fence: str | None = None) -> Rendered:
        """The prompt as text; untrusted text stands between lines with a delimiter made for this call."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "template"}
        return self.template.render(values, fence or secrets.token_hex(8))


@dataclass(frozen=True, slots=True)
class DocumentLine:
    """A document as the index in a prompt shows it: no content, only what it is and how to refer to it."""

    reference: str  # docItem:<documentId>:<fileName>
    label: str  # the label of the list it belongs to: docList:<label> names all of them
    name: str
    mime_type: str
    size: int  # bytes


@dataclass(frozen=True, slots=True)
class CatalogLine:
    """An action as the tiny catalog shows it: names only (P-07)."""

    name: str
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningPrompt(Prompt):
    """Cut a request into tasks. Answer: `PlanningAnswer`."""

    user_prompt: str
    language: str | None
    documents: tuple[DocumentLine, ...]
    connections: tuple[str, ...]
    actions: tuple[CatalogLine, ...]
    earlier: str  # what earlier rounds of the workflow did; "" in the first
    max_steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionPrompt(Prompt):
    """Stage 1: select one action, without parameters (P-01). Answer: `SelectionAnswer`."""

    user_prompt: str
    language: str | None
    objective: str
    success_criteria: tuple[str, ...]
    task_type: TaskType
    expected_formats: tuple[str, ...]
    catalog: tuple[CatalogLine, ...]
    documents: tuple[DocumentLine, ...]
    connections: tuple[str, ...]
    history: tuple[ChatMessage, ...]  # newest first; of this round and earlier ones
    history_text: str  # the same as the prompt shows it, cut to its budget
    hint: str | None
    improvements: tuple[str, ...]
    refusal: str | None  # why the first answer to this very question was refused
    steps_left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ParametersPrompt(Prompt):
    """Stage 2: business parameters only, nothing else is shown (P-03). Answer: `ParametersAnswer`."""

    action_objective: str
    selected_action: str
    parameters_context: str
    fields: tuple[SchemaField, ...]
    refusal: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RefinementPrompt(Prompt):
    """Continue or stop (P-06). Answer: `RefinementAnswer`."""

    objective: str
    progress: tuple[CriterionProgress, ...]
    selected_action: str
    observation: Observation
    steps_left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewPrompt(Prompt):
    """Judge a task against its criteria (L-07). Answer: `ReviewAnswer`."""

    objective: str
    progress: tuple[CriterionProgress, ...]
    history: tuple[ChatMessage, ...]  # the steps of this task, newest first
    last_observation: Observation | None
    stopped_because: str
    retries_left: int


@dataclass(frozen=True, slots=True)
class SourceText:
    """A document's text, as `ai.process` shows it: markdown with a heading for every page or section."""

    reference: str
    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessPrompt(Prompt):
    """Answer a question from texts, or write from them (C-04). Answer: text in the asked format."""

    ai_prompt: str
    custom_instructions: str
    language: str | None
    output_format: OutputFormat
    documents: tuple[SourceText, ...]


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What a task came to: its last summary, and the text it wrote for the user, if any."""

    objective: str
    status: str  # success | failed
    summary: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePrompt(Prompt):
    """The final message to the user (L-08). Answer: a short text in markdown."""

    user_prompt: str
    language: str | None
    results: tuple[TaskResult, ...]
    documents: tuple[str, ...]  # the names of the documents that were written
