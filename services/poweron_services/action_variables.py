"""The settings of what tasks may use (X-01), as `POWERON_ALLOW_…` and `POWERON_DENY` in the environment."""

from typing import Final, get_args

from pydantic import TypeAdapter, ValidationError, field_validator
from pydantic_settings import BaseSettings

from poweron_events.request import MAX_PATTERNS, ActionPattern, TaskType

OURS: Final = "ai.*,document.*,web.*"
"""The actions of PowerOn itself: what else there is runs once a setting names it."""
_PATTERN: Final = TypeAdapter[str](ActionPattern)


class ActionVariables(BaseSettings):
    """Which actions tasks may use, as patterns with commas between: `web.*`, `ai.process`, or `*` for all."""

    allow_lookup: str = OURS
    """What tasks of this type may use at most, whatever a request allows; so are the following."""
    allow_analysis: str = OURS
    allow_report: str = OURS
    allow_transform: str = "ai.*,document.*,web.crawl,web.scrape"
    deny: str = ""
    """What no task may use, whatever the other settings or a request allow."""

    @field_validator("allow_lookup", "allow_analysis", "allow_report", "allow_transform", "deny")
    @classmethod
    def _name_actions(cls, patterns: str) -> str:
        listed = _listed(patterns)
        if len(listed) > MAX_PATTERNS:
            raise ValueError(f"these are {len(listed)} patterns; there may be {MAX_PATTERNS}")
        for pattern in listed:
            try:
                _PATTERN.validate_python(pattern)
            except ValidationError as error:  # which actions there are is known only where they are opened
                raise ValueError(f"{pattern!r} is no pattern; write `web.*`, `ai.process`, or `*` for all") from error
        return patterns

    @property
    def allowed_patterns(self) -> dict[TaskType, tuple[str, ...]]:
        """What each type of task may use."""
        kinds: tuple[TaskType, ...] = get_args(TaskType)
        return {kind: _listed(getattr(self, f"allow_{kind}")) for kind in kinds}

    @property
    def denied_patterns(self) -> tuple[str, ...]:
        return _listed(self.deny)


def _listed(patterns: str) -> tuple[str, ...]:
    return tuple(pattern.strip() for pattern in patterns.split(",") if pattern.strip())
