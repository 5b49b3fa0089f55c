"""The settings of the actions: which of them tasks may use (X-01), the search engine, and the web.

They are `POWERON_ALLOW_…`, `POWERON_DENY`, `POWERON_SEARCH` and `POWERON_WEB_…` in the environment; keys of search
engines are in the engines' own variables.
"""

import re
from collections.abc import Collection
from typing import Final, get_args
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from poweron_events.event import TaskType
from poweron_events.request import MAX_PATTERNS
from poweron_services.settings.secret_settings import SecretSettings
from poweron_services.settings.setting_types import MAX_PORT, action_patterns, listed

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


class SearchVariables(BaseSettings):
    """The search engine to use."""

    search: str | None = None
    """`searxng:URL`, `tavily`, `brave` or `folder:PATH`; unset: the web is not searched."""

    @field_validator("search")
    @classmethod
    def _is_a_search_engine(cls, search: str | None) -> str | None:
        if search is not None and not _is_an_engine(search):  # not shown: an address may hold a password
            raise ValueError(
                "that is no search engine; write `tavily`, `brave`, `folder:PATH`, or `searxng:URL` with an address "
                "such as `http://localhost:8080`, without name, password and question"
            )
        return search


class SearchKeys(SecretSettings):
    """The credentials and addresses of search engines, in their usual variables."""

    model_config = SettingsConfigDict(env_ignore_empty=True, frozen=True, extra="ignore", str_strip_whitespace=True)

    tavily_api_key: SecretStr | None = None
    tavily_base_url: str = "https://api.tavily.com"
    brave_api_key: SecretStr | None = None
    brave_base_url: str = "https://api.search.brave.com"


def _is_an_engine(search: str) -> bool:
    engine, _, place = search.partition(":")
    if engine == "searxng":
        return _is_a_place(place)
    return search in {"tavily", "brave"} or (engine == "folder" and bool(place.strip()))


def _is_a_place(url: str) -> bool:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0 and url.isprintable()
    except ValueError:
        return False
    return usable and parts.username is None and parts.password is None and not parts.query and not parts.fragment


HOST: Final = re.compile(r"([\w*.-]{1,253}|\[[0-9A-Fa-f:.]+\])")
HOST_AND_PORT: Final = re.compile(rf"(?=[^:]*\w|\[){HOST.pattern}(:[1-9][0-9]{{0,4}})?")
CONTACT: Final = re.compile(r"[!-'*-~]{0,200}")  # characters allowed in parentheses in a header


class WebVariables(BaseSettings):
    """Which web hosts may be accessed, and how much is read from them."""

    web_allow: str = ""
    """Hosts that may be accessed, separated by commas: `example.com`, `*.example.com`; unset: every public host."""
    web_deny: str = ""
    """Hosts that may not be accessed, regardless of the other settings."""
    web_private_hosts: str = ""
    """Hosts that may be accessed although their IP addresses are not public: `wiki.internal`, `127.0.0.1:8080`."""
    web_ports: str = ""
    """Ports that may be accessed in addition to 80 and 443, separated by commas."""
    web_max_bytes: int = Field(default=10_000_000, ge=10_000, le=100_000_000)
    """The most bytes to read of one page, decompressed."""
    web_timeout: float = Field(default=30, gt=0, le=600)
    """Seconds in which a page must be answered, including all redirects."""
    web_max_pages: int = Field(default=50, ge=1, le=1_000)
    """The most pages that one action fetches."""
    web_pause: float = Field(default=0.25, ge=0, le=10)
    """Seconds between two requests to one host, after the first four; none for hosts in `web_private_hosts`."""
    web_enrich: bool = False
    """Whether a model assesses the pages that an action has read: their order, key points and entities."""
    web_contact: str = ""
    """A URL or an e-mail address for the operators of the servers accessed; it is part of the User-Agent."""

    @field_validator("web_allow", "web_deny")
    @classmethod
    def _are_hosts(cls, hosts: str) -> str:
        return _hosts(hosts, HOST, "`example.com`, or `*.example.com` for all below it")

    @field_validator("web_private_hosts")
    @classmethod
    def _are_hosts_with_ports(cls, hosts: str) -> str:
        return _hosts(hosts, HOST_AND_PORT, "`wiki.internal`, or `127.0.0.1:8080` for one port of it")

    @field_validator("web_ports")
    @classmethod
    def _are_ports(cls, ports: str) -> str:
        for port in listed(ports):
            if not (port.isascii() and port.isdecimal() and 0 < int(port[:6]) <= MAX_PORT):
                raise ValueError(f"{port!r} is no port; write numbers from 1 to {MAX_PORT}, such as `8080,8443`")
        return ports

    @field_validator("web_contact")
    @classmethod
    def _is_a_contact(cls, contact: str) -> str:
        if not CONTACT.fullmatch(contact):
            raise ValueError("that is no URL or e-mail address; write `https://example.com/bot` or `web@example.com`")
        return contact

    @property
    def web_more_ports(self) -> frozenset[int]:
        return frozenset(map(int, listed(self.web_ports)))


def _hosts(hosts: str, pattern: re.Pattern[str], form: str) -> str:
    """Return a list of hosts unchanged; refuse it if one does not have the form."""
    for host in listed(hosts):
        if not pattern.fullmatch(host):
            raise ValueError(f"{host!r} is no host; write {form}")
    return hosts
