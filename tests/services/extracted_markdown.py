"""The markdown of an extracted document, taken apart again: nothing of a document may be lost or made up in it."""

import re

from poweron_services.connectors.document_reader import ExtractedDocument, Section
from poweron_services.connectors.documents_child.document import METADATA, NOTES

_ESCAPED = re.compile(r"^\\(\\*#{1,2}(?: |$))", re.MULTILINE)
_HEADING = re.compile(r"^##(?: (.*))?$", re.MULTILINE)
_HEAD = re.compile(r"\A# ?(?P<name>.*)\n\n<!-- (?P<mime>\S*)(?P<truncated> truncated)? -->\n?")


def parse_markdown(text: str) -> ExtractedDocument:
    """The document whose `markdown()` this is; any other markdown is one section without a locator."""
    head = _HEAD.match(text)
    if head is None:
        return ExtractedDocument("", "text/markdown", (Section("", text.strip("\n")),), truncated=False, notes=())
    sections, notes, metadata = _parts(text[head.end() :])
    truncated = head["truncated"] is not None
    return ExtractedDocument(head["name"], head["mime"], sections, truncated=truncated, notes=notes, metadata=metadata)


def _parts(body: str) -> tuple[tuple[Section, ...], tuple[str, ...], tuple[tuple[str, str], ...]]:
    first, *rest = _HEADING.split(body)
    sections = [Section("", _unescaped(first))] if first.strip("\n") else []
    notes: tuple[str, ...] = ()
    metadata: tuple[str, ...] = ()
    for locator, content in zip(rest[::2], rest[1::2], strict=True):
        if locator == NOTES:
            notes = _listed(content)
        elif locator == METADATA:
            metadata = _listed(content)
        else:
            sections.append(Section(locator or "", _unescaped(content)))
    facts = [line.partition(": ") for line in metadata]
    return tuple(sections), notes, tuple((name, value) for name, _, value in facts)


def _listed(content: str) -> tuple[str, ...]:
    return tuple(line.removeprefix("- ") for line in content.strip("\n").split("\n"))


def _unescaped(content: str) -> str:
    return _ESCAPED.sub(r"\1", content.strip("\n"))
