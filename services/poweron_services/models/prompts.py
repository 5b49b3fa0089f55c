"""The prompts: what each stage shows to a model, as an object whose rendering is the prompt.

A language model is sent the rendering; the built-in model reads the same fields. A prompt's template
is a file beside the role or action that uses it: instructions first, which are the same every time,
then, below the line `=== data ===`, the data. In the data, whatever a person, a document or a model
wrote stands between fences; outside of them are only fixed words, numbers and names from closed sets.
The fields hold all there is; the rendering is cut to the budgets that the template names.
"""

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Self, TypeVar

import jinja2

from poweron_events.codes import Code
from poweron_events.event import CriterionProgress, WebPage
from poweron_events.fold.history import list_reference
from poweron_events.fold.state import ChatMessage
from poweron_events.observation import Observation
from poweron_events.request import TaskType
from poweron_events.selection import SchemaField
from poweron_services.decider.rules import Allowance
from poweron_services.models.template_filters import FILTERS, LONGEST, cut

Thing = TypeVar("Thing")

DATA_LINE = "=== data ===\n"
MOST_HALVED = 4  # times that the budgets of history and indexes are halved for a model that takes little
OutputFormat = Literal["markdown", "text", "html", "json", "csv"]
Extent = Literal["whole", "excerpts", "part", "answers"]
"""What a model is shown of documents: all of them, passages that fit the task, one part of several, or what was
answered from the parts."""
NOTHING = "NOTHING"
"""What is answered from a part that says nothing of what is asked."""
PromptStage = Literal["plan", "plan_actions", "select", "parameterize", "refine", "review", "process", "message"]
"""What a model is asked for: the stages of a workflow that ask one, actions (`process`) and the final message.

Each may have a model of its own.
"""

_ENVIRONMENT = jinja2.Environment(
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    autoescape=False,  # noqa: S701 - prompts are plain text
)
_ENVIRONMENT.filters.update(FILTERS)


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

    @property
    def instructions(self) -> str:
        """What is the same in every prompt of this template."""
        return self._parts[0]

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


def new_fence() -> str:
    """A delimiter that nobody has seen."""
    return secrets.token_hex(8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What every stage's prompt is: a template and the fields it shows, for one call.

    Untrusted text stands between lines with a delimiter that nobody can foresee. The prompts of a workflow share one,
    so that a prompt begins like the one before it, which providers then have in their caches. What a model has seen
    and repeats cannot end a block of its next prompt: where the delimiter stands in the data, another one is taken.
    """

    stage: ClassVar[PromptStage]
    if_too_long: ClassVar[str] = "Nothing more can be left out of it."
    """What is said where the prompt is too long and cannot be cut."""
    template: Template
    fence: str = field(default_factory=new_fence, compare=False, repr=False)
    allowance: Allowance | None = field(default=None, repr=False)
    """What the budgets leave for the call; None where there are none."""
    answer_schema: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    """The JSON Schema of the answer; None where it is text."""
    passed_over: int = field(default=0, compare=False, repr=False)
    """How many of the models that are configured for the stage could not answer."""
    share: int = 1
    """What budgets are divided by, where a model takes no prompt that long: by the template those of history and
    indexes, by `shown` those of other texts."""

    def shown(self) -> dict[str, Any]:
        """What the template shows, by name."""
        return {name: getattr(self, name) for name in _shown(type(self))}  # type: ignore[arg-type] # classes do have a hash

    def render(self, fence: str | None = None) -> Rendered:
        """The prompt as text, between lines with its own delimiter or the given one."""
        values = self.shown() | {"share": self.share}
        if fence is not None:
            return self.template.render(values, fence)
        unseen = new_fence()
        rendered = self.template.render(values, unseen)
        if self.fence in rendered.data:
            return rendered
        return replace(rendered, data=rendered.data.replace(unseen, self.fence))

    def shorter(self) -> Self | None:
        """The prompt with less of its history and its indexes, which it says; None where nothing more may go."""
        length = len(str(self.render()))
        shares = (self.share * 2**halved for halved in range(1, MOST_HALVED + 1))
        shorter = (replace(self, share=share) for share in shares if share <= 2**MOST_HALVED)
        return next((prompt for prompt in shorter if len(str(prompt.render())) < length), None)


_NOT_SHOWN: Final = frozenset({"template", "fence", "allowance", "answer_schema", "passed_over", "share"})


@cache
def _shown(kind: type[Prompt]) -> tuple[str, ...]:
    return tuple(part.name for part in fields(kind) if part.name not in _NOT_SHOWN)


@dataclass(frozen=True, slots=True)
class DocumentLine:
    """A document as the index in a prompt shows it: no content, only what it is and how to refer to it."""

    reference: str  # docItem:<documentId>:<fileName>
    label: str  # the label of the list it belongs to: docList:<label> names all of them
    name: str
    mime_type: str
    size: int  # bytes

    def __str__(self) -> str:
        return f"{self.reference} ({self.mime_type}, {self.size} bytes, {list_reference(self.label)})"


@dataclass(frozen=True, slots=True)
class ListLine:
    """A list of documents as the index in a prompt shows it: the label that names all of them, and their number."""

    label: str
    count: int

    def __str__(self) -> str:
        return f"{list_reference(self.label)}: {self.count} document{'' if self.count == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class CatalogLine:
    """An action as the tiny catalog shows it: names only (P-07)."""

    name: str
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPrompt(Prompt):
    """What whoever plans tasks or actions is shown of the request and of what is there."""

    user_prompt: str
    language: str | None
    lists: tuple[ListLine, ...] = ()  # of documents: those of the requests, then those of results, each newest first
    documents: tuple[DocumentLine, ...]
    documents_left_out: int = 0  # documents of earlier rounds that are not among these
    connections: tuple[str, ...]
    earlier: str  # what earlier rounds of the workflow did, newest first; "" in the first
    earlier_left_out: int = 0  # messages of earlier rounds for which there was no room


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningPrompt(KnownPrompt):
    """Cut a request into tasks. Answer: `PlanningAnswer`."""

    stage: ClassVar[PromptStage] = "plan"
    actions: tuple[CatalogLine, ...]
    max_steps: int
    refusal: str | None = None  # why the first answer to this very question was refused


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPrompt(KnownPrompt):
    """What whoever chooses actions is shown of the task at hand, in either mode."""

    objective: str
    attempt: int = 1
    progress: tuple[CriterionProgress, ...]
    task_type: TaskType
    expected_formats: tuple[str, ...]
    catalog: tuple[CatalogLine, ...]
    history: tuple[ChatMessage, ...]  # of this round, newest first
    improvements: tuple[str, ...]
    refusal: str | None  # why the first answer to this very question was refused, as a model may know it (S8)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionsPrompt(TaskPrompt):
    """List all actions of a task at once (A-01; deprecated, for mode Actionplan only). Answer: `ActionsAnswer`."""

    stage: ClassVar[PromptStage] = "plan_actions"
    max_steps: int  # at most so many actions
    place: str  # round{r}_task{t}: what the labels of the results begin with
    first_action: int  # the number that the first action of the plan has in its label


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionPrompt(TaskPrompt):
    """Stage 1: select one action, without parameters (P-01). Answer: `SelectionAnswer`."""

    stage: ClassVar[PromptStage] = "select"
    hint: str | None
    steps_left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ParametersPrompt(Prompt):
    """Stage 2: business parameters only, nothing else is shown (P-03). Answer: `ParametersAnswer`."""

    stage: ClassVar[PromptStage] = "parameterize"
    action_objective: str
    selected_action: str
    parameters_context: str
    fields: tuple[SchemaField, ...]
    refusal: str | None

    def shown(self) -> dict[str, Any]:
        values = Prompt.shown(self)
        if self.share > 1:
            values["action_objective"] = cut(self.action_objective, 4_000 // self.share)
            values["parameters_context"] = cut(self.parameters_context, 8_000 // self.share)
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class RefinementPrompt(Prompt):
    """Continue or stop (P-06). Answer: `RefinementAnswer`."""

    stage: ClassVar[PromptStage] = "refine"
    language: str | None = None
    objective: str
    attempt: int = 1
    progress: tuple[CriterionProgress, ...]
    selected_action: str
    observation: Observation
    findings: tuple[str, ...]  # what the observation says in sentences
    steps_left: int
    refusal: str | None = None
    all_unreadable: bool = False
    """Whether nothing can be read of any document that was handed over."""

    def shown(self) -> dict[str, Any]:
        values = Prompt.shown(self)
        if self.share > 1:
            values["observation"] = self._shorter_observation()
            findings = _first(self.findings, self.share)
            left_out = len(self.findings) - len(findings)
            said = (f"({left_out} more of the notes are left out.)",) if left_out else ()
            values["findings"] = (*(cut(each, LONGEST // self.share) for each in findings), *said)
        return values

    def _shorter_observation(self) -> Observation:
        """The observation with fewer documents and addresses, and less of how each document begins."""
        previews = [
            preview.model_copy(update={"snippet": cut(preview.snippet, 2_000 // self.share)})
            for preview in _first(self.observation.previews, self.share)
        ]
        links = _first(self.observation.links, self.share)
        return self.observation.model_copy(update={"previews": tuple(previews), "links": links})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewPrompt(Prompt):
    """Judge a task against its criteria (L-07). Answer: `ReviewAnswer`."""

    stage: ClassVar[PromptStage] = "review"
    language: str | None = None
    objective: str
    attempt: int = 1
    progress: tuple[CriterionProgress, ...]
    history: tuple[ChatMessage, ...]  # the steps of this task, newest first
    last_observation: Observation | None
    stopped_because: str  # a sentence
    stop_code: Code | None  # the same as a code
    retries_left: int
    refusal: str | None = None
    all_unreadable: bool = False
    """Whether nothing can be read of any document that was handed over."""


@dataclass(frozen=True, slots=True)
class SourceText:
    """A document's text, as `ai.process` shows it: markdown with a heading for every page or section."""

    reference: str
    name: str
    text: str
    number: int | None = None
    """What an answer cites it by, as `[n]`: a page of the web has one, other documents have none."""
    page: WebPage | None = None
    """The page of the web whose text it is."""
    cites: tuple[int, ...] = ()
    """The numbers that its own `[n]` have, where a model wrote it from pages of the web: those of the prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessPrompt(Prompt):
    """Answer a question from texts, or write from them (C-04). Answer: text in the asked format."""

    stage: ClassVar[PromptStage] = "process"
    if_too_long: ClassVar[str] = "Hand over fewer or shorter documents, or use a model that takes more."
    ai_prompt: str
    request: str = ""
    custom_instructions: str
    language: str | None
    output_format: OutputFormat
    form: str = ""  # more on the format
    documents: tuple[SourceText, ...]
    extent: Extent = "whole"
    part: int = 0
    """The number of the part, counted from 1."""
    parts: int = 0
    problem: str = ""
    """What was wrong with the output that came before; empty where none did."""
    refused: str = ""
    """How that output began."""

    def repeated(self, *, problem: str, refused: str) -> Self:
        """The same prompt once more, with what was wrong with the output to it."""
        return replace(self, problem=problem, refused=refused)


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What a task came to: its last summary, and the text it wrote for the user, if any."""

    objective: str
    status: str  # success | failed
    summary: str
    text: str
    failures: tuple[str, ...] = ()  # the steps that failed, in whichever attempt, and why
    reviews: tuple[str, ...] = ()  # what the reviews of its attempts said, the last one first
    only_read: bool = False  # whether the text is what the task read, and nothing that was written for the user


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePrompt(Prompt):
    """The final message to the user (L-08). Answer: a short text in markdown."""

    stage: ClassVar[PromptStage] = "message"
    user_prompt: str
    language: str | None
    results: tuple[TaskResult, ...]
    documents: tuple[str, ...]  # the names of the documents that were written

    def shown(self) -> dict[str, Any]:
        values = Prompt.shown(self)
        if self.share > 1:
            values["results"] = [replace(each, text=cut(each.text, 6_000 // self.share)) for each in self.results]
        return values


def _first(things: tuple[Thing, ...], share: int) -> tuple[Thing, ...]:
    """The first of the things: half of them, or a quarter, but not none."""
    return things[: -(-len(things) // share)]
