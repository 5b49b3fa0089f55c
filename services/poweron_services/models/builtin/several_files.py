"""Several files in one text, as tools return them: a line with the path and a colon, then the content of the file."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from poweron_services.models.prompts import SourceText

_PATH: Final = re.compile(
    r"^(?:#+ )?(?P<path>(?:/|~/|\.{1,2}/|[A-Za-z]:[\\/]|[\w.-]+/)[^\n:]*\.\w{1,8}):[ \t]*$", re.MULTILINE
)
_RULE: Final = re.compile(r"^\s*-{3,}\s*$", re.MULTILINE)


def one_by_one(documents: Iterable[SourceText]) -> tuple[SourceText, ...]:
    """Split texts into files, each under its own name; a text without paths is unchanged."""
    return tuple(text for document in documents for text in _files(document))


def _files(document: SourceText) -> Iterator[SourceText]:
    found = [*_PATH.finditer(document.text)] if document.number is None else []
    if not found:
        yield document
        return
    ends = [*(each.start() for each in found[1:]), len(document.text)]
    for path, end in zip(found, ends, strict=True):
        name = re.split(r"[/\\]", path["path"])[-1]
        text = _RULE.sub("", document.text[path.end() : end]).strip()
        if text:
            yield replace(document, name=name, text=text)
