"""A server's description of one of its tools, as it is stored, compared and approved.

It comes from an untrusted server, so it is relied on only as far as this module says.
"""

from collections.abc import Iterator
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from poweron_events.codec import dumps, sha256
from poweron_events.execution import EffectClass

PARTS: Final[dict[str, str]] = {
    "description": "its description",
    "inputSchema": "the schema of its parameters",
    "outputSchema": "the schema of its result",
    "annotations": "what it says of its effects",
}
"""The parts that can change, in the words that users see."""


class ToolDescription(BaseModel):
    """Name, description, schemas and annotations; all else is dropped."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore")

    name: str = Field(min_length=1, max_length=200)
    description: str = Field(default="", max_length=100_000)
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _can_be_written(self) -> Self:
        try:
            dumps(self.written)
        except TypeError as error:  # a number is too large, or the nesting too deep
            raise ValueError("what is said of it is no JSON that can be kept") from error
        return self

    @property
    def written(self) -> dict[str, Any]:
        """The whole description, as stored in files."""
        return self.model_dump(by_alias=True)

    @property
    def digest(self) -> str:
        """The SHA-256 of the whole description, which identifies it."""
        return sha256(dumps(self.written))

    @property
    def only_reads(self) -> bool:
        return self.annotations.get("readOnlyHint") is True

    @property
    def effect_class(self) -> EffectClass:
        """How often the tool may run: once, unless its annotations say that repeating it is harmless."""
        if self.only_reads:
            return "pure"
        says = self.annotations
        repeatable = says.get("idempotentHint") is True and says.get("destructiveHint") is False
        return "idempotent" if repeatable else "at_most_once"

    def changes(self, since: "ToolDescription") -> Iterator[str]:
        """The parts that changed since an earlier description, as keys of `PARTS`."""
        before, now = since.written, self.written
        return (part for part in PARTS if before[part] != now[part])


def what_changed(now: ToolDescription | None, before: ToolDescription) -> str:
    """Say what changed since an earlier description, as part of a sentence."""
    if now is None:
        return "the server does not offer it any more"
    said = [PARTS[part] for part in now.changes(before)] or ["its name"]
    return f"{' and '.join([', '.join(said[:-1]), said[-1]] if said[:-1] else said)} changed"
