"""Parts that office files share: the archive, the metadata, the texts of charts and diagrams, and equations.

Nothing is unpacked before the archive's table of contents is checked. An equation becomes one line, as users would
type it: 1/8, r=3.5%, x^2, √(a+b).
"""

import codecs
import io
import stat
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import groupby
from typing import Any, Final

from lxml import etree  # type: ignore[import-untyped] # it has no stubs

from poweron_services.connectors.documents_child.document import Unreadable
from poweron_services.connectors.documents_child.limits import MEGABYTE, ReadLimits
from poweron_services.connectors.documents_child.pipe_tables import pipe_table
from poweron_services.connectors.documents_child.readers import Fact

PROLOG = 1024  # bytes of an XML part that are searched for a document type
DRIVE = ":"

codecs.lookup("cp437")  # of some entry names; no codec can be loaded once a document is being read


def check(data: bytes, limits: ReadLimits) -> None:
    """Refuse zip bombs, paths that lead out of the archive, and XML that defines entities."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        check_contents(archive, len(data), limits)
        for member in archive.infolist():
            if member.filename.endswith((".xml", ".rels")):
                _check_prolog(archive, member)


def check_contents(archive: zipfile.ZipFile, size: int, limits: ReadLimits) -> None:
    """Refuse zip bombs and paths that lead out of the archive, by its table of contents alone."""
    members = archive.infolist()
    check_sizes(members, size, limits)
    for member in members:
        if danger := why_unsafe(member):
            raise _refusal(f"its entry {member.filename!r} {danger}")


def check_sizes(members: list[zipfile.ZipInfo], size: int, limits: ReadLimits) -> None:
    unpacked_size = sum(member.file_size for member in members)
    if len(members) > limits.archive_entries:
        raise _refusal(f"it holds {len(members):,} files, more than the {limits.archive_entries:,} that are allowed")
    if unpacked_size > limits.archive_bytes:
        raise _refusal(
            f"it would unpack to {unpacked_size // MEGABYTE:,} MB, more than {limits.archive_bytes // MEGABYTE} MB"
        )
    if unpacked_size > MEGABYTE and unpacked_size > size * limits.archive_ratio:
        raise _refusal(f"it would unpack to {unpacked_size // size:,} times its size, as no document does")


def why_unsafe(member: zipfile.ZipInfo) -> str:
    """Return why an entry must not be opened; empty if it is safe."""
    parts = member.filename.replace("\\", "/").split("/")
    if parts[0] == "" or ".." in parts or DRIVE in parts[0]:
        return "points out of the archive"
    return "is a link" if stat.S_ISLNK(member.external_attr >> 16) else ""


def _check_prolog(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    with archive.open(member) as part:
        prolog = part.read(PROLOG).replace(b"\0", b"")
    if b"<!DOCTYPE" in prolog or b"<!ENTITY" in prolog:
        raise _refusal(f"its entry {member.filename!r} defines XML entities, which no office program writes")


def _refusal(reason: str) -> Unreadable:
    message = f"was not opened because {reason}; open it in its own program and save it as a new file."
    return Unreadable(message, "document_unsafe")


_COMPATIBILITY = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
ALTERNATIVES, CHOICE, FALLBACK = (f"{_COMPATIBILITY}{name}" for name in ("AlternateContent", "Choice", "Fallback"))
"""Content that older programs do not know, and what they show instead."""
PARTS = ("docProps/core.xml", "docProps/app.xml", "meta.xml")
NAMES = {
    "title": "title",
    "creator": "author",
    "initial-creator": "author",
    "subject": "subject",
    "keywords": "keywords",
    "keyword": "keywords",
    "created": "created",
    "creation-date": "created",
    "modified": "modified",
    "date": "modified",
    "lastModifiedBy": "last modified by",
    "Company": "company",
    "Pages": "pages",
}


def office_facts(data: bytes) -> Iterator[Fact]:
    """Yield the metadata of an archive that was checked; damaged parts are skipped, so that the text is still read."""
    facts: dict[str, str] = {}
    with suppress(etree.XMLSyntaxError, zipfile.BadZipFile), zipfile.ZipFile(io.BytesIO(data)) as archive:
        for part in set(PARTS) & set(archive.namelist()):
            for element in parsed(archive.read(part)).iter():
                _add(facts, element)
    yield from (Fact(name, facts[name]) for name in dict.fromkeys(NAMES.values()) if name in facts)


def parsed(part: bytes) -> Any:
    """Parse the XML of a part of an archive, without loading anything that it refers to."""
    return etree.fromstring(part, etree.XMLParser(resolve_entities=False, no_network=True))


def _add(facts: dict[str, str], element: Any) -> None:
    if not isinstance(element.tag, str):
        return
    name, text = etree.QName(element).localname, (element.text or "").strip()
    pages = element.get("{urn:oasis:names:tc:opendocument:xmlns:meta:1.0}page-count")
    if pages:
        facts.setdefault("pages", pages)
    if name in NAMES and text and text != "0":
        facts.setdefault(NAMES[name], _day(text) if name in {"created", "modified", "creation-date", "date"} else text)


def _day(date: str) -> str:
    return date.partition("T")[0]


CHART: Final = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
DIAGRAM: Final = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
DRAWING: Final = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_AXES: Final = ("catAx", "dateAx", "valAx", "serAx")


def chart_texts(chart: Any) -> Iterator[str]:
    """Yield the titles of a chart and its axes, and a table for each group of series that share their categories.

    `chart` is the XML of a chart part.
    """
    title = _title(chart.find(f"{CHART}chart"))
    axes = list(filter(None, (_title(axis) for name in _AXES for axis in chart.iter(f"{CHART}{name}"))))
    heading = f"Chart: {title}" if title else ""
    yield from filter(None, [f"{heading} ({', '.join(axes)})" if title and axes else heading or ", ".join(axes)])
    for categories, group in groupby(chart.iter(f"{CHART}ser"), key=lambda series: _points(series, "cat", "xVal")):
        columns = [(series.findtext(f"{CHART}tx//{CHART}v", ""), _points(series, "val", "yVal")) for series in group]
        places = sorted(set(categories).union(*(values for _, values in columns)))
        rows = [[categories.get(place, ""), *(values.get(place, "") for _, values in columns)] for place in places]
        yield pipe_table([["", *(name for name, _ in columns)], *rows])


def diagram_list(model: Any) -> str:
    """Return the texts of a diagram (SmartArt) as a list, from its data part."""
    texts = (_text(point.find(f"{DIAGRAM}t")) for point in model.iter(f"{DIAGRAM}pt"))
    return "\n".join(f"- {text}" for text in texts if text)


def _title(parent: Any) -> str:
    title = parent.find(f"{CHART}title") if parent is not None else None
    return _text(title) or (title.findtext(f".//{CHART}v", "") if title is not None else "")


def _text(element: Any) -> str:
    """The text of the element's paragraphs, on one line."""
    if element is None:
        return ""
    paragraphs = ("".join(paragraph.itertext(f"{DRAWING}t")) for paragraph in element.iter(f"{DRAWING}p"))
    return " ".join(" ".join(paragraphs).split())


def _points(series: Any, *kinds: str) -> dict[int, str]:
    """The texts or numbers, keyed by index; of nested categories, the innermost."""
    points: dict[int, str] = {}
    for point in (point for kind in kinds for point in series.iterfind(f"{CHART}{kind}//{CHART}pt")):
        points.setdefault(int(point.get("idx")), _number(point.findtext(f"{CHART}v", "")))
    return points


def _number(text: str) -> str:
    """Format a number with its significant digits; return any other text unchanged."""
    try:
        return format(float(text), ".15g")
    except ValueError:
        return text


MATH: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
EQUATION: Final = f"{MATH}oMath"
_TEXT: Final = f"{MATH}t"
_PLAIN: Final = frozenset("+-−±·×*/=<>≤≥≠ ,")  # noqa: RUF001 - a minus is one of them


Parts = dict[str, Any]
"""The children of an element, keyed by name."""


def linear(element: Any) -> str:
    """Return the text of an equation or of a part of one."""
    if element.tag == _TEXT:
        return element.text or ""
    if not isinstance(element.tag, str):
        return ""
    form = _FORMS.get(element.tag.removeprefix(MATH))
    if form is None:
        return "".join(map(linear, element))
    return form(element, {child.tag.removeprefix(MATH): child for child in element if isinstance(child.tag, str)})


def _of(parts: Parts, name: str) -> str:
    return linear(parts[name]) if name in parts else ""


def _operand(parts: Parts, name: str) -> str:
    """The text of a part, in parentheses if it would otherwise read as several parts."""
    text = _of(parts, name)
    return f"({text})" if not _PLAIN.isdisjoint(text) and not _is_enclosed(text) else text


def _is_enclosed(text: str) -> bool:
    return text.startswith("(") and text.find(")") == len(text) - 1


def _sum(inner: Parts) -> str:
    """A sum, a product or an integral with its limits."""
    properties = inner.get("naryPr")
    sign = properties.find(f"{MATH}chr") if properties is not None else None
    symbol = sign.get(f"{MATH}val", "∫") if sign is not None else "∫"
    below, above = _operand(inner, "sub"), _operand(inner, "sup")
    return f"{symbol}{below and f'_{below}'}{above and f'^{above}'} {_of(inner, 'e')}"


def _between(element: Any, inner: Parts) -> str:
    """An expression in parentheses or other brackets."""
    marks = ["(", ")"]
    for at, name in enumerate(("begChr", "endChr")):
        mark = inner["dPr"].find(f"{MATH}{name}") if "dPr" in inner else None
        marks[at] = mark.get(f"{MATH}val", "") if mark is not None else marks[at]
    return f"{marks[0]}{_list(element)}{marks[1]}"


def _list(element: Any) -> str:
    return ", ".join(linear(part) for part in element.iterfind(f"{MATH}e"))


_FORMS: Final[Mapping[str, Callable[[Any, Parts], str]]] = {
    "f": lambda _, inner: f"{_operand(inner, 'num')}/{_operand(inner, 'den')}",
    "sSup": lambda _, inner: f"{_operand(inner, 'e')}^{_operand(inner, 'sup')}",
    "sSub": lambda _, inner: f"{_operand(inner, 'e')}_{_operand(inner, 'sub')}",
    "sSubSup": lambda _, inner: f"{_operand(inner, 'e')}_{_operand(inner, 'sub')}^{_operand(inner, 'sup')}",
    "rad": lambda _, inner: f"{_of(inner, 'deg')}√({_of(inner, 'e')})",
    "nary": lambda _, inner: _sum(inner),
    "d": _between,
    "func": lambda _, inner: f"{_of(inner, 'fName')} {_of(inner, 'e')}",
    "m": lambda element, _: f"[{'; '.join(map(_list, element.iterfind(f'{MATH}mr')))}]",
    "eqArr": lambda element, _: "; ".join(linear(part) for part in element.iterfind(f"{MATH}e")),
}
