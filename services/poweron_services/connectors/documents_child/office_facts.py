"""Metadata of office files, which they hold in separate parts: title, author, dates, page count."""

import io
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from lxml import etree  # type: ignore[import-untyped] # it has no stubs

from poweron_services.connectors.documents_child.readers import Fact

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
