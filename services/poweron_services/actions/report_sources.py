"""The sources of a report: web pages under their numbers, then documents with the places that were read."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from poweron_events.event import CitedSource
from poweron_services.connectors.report_renderer import Part
from poweron_services.decider.citations import renumbered
from poweron_services.decider.source_list import document_sources, place_in, source_list, without_document_sources

MOST_PLACES: Final = 4  # places of a document that are named one by one
MOST_NAMED: Final = 200  # documents

_EXTRACTED: Final = re.compile(r"\A# ?(?P<name>[^\n]*)\n\s*<!-- [^\n]* -->\n?")
_PLACE: Final = re.compile(r"^## ((?:page|sheet|slide) [^\n]+)$", re.MULTILINE)


def is_extracted(text: str) -> bool:
    """Return whether `document.extract` wrote the text, or it looks like it."""
    return _EXTRACTED.match(text) is not None


def with_sources(
    parts: Sequence[Part], pages: Sequence[CitedSource], language: str
) -> tuple[tuple[Part, ...], str, int]:
    """Return the parts without their own lists of sources, one list of all sources, and their number.

    If no web page is among them, the `[n]` by which parts cite documents are renumbered throughout.
    """
    named: dict[str, int] = {}
    kept = tuple(parts) if pages else tuple(_lifted(part, named) for part in parts)
    said = list(named)
    for part in parts:
        if part.kind == "extracted" and (line := _document(part.text, language)) and not _is_named(line, said):
            said.append(line)
    lines = said[:MOST_NAMED]
    told = document_sources(lines, language, first=len(pages) + 1, heading=not pages)
    listed = source_list(pages, language) if pages else ""
    return kept, "\n".join(text for text in (listed, told) if text), len(pages) + len(lines)


def _lifted(part: Part, named: dict[str, int]) -> Part:
    """Return the part without its list of documents, and with the numbers of the report."""
    if part.kind != "written":
        return part
    text, own = without_document_sources(part.text)
    if not own:
        return part
    numbers: Mapping[int, int] = {n: named.setdefault(line, len(named) + 1) for n, line in own.items()}
    return replace(part, text=text if numbers == {n: n for n in own} else renumbered(text, numbers))


def _document(text: str, language: str) -> str:
    """Return the name of an extracted document and the places in it."""
    head = _EXTRACTED.match(text)
    if head is None:
        return ""
    places = [place_in(place, language) for place in _PLACE.findall(text)]
    shown = places if len(places) <= MOST_PLACES else [places[0], "…", places[-1]]
    return ", ".join([head["name"].strip(), *shown])


def _is_named(line: str, said: Iterable[str]) -> bool:
    name = line.partition(", ")[0]
    return any(other == line or other.partition(", ")[0] == name for other in said)
