"""The sources of a report: pages of the web under their numbers, then documents with the places that were read."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from poweron_events.event import CitedSource
from poweron_services.connectors.report_renderer import Part
from poweron_services.decider.citations import renumbered
from poweron_services.decider.source_list import document_sources, place_in, source_list, without_document_sources

MOST_PLACES: Final = 4  # of a document that are named one by one
MOST_NAMED: Final = 200  # documents

_EXTRACTED: Final = re.compile(r"\A# ?(?P<name>[^\n]*)\n\s*<!-- [^\n]* -->\n?")
_PLACE: Final = re.compile(r"^## ((?:page|sheet|slide) [^\n]+)$", re.MULTILINE)


def is_extracted(text: str) -> bool:
    """Whether `document.extract` wrote the text, or reads like that."""
    return _EXTRACTED.match(text) is not None


def with_sources(
    parts: Sequence[Part], pages: Sequence[CitedSource], language: str
) -> tuple[tuple[Part, ...], str, int]:
    """The parts without lists of their own, one list of all sources, and how many these are.

    Where no page of the web is among them, what parts say of documents as `[n]` is numbered through.
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
    """The part without its list of documents, whose numbers are those of the report."""
    if part.kind != "written":
        return part
    text, own = without_document_sources(part.text)
    if not own:
        return part
    numbers: Mapping[int, int] = {n: named.setdefault(line, len(named) + 1) for n, line in own.items()}
    return replace(part, text=text if numbers == {n: n for n in own} else renumbered(text, numbers))


def _document(text: str, language: str) -> str:
    """The name of an extracted document and the places in it."""
    head = _EXTRACTED.match(text)
    if head is None:
        return ""
    places = [place_in(place, language) for place in _PLACE.findall(text)]
    shown = places if len(places) <= MOST_PLACES else [places[0], "…", places[-1]]
    return ", ".join([head["name"].strip(), *shown])


def _is_named(line: str, said: Iterable[str]) -> bool:
    name = line.partition(", ")[0]
    return any(other == line or other.partition(", ")[0] == name for other in said)
