"""The prompts: an object for each stage, whose rendering is the text of the prompt.

A language model receives the rendering; the built-in model reads the same fields. A prompt's template is a file beside
the role or action that uses it: first the instructions, which never vary, then, below the line `=== data ===`, the
data. In the data, all text by users, documents or models is enclosed in fences; outside of them are only fixed words,
numbers and names from closed sets. The fields hold everything; the rendering is cut to the budgets in the template.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Self, TypeVar

import jinja2

from poweron_events.codes import Code
from poweron_events.event import CriterionProgress, TaskType, WebPage
from poweron_events.fold.history import list_reference
from poweron_events.fold.stage_specs import PromptStage
from poweron_events.fold.state import ChatMessage
from poweron_events.step_events import Observation, SchemaField
from poweron_services.decider.rules import Allowance
from poweron_services.models.template_filters import FILTERS, LONGEST, cut

Thing = TypeVar("Thing")

DATA_LINE = "=== data ===\n"
MOST_HALVED = 4  # times that the budgets of history and indexes are halved for a model with a small window
OutputFormat = Literal["markdown", "text", "html", "json", "csv"]
Extent = Literal["whole", "excerpts", "part", "answers"]
"""The part of the documents that a model is shown: all of them, passages that fit the task, one part of several, or the
answers from the parts."""
NOTHING = "NOTHING"
"""The answer from a part that contains nothing about the question."""

_ENVIRONMENT = jinja2.Environment(
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    autoescape=False,  # noqa: S701 - prompts are plain text
)
_ENVIRONMENT.filters.update(FILTERS)


@dataclass(frozen=True)
class Template:
    """A versioned prompt template; every decision records its name and its hash (P-08)."""

    name: str
    text: str

    @classmethod
    def beside(cls, module: str, name: str) -> "Template":
        """Load the template `name` from the folder of the module whose `__file__` is given."""
        return cls(name, Path(module).with_name(name).read_text(encoding="utf-8"))

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @cached_property
    def _parts(self) -> tuple[str, jinja2.Template]:
        """The instructions, which never vary, and the template for the data."""
        instructions, _, data = self.text.partition(DATA_LINE)
        template = _ENVIRONMENT.from_string(data)
        template.globals = {}  # its prompt has all values; chained mappings would be copied at every call
        return _ENVIRONMENT.from_string(instructions).render(), template

    @property
    def instructions(self) -> str:
        """The text that is the same in every prompt of this template."""
        return self._parts[0]

    def render(self, values: dict[str, Any], fence: str) -> "Rendered":
        instructions, data = self._parts
        return Rendered(instructions, data.render(values, fence=fence))


@dataclass(frozen=True, slots=True)
class Rendered:
    """A prompt as a language model receives it: the instructions, which never vary, then the data."""

    instructions: str
    data: str

    def __str__(self) -> str:
        return f"{self.instructions}\n{self.data}"

    def __bytes__(self) -> bytes:
        return b"%b\n%b" % (_encoded(self.instructions), self.data.encode())


_encoded = lru_cache(str.encode)


def new_fence() -> str:
    """Return a new random delimiter, as `secrets.token_hex` does with four times as many calls."""
    return os.urandom(8).hex()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The base of the prompts of all stages: a template and the fields that it shows, for one call.

    Untrusted text is enclosed in lines with an unpredictable delimiter. The prompts of a workflow share it, so that a
    prompt begins like the previous one and provider caches apply. A model that saw the delimiter and repeats it cannot
    end a block of its next prompt: if the delimiter appears in the data, another one is used.
    """

    stage: ClassVar[PromptStage]
    if_too_long: ClassVar[str] = "Nothing more can be left out of it."
    """The advice if the prompt is too long and cannot be cut."""
    template: Template
    fence: str = field(default_factory=new_fence, compare=False, repr=False)
    allowance: Allowance | None = field(default=None, repr=False)
    """What the budgets leave for the call; None if there are no budgets."""
    answer_schema: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    """The JSON Schema of the answer; None if the answer is text."""
    passed_over: int = field(default=0, compare=False, repr=False)
    """The number of models configured for the stage that could not answer."""
    model: str | None = field(default=None, compare=False, repr=False)
    """The model that must answer; None for the configured one."""
    share: int = 1
    """The divisor of the budgets, for a model that does not accept a prompt this long: the template divides those of
    history and indexes, `shown` those of other texts."""

    def shown(self) -> dict[str, Any]:
        """Return the values that the template shows, by name."""
        return {name: getattr(self, name) for name in _visible_fields(type(self))}  # type: ignore[arg-type] # classes do have a hash

    def render(self, fence: str | None = None) -> Rendered:
        """Render the prompt as text, with its own delimiter or the given one."""
        values = self.shown() | {"share": self.share}
        if fence is not None:
            return self.template.render(values, fence)
        unseen = new_fence()
        rendered = self.template.render(values, unseen)
        if self.fence in rendered.data:
            return rendered
        return Rendered(rendered.instructions, rendered.data.replace(unseen, self.fence))

    def shorter(self) -> Self | None:
        """Return the prompt with less history and shorter indexes, as it then says; None if nothing more can go."""
        length = len(str(self.render()))
        shares = (self.share * 2**power for power in range(1, MOST_HALVED + 1))
        shorter = (replace(self, share=share) for share in shares if share <= 2**MOST_HALVED)
        return next((prompt for prompt in shorter if len(str(prompt.render())) < length), None)


_HIDDEN_FIELDS: Final = frozenset({"template", "fence", "allowance", "answer_schema", "passed_over", "model", "share"})


@cache
def _visible_fields(kind: type[Prompt]) -> tuple[str, ...]:
    return tuple(part.name for part in fields(kind) if part.name not in _HIDDEN_FIELDS)


@dataclass(frozen=True, slots=True)
class DocumentLine:
    """A document in the index of a prompt: no content, only what it is and how to refer to it."""

    reference: str  # docItem:<documentId>:<fileName>
    label: str  # the label of the list it belongs to: docList:<label> names all of them
    name: str
    mime_type: str
    size: int  # bytes

    def __str__(self) -> str:
        return f"{self.reference} ({self.mime_type}, {self.size} bytes, {list_reference(self.label)})"


@dataclass(frozen=True, slots=True)
class ListLine:
    """A list of documents in the index of a prompt: the label that names all of them, and their number."""

    label: str
    count: int

    def __str__(self) -> str:
        return f"{list_reference(self.label)}: {self.count} document{'' if self.count == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class CatalogLine:
    """An action in the tiny catalog: names only (P-07)."""

    name: str
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPrompt(Prompt):
    """The base of prompts that plan tasks or actions: the request, and what is available for it."""

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
    """Split a request into tasks. Answer: `PlanningAnswer`."""

    stage: ClassVar[PromptStage] = "plan"
    actions: tuple[CatalogLine, ...]
    max_steps: int
    refusal: str | None = None  # why the first answer to this prompt was refused


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPrompt(KnownPrompt):
    """The base of prompts that choose actions: the current task, in either mode."""

    objective: str
    attempt: int = 1
    progress: tuple[CriterionProgress, ...]
    task_type: TaskType
    expected_formats: tuple[str, ...]
    catalog: tuple[CatalogLine, ...]
    history: tuple[ChatMessage, ...]  # of this round, newest first
    improvements: tuple[str, ...]
    refusal: str | None  # why the first answer to this prompt was refused, as far as a model may know (S8)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionsPrompt(TaskPrompt):
    """List all actions of a task at once (A-01; deprecated, for mode Actionplan only). Answer: `ActionsAnswer`."""

    stage: ClassVar[PromptStage] = "plan_actions"
    max_steps: int  # the most actions that the plan may have
    place: str  # round{r}_task{t}: the beginning of the labels of the results
    first_action: int  # the number of the plan's first action in its label


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionPrompt(TaskPrompt):
    """Stage 1: select one action, without parameters (P-01). Answer: `SelectionAnswer`."""

    stage: ClassVar[PromptStage] = "select"
    hint: str | None
    steps_left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ParametersPrompt(Prompt):
    """Stage 2: set business parameters only; nothing else is shown (P-03). Answer: `ParametersAnswer`."""

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
    """Decide whether to continue or stop (P-06). Answer: `RefinementAnswer`."""

    stage: ClassVar[PromptStage] = "refine"
    language: str | None = None
    objective: str
    attempt: int = 1
    progress: tuple[CriterionProgress, ...]
    selected_action: str
    observation: Observation
    findings: tuple[str, ...]  # the observation in sentences
    steps_left: int
    refusal: str | None = None
    all_unreadable: bool = False
    """Whether no document that came with a request is readable."""

    def shown(self) -> dict[str, Any]:
        values = Prompt.shown(self)
        if self.share > 1:
            values["observation"] = self._shorter_observation()
            findings = _first(self.findings, self.share)
            left_out = len(self.findings) - len(findings)
            remark = (f"({left_out} more of the notes are left out.)",) if left_out else ()
            values["findings"] = (*(cut(finding, LONGEST // self.share) for finding in findings), *remark)
        return values

    def _shorter_observation(self) -> Observation:
        """Return the observation with fewer documents and links, and shorter previews."""
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
    """Whether no document that came with a request is readable."""


@dataclass(frozen=True, slots=True)
class SourceText:
    """The text of a document, as `ai.process` shows it: markdown with a heading for every page or section."""

    reference: str
    name: str
    text: str
    number: int | None = None
    """The number that an answer cites it by, as `[n]`; only web pages have one."""
    page: WebPage | None = None
    """The web page that the text is from."""
    cites: tuple[int, ...] = ()
    """The numbers of its own `[n]` in this prompt, if a model wrote the text from web pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessPrompt(Prompt):
    """Answer a question from texts, or write from them (C-04). Answer: text in the requested format."""

    stage: ClassVar[PromptStage] = "process"
    if_too_long: ClassVar[str] = "Hand over fewer or shorter documents, or use a model that takes more."
    ai_prompt: str
    request: str = ""
    custom_instructions: str
    language: str | None
    output_format: OutputFormat
    form: str = ""  # details of the format
    documents: tuple[SourceText, ...]
    extent: Extent = "whole"
    part: int = 0
    """The number of the part, counted from 1."""
    parts: int = 0
    problem: str = ""
    """What was wrong with the previous output; empty if there was none."""
    refused: str = ""
    """The beginning of that output."""

    def repeated(self, *, problem: str, refused: str) -> Self:
        """Return the prompt with what was wrong with the previous output."""
        return replace(self, problem=problem, refused=refused)


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of a task: its last summary, and the text that it wrote for the user, if any."""

    objective: str
    status: str  # success | failed
    summary: str
    text: str
    failures: tuple[str, ...] = ()  # the steps that failed, in any attempt, and why
    reviews: tuple[str, ...] = ()  # what the reviews of its attempts said, the last one first
    only_read: bool = False  # whether the text is only what the task read, not written for the user


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
            values["results"] = [replace(result, text=cut(result.text, 6_000 // self.share)) for result in self.results]
        return values


def _first(things: tuple[Thing, ...], share: int) -> tuple[Thing, ...]:
    """Return the first 1/`share` of the things, rounded up."""
    return things[: -(-len(things) // share)]
