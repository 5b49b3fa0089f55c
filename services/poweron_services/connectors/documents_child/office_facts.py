"""What office files tell about themselves, in parts of their own: title, author, dates, how long they are."""

import io
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from lxml import etree  # type: ignore[import-untyped] # it has no stubs

from poweron_services.connectors.documents_child.readers import Fact

_COMPATIBILITY = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
ALTERNATIVES, CHOICE, FALLBACK = (f"{_COMPATIBILITY}{name}" for name in ("AlternateContent", "Choice", "Fallback"))
"""Content that older programs do not know, and what they show in its place."""
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
    """Of an archive that was checked; damaged ones are no reason to lose the text."""
    found: dict[str, str] = {}
    with suppress(etree.XMLSyntaxError, zipfile.BadZipFile), zipfile.ZipFile(io.BytesIO(data)) as archive:
        for part in set(PARTS) & set(archive.namelist()):
            for element in parsed(archive.read(part)).iter():
                _add(found, element)
    yield from (Fact(name, found[name]) for name in dict.fromkeys(NAMES.values()) if name in found)


def parsed(part: bytes) -> Any:
    """The XML of a part of an archive; nothing is loaded that it names."""
    return etree.fromstring(part, etree.XMLParser(resolve_entities=False, no_network=True))


def _add(found: dict[str, str], element: Any) -> None:
    if not isinstance(element.tag, str):
        return
    name, text = etree.QName(element).localname, (element.text or "").strip()
    pages = element.get("{urn:oasis:names:tc:opendocument:xmlns:meta:1.0}page-count")
    if pages:
        found.setdefault("pages", pages)
    if name in NAMES and text and text != "0":
        found.setdefault(NAMES[name], _day(text) if name in {"created", "modified", "creation-date", "date"} else text)


def _day(date: str) -> str:
    return date.partition("T")[0]
