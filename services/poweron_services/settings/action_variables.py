"""The settings of the actions that tasks may use (X-01): `POWERON_ALLOW_…` and `POWERON_DENY` in the environment."""

from collections.abc import Collection
from typing import Final, get_args

from pydantic import field_validator
from pydantic_settings import BaseSettings

from poweron_events.request import MAX_PATTERNS, TaskType
from poweron_services.settings.setting_lists import action_patterns, listed

OURS: Final = "ai.*,document.*,web.*"
"""PowerOn's own actions; any others run only if a setting names them."""


class ActionVariables(BaseSettings):
    """The actions that tasks may use, as patterns separated by commas: `web.*`, `ai.process`, or `*` for all."""

    allow_lookup: str = OURS
    """The most that tasks of this type may use, even if a request allows more; the next fields work the same way."""
    allow_analysis: str = OURS
    allow_report: str = OURS
    allow_transform: str = "ai.*,document.*,web.crawl,web.scrape"
    deny: str = ""
    """Actions that no task may use, even if other settings or a request allow them."""

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
        """The actions that each type of task may use."""
        kinds: tuple[TaskType, ...] = get_args(TaskType)
        return {kind: listed(getattr(self, f"allow_{kind}")) for kind in kinds}

    def allowed_with(self, methods: Collection[str]) -> dict[TaskType, tuple[str, ...]]:
        """Return what each type of task may use if tool servers with these methods are configured.

        A list that was set explicitly stays as it is; the others also allow the tools of these servers.
        """
        patterns_of_servers = tuple(f"{method}.*" for method in methods)
        return {
            kind: patterns if f"allow_{kind}" in self.model_fields_set else (*patterns, *patterns_of_servers)
            for kind, patterns in self.allowed_patterns.items()
        }

    @property
    def denied_patterns(self) -> tuple[str, ...]:
        return listed(self.deny)
