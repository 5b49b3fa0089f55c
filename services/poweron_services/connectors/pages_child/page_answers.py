"""What is said of a page: by whoever wants it read, and by the process that has read it."""

from dataclasses import dataclass
from typing import Literal

Depth = Literal["basic", "advanced"]
TextFormat = Literal["markdown", "text"]
Obstacle = Literal["javascript", "login", "consent"]


@dataclass(frozen=True, slots=True)
class Question:
    """How a page is to be read; its bytes come beside this."""

    url: str
    """The address that answered: links are relative to it."""
    charset: str
    """What the server says the bytes are; empty where it does not say."""
    depth: Depth
    text_format: TextFormat


@dataclass(frozen=True, slots=True)
class Link:
    url: str
    text: str


@dataclass(frozen=True, slots=True)
class Page:
    """The fields are those of `poweron_services.connectors.page_text.PageText`."""

    text: str
    title: str
    author: str
    published: str | None
    language: str | None
    canonical_url: str | None
    links: tuple[Link, ...]
    truncated: bool
    notes: tuple[str, ...]
    obstacle: Obstacle | None
