"""The base of all events: an event is a frozen, closed record of something that happened.

Python names are snake_case, wire names are camelCase. Writers are closed: an unknown field is an
error. Readers are open: `codec` ignores unknown fields when it reads, so that a newer writer's
additions do not stop an older reader.
"""

import base64
import binascii
import operator
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    EncodedBytes,
    Field,
    JsonValue,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic.alias_generators import to_camel

from poweron_events.codes import Code

PREFIX = "poweron."

CATALOGUE = 4
"""The number of this release's set of event types; it grows with every type or field that is added."""

FREE_TEXT: Final = {"freeText": True}
"""The mark in the schema of fields that may hold such text."""
FreeText = Annotated[str, Field(json_schema_extra=FREE_TEXT)]
"""Text that a person or a model wrote; the mark lets a tool find it, for example to erase it."""

ActionName = Annotated[str, Field(pattern=r"^[a-z][A-Za-z0-9_-]*\.[A-Za-z][A-Za-z0-9_-]*$", max_length=100)]
"""`method.name`, an open set on the wire: actions may come from outside this package."""

ACTION_PATTERN: Final = r"^(\*|[A-Za-z][A-Za-z0-9_-]*(\.(\*|[A-Za-z][A-Za-z0-9_-]*))?)$"
ActionPattern = Annotated[str, Field(max_length=100, pattern=ACTION_PATTERN)]
"""`method.name`, `method.*` or `method`, and `*` for every action."""


def matches(action: str, patterns: Collection[str]) -> bool:
    """Return whether `method`, `method.*`, `method.name` or `*` among the patterns matches the action."""
    if not patterns:
        return False
    method = action.partition(".")[0]
    return not {action, method, f"{method}.*", "*"}.isdisjoint(patterns)


TaskType = Literal["lookup", "analysis", "report", "transform"]

Url = Annotated[str, Field(pattern=r"^https?://[!-~]+$", max_length=2_048, json_schema_extra=FREE_TEXT)]
"""A web address in ASCII, as a browser would write it."""

UtcTime = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
"""A UTC time, to the second."""

MAX_SOURCES: Final = 100  # of one document

Commitment = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""HMAC-SHA256(workflow key, bytes) in lower-case hex: the name of content in the content store."""

# Every number has an upper bound: sums over a whole workflow still fit 64 bits, in JSON and in Postgres.
Number = Annotated[int, Field(ge=1, le=2**31 - 1)]
Milliseconds = Annotated[int, Field(ge=0, le=10**15)]
NANO: Final = 10**9  # nano-USD of a US dollar
MAX_NANO_USD: Final = 10_000 * NANO
NanoUsd = Annotated[int, Field(ge=0, le=MAX_NANO_USD)]
MAX_TOKENS: Final = 2**31 - 1
Tokens = Annotated[int, Field(ge=0, le=MAX_TOKENS)]
Count = Annotated[int, Field(ge=0, le=2**53 - 1)]


is_empty: Final = operator.not_
"""Whether a field is empty; an empty field that was added after its event's release is not written."""


def is_none(value: object) -> bool:
    """Return whether a field is not written: readers of older releases do not know it."""
    return value is None


TokensIfAny = Annotated[Tokens, Field(exclude_if=is_empty)]
"""A token count that is written only if it is not zero: events from before the count existed keep their bytes."""

Role = Literal["intake", "planner", "selector", "parameterizer", "executor", "observer", "refiner", "reviewer"]


MAX_DEPTH = 32
MAX_CALLS = 200  # model calls that one event lists
MAX_KINDS = 30  # kinds of failed calls that one event lists


_NESTED: Final = (dict, list)


def _shallow(values: dict[str, JsonValue]) -> dict[str, JsonValue]:
    nested: list[JsonValue] = [values]
    for _ in range(MAX_DEPTH):
        nested = [inner for outer in nested for inner in _inside(outer) if isinstance(inner, _NESTED)]
        if not nested:
            return values
    raise ValueError(f"the values may be nested {MAX_DEPTH} deep")


def _inside(value: JsonValue) -> Iterable[JsonValue]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


JsonValues = Annotated[dict[str, JsonValue], AfterValidator(_shallow), Field(json_schema_extra=FREE_TEXT)]
"""Any JSON values by name, nested at most `MAX_DEPTH` deep, which every JSON reader can follow."""


SHA256_PATTERN: Final = r"^[0-9a-f]{64}$"
Sha256 = Annotated[str, Field(pattern=SHA256_PATTERN)]


READING: Final[Mapping[str, bool]] = {"reading": True}
"""The validation context for data from the log or the rows: readers also accept what writers no longer write."""

MAX_DOCUMENT_ID: Final = 64  # characters
_DOCUMENT_ID: Final = re.compile("[A-Za-z0-9][A-Za-z0-9._-]*")


def _as_written(value: Any, check: ValidatorFunctionWrapHandler, info: ValidationInfo) -> str:
    """Accept any id of a valid length when reading, as releases before 0.3 did."""
    if info.context is READING and isinstance(value, str) and 0 < len(value) <= MAX_DOCUMENT_ID:
        return value
    checked: str = check(value)
    return checked


DocumentId = Annotated[
    str, Field(pattern=f"^{_DOCUMENT_ID.pattern}$", max_length=MAX_DOCUMENT_ID), WrapValidator(_as_written)
]
"""A document's id within its workflow, which becomes a part of a file name (X-03)."""


class _StrictBase64:
    """Base64 (RFC 4648), possibly with white space; any other character is an error, whereas pydantic skips it."""

    @classmethod
    def decode(cls, data: bytes) -> bytes:
        try:
            return base64.b64decode(data.translate(None, b" \t\r\n"), validate=True)
        except binascii.Error as error:
            raise ValueError(f"not base64: {error}") from error

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return base64.b64encode(value)

    @classmethod
    def get_json_format(cls) -> str:
        return "base64"


Base64 = Annotated[bytes, EncodedBytes(encoder=_StrictBase64)]
"""Bytes that travel as base64 text; a model is constructed from the base64."""


class Model(BaseModel):
    """The base of everything on the wire."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True
    )


class Event(Model):
    """Something that happened. Its wire type is its class name in words: `poweron.action.selected.v1`."""

    TYPE: ClassVar[str]
    VERSION: ClassVar[int] = 1

    @classmethod
    def __pydantic_init_subclass__(cls, **_: object) -> None:
        words = re.findall(r"[A-Z][a-z]*", cls.__name__)
        cls.TYPE = f"{PREFIX}{'.'.join(words).lower()}.v{cls.VERSION}"


class RoundEvent(Event):
    """An event of one round: one round per message of the user, counted from 1."""

    round: Number


class StageEvent(RoundEvent):
    """An event of any stage; a task, attempt or step that the workflow has not reached yet is 0."""

    task: Count
    attempt: Count
    step: Count


class TaskEvent(RoundEvent):
    """An event of one attempt at one task of a round, both counted from 1."""

    task: Number
    attempt: Number


class StepEvent(TaskEvent):
    """An event of one step of an attempt: one iteration of the loop, one action. Counted from 1."""

    step: Number


class TryEvent(StepEvent):
    """An event that may occur more than once for the same step, distinguished by its try."""

    try_: Number = Field(alias="try")


RECORDED: Final = "recorded"
"""The provider of an answer that a fork took over, and the claim of an action that a fork does not run."""


Reservations = Annotated[tuple[Number, ...], Field(exclude_if=is_empty)]
"""Numbers of `CallReserved` in the same round; not written if no budget applied."""


class ModelCall(Model):
    """One answer of a language model: what it used, and where its prompt and raw answer are stored.

    Input tokens include cached tokens, output tokens include reasoning tokens: nothing counts twice.
    """

    provider: str
    model: str
    template: str
    template_sha256: str
    prompt_ref: Commitment | None = None
    answer_ref: Commitment | None = None
    input_tokens: Tokens = 0
    output_tokens: Tokens = 0
    cached_input_tokens: TokensIfAny = 0
    reasoning_tokens: TokensIfAny = 0
    cost_nano_usd: NanoUsd = 0
    duration_ms: Milliseconds = 0
    tries: Number = 1
    normalised: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    """The fields of the answer that were not written exactly, but can be read in only one way."""
    repaired: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    """How the answer was repaired before it was read, such as `object_in_list`; a repair never changes its meaning."""
    next_model: str | None = Field(default=None, min_length=1, exclude_if=is_empty)
    """The model to ask next if two answers of this one are rejected; None if none is configured."""
    finish_reason: Code | None = Field(default=None, exclude_if=is_empty)
    """Why the model stopped writing, such as `length`; None if its provider does not say."""
    usage_estimated: bool = Field(default=False, exclude_if=is_empty)
    """Whether tokens and cost are an estimate, never too low, because the provider reported no plausible ones."""
    reservations: Reservations = ()
    """The reservations that this call settles."""

    @property
    def is_taken_over(self) -> bool:
        """Whether a fork took the answer over, so that no model was asked."""
        return self.provider == RECORDED


class FailedCalls(Model):
    """Calls of a language model that failed for the same reason, and what they used together."""

    code: Code
    count: Number
    input_tokens: Tokens = 0
    output_tokens: Tokens = 0
    cost_nano_usd: NanoUsd = 0
    duration_ms: Milliseconds = 0
    usage_estimated: bool = Field(default=False, exclude_if=is_empty)
    """Whether tokens and cost are an estimate, never too low, because the provider reported no plausible ones."""
    reservations: Reservations = ()
    """The reservations that these calls settle."""


AnyCall = ModelCall | FailedCalls
"""A call that counts towards totals and budgets, whether it succeeded or failed."""

FailedCallsByCode = Annotated[tuple[FailedCalls, ...], Field(max_length=MAX_KINDS, exclude_if=is_empty)]
"""The calls that failed before an event, one entry for each code; not written if none failed."""


class WebPage(Model):
    """A web page as it was read: these bytes, at this time."""

    url: Url
    """Its final address, after all redirects."""
    title: FreeText = Field(default="", max_length=300)
    fetched_at: UtcTime
    sha256: Sha256
    """Of the fetched bytes, decompressed."""
    content: Commitment
    """The name of those bytes in the content store."""


class CitedSource(Model):
    """The source of a citation `[n]` in a document that a model wrote."""

    n: Number
    page: WebPage
    text: Commitment
    """The text of the page that the model was shown; quotes are checked against it."""


class DocumentRef(Model):
    """A reference to a document in the content store; events never contain its bytes."""

    document_id: DocumentId
    document_name: FreeText = Field(min_length=1, max_length=255)
    mime_type: FreeText = Field(max_length=255)
    size: Count
    content: Commitment
    page: WebPage | None = Field(default=None, exclude_if=is_empty)
    """The web page whose text it is; None if it is from elsewhere."""
    sources: tuple[CitedSource, ...] = Field(default=(), max_length=MAX_SOURCES, exclude_if=is_empty)
    """What its `[n]` mean, if a model wrote it from web pages."""
    by_model: bool = Field(default=False, exclude_if=is_empty)
    """Whether a model may have written it, or the text it was taken from: an address in it may be made up."""

    @property
    def is_named_safely(self) -> bool:
        """Whether the id can become a part of a file name; the id in a forged event may be a path."""
        return _DOCUMENT_ID.fullmatch(self.document_id) is not None


class UnreadDocument(Model):
    """A document that was not read completely. The reason is a sentence that begins with its name."""

    document_name: FreeText = Field(min_length=1, max_length=255)
    code: Code
    reason: FreeText = Field(max_length=1_000)
    content: Commitment | None = None


class CriterionProgress(Model):
    """The progress on one success criterion of the task, in thousandths."""

    criterion: FreeText
    met: bool
    progress: int = Field(default=0, ge=0, le=1000)
