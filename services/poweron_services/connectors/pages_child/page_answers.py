"""The question to the process that reads a page, and its answer."""

from dataclasses import dataclass
from typing import Literal

Depth = Literal["basic", "advanced"]
TextFormat = Literal["markdown", "text"]
Obstacle = Literal["javascript", "login", "consent"]


@dataclass(frozen=True, slots=True)
class PageQuestion:
    """How to read a page; its bytes are sent separately."""

    url: str
    """The address that answered; links are relative to it."""
    charset: str
    """The charset that the server names; empty if it names none."""
    depth: Depth
    text_format: TextFormat


@dataclass(frozen=True, slots=True)
class LinkedPage:
    url: str
    text: str


@dataclass(frozen=True, slots=True)
class Page:
    """The fields are those of `poweron_services.connectors.page_child.PageText`."""

    text: str
    title: str
    author: str
    published: str | None
    language: str | None
    canonical_url: str | None
    links: tuple[LinkedPage, ...]
    truncated: bool
    notes: tuple[str, ...]
    obstacle: Obstacle | None
