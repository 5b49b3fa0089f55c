"""The main text of a page, without menus, footers and comments, and what the page tells of itself: by trafilatura."""

from copy import copy
from dataclasses import dataclass
from typing import Any

import lxml.etree  # type: ignore[import-untyped] # it has no stubs
import trafilatura

from poweron_services.connectors.pages_child.page import Question

EMPHASIS = ("b", "strong", "i", "em", "u")  # its marks would stand between the words that somebody quotes


@dataclass(frozen=True, slots=True)
class MainText:
    text: str = ""
    title: str = ""
    author: str = ""
    published: str | None = None


def main_text(root: Any, question: Question) -> MainText:
    """Of a parsed page, which is left as it is."""
    page = copy(root)
    lxml.etree.strip_tags(page, *EMPHASIS)
    found = trafilatura.bare_extraction(
        page,
        url=question.url,
        fast=True,
        favor_recall=question.depth == "advanced",
        include_comments=False,
        include_tables=True,
        include_formatting=question.text_format == "markdown",
        with_metadata=True,
        date_extraction_params={"original_date": True, "extensive_search": False},
    )
    if found is None or isinstance(found, dict):
        return MainText()
    return MainText(found.text or "", found.title or "", found.author or "", found.date)
