"""The catalog: the six built-in actions of PowerOn, as data.

On the wire an action's name is an open string; this module defines the names, parameters and effect classes
of the built-in actions. The services implement them.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, TypedDict, Unpack

from pydantic import Field, TypeAdapter, ValidationError

from poweron_events.event import ActionName, FreeText, Model
from poweron_events.json_schema import JsonSchema, UnusableSchema, self_contained
from poweron_events.step_events import EffectClass

REFERENCES: Final = frozenset({"documentList", "connectionReference"})
"""Parameters that are filled from the references of stage 1; stage 2 never asks for them (P-02, P-05)."""

Reference = Annotated[FreeText, Field(pattern=r"^(docList:\w+|docItem:[^:/\\\s]+:[\s\S]+)$", max_length=400)]
"""`docList:<label>` or `docItem:<documentId>:<fileName>`: a name within the workflow, never a path (X-03)."""

_LABEL = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
HostName = Annotated[
    str,
    Field(
        pattern=rf"^({_LABEL}\.)+[a-z][a-z0-9-]{{0,61}}[a-z0-9]$",
        max_length=253,
        json_schema_extra={"format": "hostname"},
    ),
]
"""A host name in lower-case ASCII: no scheme, no port, no path, no IP address."""

LanguageTag = Annotated[str, Field(pattern=r"^[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*$", max_length=35)]
"""A language tag, such as `de` or `pt-BR`."""

MAX_DOMAINS = 50

SearchDepth = Literal["basic", "advanced"]
ExtractDepth = Literal["basic", "advanced"]
PageFormat = Literal["markdown", "text"]
TimeRange = Literal["day", "week", "month", "year"]
ProcessingMode = Literal["basic", "advanced"]
"""How documents that exceed a model's input limit are read: in one call, or in as many as the task needs."""


class WebSearchParameters(Model):
    query: FreeText = Field(min_length=1, max_length=400)
    max_results: int = Field(default=10, ge=1, le=50)
    search_depth: SearchDepth = "basic"
    time_range: TimeRange | None = None
    topic: Literal["general", "news", "finance"] = "general"
    include_domains: tuple[HostName, ...] = Field(default=(), max_length=MAX_DOMAINS)
    exclude_domains: tuple[HostName, ...] = Field(default=(), max_length=MAX_DOMAINS)
    language: LanguageTag | None = None
    include_answer: bool = False
    include_raw_content: bool = False


class WebScrapeParameters(WebSearchParameters):
    extract_depth: ExtractDepth = "basic"
    format: PageFormat = "markdown"


class WebCrawlParameters(Model):
    document_list: tuple[Reference, ...] = Field(min_length=1)
    extract_depth: ExtractDepth = "basic"
    format: PageFormat = "markdown"


class AiProcessParameters(Model):
    document_list: tuple[Reference, ...] = ()
    ai_prompt: FreeText = Field(min_length=1, max_length=20_000)
    processing_mode: ProcessingMode = "advanced"
    include_metadata: bool = True
    custom_instructions: FreeText = Field(default="", max_length=4_000)
    expected_document_formats: tuple[Literal["markdown", "text", "html", "json", "csv"], ...] = ()


class DocumentExtractParameters(Model):
    document_list: tuple[Reference, ...] = Field(min_length=1)
    ai_prompt: FreeText = Field(default="", max_length=20_000)


class DocumentGenerateReportParameters(Model):
    document_list: tuple[Reference, ...] = Field(min_length=1)
    title: FreeText = Field(default="Report", min_length=1, max_length=200)
    expected_document_formats: tuple[Literal["markdown", "html", "docx", "pdf", "xlsx"], ...] = ()


_NAME: Final = TypeAdapter[str](ActionName)


Filled = Literal[
    "search_depth", "extract_depth", "language", "time_range", "demanded_formats", "title", "report_formats"
]
"""How code fills in a parameter from the task (D-01 to D-03)."""


class ActionFacts(TypedDict, total=False):
    """The optional facts about an action, as keyword arguments of `ActionSpec.of`; see the fields of `ActionSpec`."""

    needs_search: bool
    reads: Literal["documents", "web"] | None
    writes: bool
    filled: tuple[Filled, ...]


@dataclass(frozen=True, slots=True)
class ActionSpec:
    """An action's name, parameters, effect class and time limit in ms (C-09).

    A JSON Schema describes the parameters. It is generated from one of our classes (`of`) or comes from a third-party
    server; callers cannot tell one from the other. An unusable name or schema raises `UnusableSchema`.
    """

    name: str
    parameters: JsonSchema = field(hash=False)
    effect_class: EffectClass
    limit_ms: int
    needs_approval: bool = field(default=False, kw_only=True)
    """Whether a person has to approve it, regardless of the settings."""
    needs_search: bool = field(default=False, kw_only=True)
    """Whether it exists only where a search engine is configured."""
    reads: Literal["documents", "web"] | None = field(default=None, kw_only=True)
    """Where the texts of its result come from; None if a model may have written them."""
    writes: bool = field(default=False, kw_only=True)
    """Whether it writes a result of the task."""
    filled: tuple[Filled, ...] = field(default=(), kw_only=True)
    """The parameters that code fills in from the task, and drops if the task does not ask for them."""
    digest: str = field(default="", kw_only=True)
    """For a tool of a third-party server: SHA-256 of the server's description of it."""
    properties: JsonSchema = field(init=False, repr=False, compare=False)
    """The JSON Schema of each parameter."""
    parameter_names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """All parameters by their wire names, as the catalog in a prompt shows them (P-07)."""
    business_parameters: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """The wire names of the parameters that stage 2 may ask for."""
    required: frozenset[str] = field(init=False, repr=False, compare=False)
    """The wire names of the required parameters."""

    def __post_init__(self) -> None:
        try:
            _NAME.validate_python(self.name)
        except ValidationError as error:
            raise UnusableSchema(f"{self.name[:100]!r} is no name of an action: write it `method.name`.") from error
        schema = self_contained(self.parameters)
        names = tuple(schema["properties"])
        derived = {
            "parameters": schema,
            "properties": schema["properties"],
            "parameter_names": names,
            "business_parameters": tuple(name for name in names if name not in REFERENCES),
            "required": frozenset(schema.get("required", ())),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(
        cls, name: str, parameters: type[Model], effect_class: EffectClass, limit_ms: int, **facts: Unpack[ActionFacts]
    ) -> "ActionSpec":
        """Create the spec of an action whose parameters a class describes."""
        return cls(name, parameters.model_json_schema(by_alias=True), effect_class, limit_ms, **facts)

    @property
    def answers(self) -> bool:
        """Whether the action requires a question, which its result then answers."""
        return "aiPrompt" in self.required


CATALOG: Final[dict[str, ActionSpec]] = {
    spec.name: spec
    for spec in (
        ActionSpec.of(
            "web.search",
            WebSearchParameters,
            "pure",
            60_000,
            needs_search=True,
            reads="web",
            filled=("search_depth", "language", "time_range"),
        ),
        ActionSpec.of(
            "web.scrape",
            WebScrapeParameters,
            "pure",
            180_000,
            needs_search=True,
            reads="web",
            filled=("search_depth", "extract_depth", "language", "time_range"),
        ),
        ActionSpec.of("web.crawl", WebCrawlParameters, "pure", 300_000, reads="web", filled=("extract_depth",)),
        ActionSpec.of(
            "ai.process", AiProcessParameters, "idempotent", 1_800_000, writes=True, filled=("demanded_formats",)
        ),
        ActionSpec.of("document.extract", DocumentExtractParameters, "pure", 1_800_000, reads="documents"),
        ActionSpec.of(
            "document.generateReport",
            DocumentGenerateReportParameters,
            "pure",
            120_000,
            writes=True,
            filled=("title", "report_formats"),
        ),
    )
}
WEB: Final = frozenset(spec.name for spec in CATALOG.values() if spec.reads == "web")
READING: Final = frozenset(spec.name for spec in CATALOG.values() if spec.reads is not None)
WRITING: Final = frozenset(spec.name for spec in CATALOG.values() if spec.writes)
NEED_SEARCH: Final = frozenset(spec.name for spec in CATALOG.values() if spec.needs_search)


def meaningless(pattern: str, names: Collection[str]) -> str | None:
    """Return a sentence that says why a pattern matches none of these actions; None if it matches one."""
    methods = {name.partition(".")[0] for name in names}
    if pattern in {"*", *names, *methods, *(f"{method}.*" for method in methods)}:
        return None
    return f"{pattern!r} means no action; there are {', '.join(sorted(names))}, and `*` for all of them"
