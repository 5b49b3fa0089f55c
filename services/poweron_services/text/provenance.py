"""The mark in files that a model wrote: the workflow, the document, the SHA-256 of the sources, the kind of origin.

The kind is a term of the IPTC's vocabulary of digital source types. Markdown has the mark in a comment at its end,
which no renderer shows, HTML in `<meta>` elements; later steps and pages read a text without it.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Final

TRAINED: Final = "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"
"""A model wrote all of it."""
COMPOSITE: Final = "http://cv.iptc.org/newscodes/digitalsourcetype/compositeWithTrainedAlgorithmicMedia"
"""A model wrote a part of it; other parts are copied from documents."""
KIND: Final = "DigitalSourceType"
WORKFLOW: Final = "PowerOnWorkflowId"
DOCUMENT: Final = "PowerOnDocumentId"
SOURCE: Final = "PowerOnSource"
LEFT_OUT: Final = "PowerOnSourcesLeftOut"

_FENCE: Final = re.compile(r"^ {0,3}(?P<fence>`{3,}|~{3,})(?P<rest>.*)$", re.MULTILINE)
_COMMENT: Final = re.compile(r"\n<!-- PowerOn provenance: (?P<mark>\{[^\n]*\}) -->\n\Z")
_META: Final = re.compile(rf'^<meta name="(?:{KIND}|PowerOn[A-Za-z]+)" content="[^"\n]*">\n', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SourceDigest:
    """A document on which a file rests."""

    document_id: str
    sha256: str

    def __str__(self) -> str:
        return f"{self.document_id} sha256:{self.sha256}"


@dataclass(frozen=True, slots=True)
class Provenance:
    """The mark of one file."""

    workflow_id: str
    step: str
    """How the ids of the step's documents begin, such as `r1t1a2`."""
    number: int = 1
    """The number of the file among the documents of the step."""
    is_composite: bool = False
    sources: tuple[SourceDigest, ...] = ()
    sources_left_out: int = 0
    """How many further documents there are."""

    @property
    def document_id(self) -> str:
        return document_id(self.step, self.number)

    @property
    def kind(self) -> str:
        """The digital source type, as a URI."""
        return COMPOSITE if self.is_composite else TRAINED

    def properties(self) -> Iterator[tuple[str, str]]:
        """Yield the mark as names and values; the name of a source repeats."""
        yield KIND, self.kind
        yield WORKFLOW, self.workflow_id
        yield DOCUMENT, self.document_id
        for source in self.sources:
            yield SOURCE, str(source)
        if self.sources_left_out:
            yield LEFT_OUT, str(self.sources_left_out)

    def unique_properties(self) -> Iterator[tuple[str, str]]:
        """Yield the mark for formats in which each name occurs once: the sources are numbered."""
        count = 0
        for name, value in self.properties():
            count += name == SOURCE
            yield (f"{name}{count}" if name == SOURCE else name), value


def document_id(step: str, number: int) -> str:
    """Return the id of a step's document."""
    return f"{step}d{number}"


def marked_markdown(text: str, provenance: Provenance | None) -> str:
    """Return markdown with the mark in a comment at its end; an open code block is closed first."""
    if provenance is None:
        return text
    mark: dict[str, object] = {
        "digitalSourceType": provenance.kind,
        "workflowId": provenance.workflow_id,
        "documentId": provenance.document_id,
        "sources": [{"documentId": source.document_id, "sha256": source.sha256} for source in provenance.sources],
    }
    if provenance.sources_left_out:
        mark["sourcesLeftOut"] = provenance.sources_left_out
    line = json.dumps(mark, separators=(",", ":")).replace("--", "-\\u002d")  # `--` could end a comment
    body = text if text.endswith("\n") or not text else f"{text}\n"
    fence = _open_fence(body)
    closed = f"{body}{fence}\n" if fence else body
    return f"{closed}\n<!-- PowerOn provenance: {line} -->\n"


def marked_page(page: str, provenance: Provenance | None) -> str:
    """Return an HTML page with the mark in its head."""
    return page if provenance is None else page.replace("</head>", f"{meta_elements(provenance)}</head>", 1)


def meta_elements(provenance: Provenance) -> str:
    """Return the mark as `<meta>` elements, each on a line."""
    return "".join(f'<meta name="{name}" content="{escape(value)}">\n' for name, value in provenance.properties())


def without_mark(text: str) -> str:
    """Return markdown or HTML without its mark; any other text is unchanged."""
    if text.startswith("<!doctype html>"):
        head, end, rest = text.partition("</head>")
        return f"{_META.sub('', head)}{end}{rest}"
    return _COMMENT.sub("", text) if text.endswith(" -->\n") else text


def _open_fence(text: str) -> str:
    """Return the fence that closes the open code block at the end of markdown; empty if there is none."""
    fence = ""
    for match in _FENCE.finditer(text):
        if not fence:
            is_code = match["fence"].startswith("`") and "`" in match["rest"]  # code within a line
            fence = "" if is_code else match["fence"]
        elif match["fence"].startswith(fence) and not match["rest"].strip():
            fence = ""
    return fence
