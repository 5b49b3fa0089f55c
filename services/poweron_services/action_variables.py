"""The settings of what tasks may use (X-01), as `POWERON_ALLOW_…` and `POWERON_DENY` in the environment."""

from collections.abc import Collection
from typing import Final, get_args

from pydantic import field_validator
from pydantic_settings import BaseSettings

from poweron_events.request import MAX_PATTERNS, TaskType
from poweron_services.setting_lists import action_patterns, listed

OURS: Final = "ai.*,document.*,web.*"
"""The actions of PowerOn itself: what else there is runs once a setting names it."""


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
        count = len(listed(patterns))
        if count > MAX_PATTERNS:
            raise ValueError(f"these are {count} patterns; there may be {MAX_PATTERNS}")
        action_patterns(patterns)
        return patterns

    @property
    def allowed_patterns(self) -> dict[TaskType, tuple[str, ...]]:
        """What each type of task may use."""
        kinds: tuple[TaskType, ...] = get_args(TaskType)
        return {kind: listed(getattr(self, f"allow_{kind}")) for kind in kinds}

    def allowed_with(self, methods: Collection[str]) -> dict[TaskType, tuple[str, ...]]:
        """What each type of task may use, where servers of tools with these methods are named.

        A list that somebody set is as it was set; the others allow what is named.
        """
        named = tuple(f"{method}.*" for method in methods)
        return {
            kind: patterns if f"allow_{kind}" in self.model_fields_set else (*patterns, *named)
            for kind, patterns in self.allowed_patterns.items()
        }

    @property
    def denied_patterns(self) -> tuple[str, ...]:
        return listed(self.deny)
