"""Metadata of a PDF."""

import codecs
import re
from collections.abc import Iterator, Mapping
from typing import Any

from poweron_services.connectors.documents_child.readers import Fact

NAMES = {"Title": "title", "Author": "author", "Subject": "subject", "Keywords": "keywords"}
DATES = {"CreationDate": "created", "ModDate": "modified"}

codecs.lookup("utf-16-le")  # of the values; no codec can be loaded once a document is being read
_DATE = re.compile(r"D?:?(\d{4})(\d\d)(\d\d)")


def pdf_facts(about: Mapping[str, Any], pages: int) -> Iterator[Fact]:
    """Yield the facts of the information dictionary, which may hold anything; placeholders of programs are skipped."""
    for key, name in NAMES.items():
        value = about.get(key)
        if isinstance(value, str) and value.strip("() ").lower() not in {"", "anonymous", "untitled", "unspecified"}:
            yield Fact(name, value)
    for key, name in DATES.items():
        match = _DATE.match(str(about.get(key) or ""))
        if match:
            yield Fact(name, "-".join(match.groups()))
    yield Fact("pages", str(pages))
