"""The text of Word's XML: what is shown once all changes are accepted, with a mark where a note is."""

from collections.abc import Iterator
from typing import Any

from docx.oxml.ns import qn

REMOVED = {qn("w:del"), qn("w:moveFrom"), "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"}

_TEXT = {qn("w:tab"): "\t", qn("w:br"): "\n", qn("w:cr"): "\n", qn("w:noBreakHyphen"): "-"}
_MARKS = {qn("w:footnoteReference"): "", qn("w:endnoteReference"): "e"}
_SHOWN_BREAK = qn("w:lastRenderedPageBreak")  # where a page ended when Word saved the file


def runs_text(element: Any, *, removed: bool = False) -> str:
    """The text of a paragraph or a part of one; of what was deleted only if that is wanted."""
    return "".join(_runs(element, removed=removed))


def has_shown_breaks(body: Any) -> bool:
    """Whether Word has told where its pages ended: then every break is told, also those that somebody wanted."""
    return next(body.iter(_SHOWN_BREAK), None) is not None


def page_breaks(element: Any, *, shown: bool) -> int:
    """How many pages end in it."""
    if shown:
        return sum(1 for _ in element.iter(_SHOWN_BREAK))
    return sum(one.get(qn("w:type")) == "page" for one in element.iter(qn("w:br")))


def _runs(element: Any, *, removed: bool) -> Iterator[str]:
    for child in element:
        if child.tag == qn("w:t") or (removed and child.tag == qn("w:delText")):
            yield child.text or ""
        elif child.tag in _TEXT:
            yield _TEXT[child.tag]
        elif child.tag in _MARKS:
            yield f"[^{_MARKS[child.tag]}{child.get(qn('w:id'), '')}]"
        elif (removed or child.tag not in REMOVED) and child.tag != qn("w:txbxContent"):
            yield from _runs(child, removed=removed)
