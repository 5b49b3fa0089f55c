"""The markdown of an extracted document, taken apart again: nothing of a document may be lost or made up in it."""

import re

from poweron_services.connectors.document_reader import ExtractedDocument, Section
from poweron_services.connectors.documents_child.document import NOTES

_ESCAPED = re.compile(r"^\\(\\*#{1,2}(?: |$))", re.MULTILINE)
_HEADING = re.compile(r"^##(?: (.*))?$", re.MULTILINE)
_HEAD = re.compile(r"\A# ?(?P<name>.*)\n\n<!-- (?P<mime>\S*)(?P<truncated> truncated)? -->\n?")


def parse_markdown(text: str) -> ExtractedDocument:
    """The document whose `markdown()` this is; any other markdown is one section without a locator."""
    head = _HEAD.match(text)
    if head is None:
        return ExtractedDocument("", "text/markdown", (Section("", text.strip("\n")),), truncated=False, notes=())
    sections, notes = _parts(text[head.end() :])
    return ExtractedDocument(head["name"], head["mime"], sections, truncated=head["truncated"] is not None, notes=notes)


def _parts(body: str) -> tuple[tuple[Section, ...], tuple[str, ...]]:
    first, *rest = _HEADING.split(body)
    sections = [Section("", _unescaped(first))] if first.strip("\n") else []
    notes: tuple[str, ...] = ()
    for locator, content in zip(rest[::2], rest[1::2], strict=True):
        if locator == NOTES:
            notes = tuple(line.removeprefix("- ") for line in content.strip("\n").split("\n"))
        else:
            sections.append(Section(locator or "", _unescaped(content)))
    return tuple(sections), notes


def _unescaped(content: str) -> str:
    return _ESCAPED.sub(r"\1", content.strip("\n"))
