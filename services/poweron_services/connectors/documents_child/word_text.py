"""The text of Word's XML as it reads with all changes accepted, and lists of notes, comments and tracked changes."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from docx.oxml.ns import qn

from poweron_services.connectors.documents_child.office_parts import EQUATION, FALLBACK, linear
from poweron_services.connectors.documents_child.symbol_fonts import (
    EMPTY,
    TICKED,
    UNKNOWN,
    is_symbol_font,
    symbol,
    symbols,
)

REMOVED = {qn("w:del"), qn("w:moveFrom"), FALLBACK}

_TEXT = {qn("w:tab"): "\t", qn("w:br"): "\n", qn("w:cr"): "\n", qn("w:noBreakHyphen"): "-"}
_MARKS = {qn("w:footnoteReference"): "", qn("w:endnoteReference"): "e"}
_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_WORD_14 = "{http://schemas.microsoft.com/office/word/2010/wordml}"
_CHECK_BOX = f"{_WORD_14}checkbox"
_HEX = re.compile(r"[0-9A-Fa-f]{1,6}")
_RENDERED_BREAK = qn("w:lastRenderedPageBreak")  # where a page ended when Word saved the file


def runs_text(element: Any, *, removed: bool = False) -> str:
    """Return the text of a paragraph or a part of one; deleted text only if `removed`."""
    return "".join(_runs(element, removed=removed))


def has_shown_breaks(body: Any) -> bool:
    """Return whether Word recorded where pages ended: then it recorded every break, including manual ones."""
    return next(body.iter(_RENDERED_BREAK), None) is not None


def page_breaks(element: Any, *, shown: bool) -> int:
    """Return how many pages end in the element."""
    if shown:
        return sum(1 for _ in element.iter(_RENDERED_BREAK))
    return sum(line_break.get(qn("w:type")) == "page" for line_break in element.iter(qn("w:br")))


def _runs(element: Any, *, removed: bool) -> Iterator[str]:
    for child in element:
        if child.tag == qn("w:t") or (removed and child.tag == qn("w:delText")):
            yield _in_its_font(element, child.text or "")
        elif child.tag in _TEXT:
            yield _TEXT[child.tag]
        elif child.tag in _MARKS:
            yield f"[^{_MARKS[child.tag]}{child.get(qn('w:id'), '')}]"
        elif child.tag == qn("w:sym"):
            code = child.get(qn("w:char"), "")
            yield symbol(child.get(qn("w:font"), ""), int(code, 16)) if _HEX.fullmatch(code) else UNKNOWN
        elif child.tag == EQUATION:
            yield linear(child)
        elif child.tag == qn("w:fldChar"):
            yield from _form_field(child)
        elif child.tag == qn("w:sdt") and (box := child.find(f"{qn('w:sdtPr')}/{_CHECK_BOX}")) is not None:
            yield _tick(box.find(f"{_WORD_14}checked"), _WORD_14)
        elif (removed or child.tag not in REMOVED) and child.tag != qn("w:txbxContent"):
            yield from _runs(child, removed=removed)


def _in_its_font(run: Any, text: str) -> str:
    fonts = run.find(f"{qn('w:rPr')}/{qn('w:rFonts')}")
    font = fonts.get(qn("w:ascii"), "") if fonts is not None else ""
    return symbols(font, text) if is_symbol_font(font) else text


def _form_field(begin: Any) -> Iterator[str]:
    """Yield what a form field shows besides text: whether its box is ticked, or the choice from its list."""
    box = begin.find(f"{qn('w:ffData')}/{qn('w:checkBox')}")
    if box is not None:
        state = box.find(qn("w:checked"))
        yield _tick(box.find(qn("w:default")) if state is None else state, _WORD)
    choices = begin.find(f"{qn('w:ffData')}/{qn('w:ddList')}")
    if choices is not None:
        choice = next(
            (choices.find(qn(tag)) for tag in ("w:result", "w:default") if choices.find(qn(tag)) is not None), None
        )
        number = choice.get(qn("w:val"), "0") if choice is not None else "0"
        entries = [entry.get(qn("w:val"), "") for entry in choices.iterfind(qn("w:listEntry"))]
        yield entries[int(number)] if number.isdecimal() and int(number) < len(entries) else ""


def _tick(mark: Any, namespace: str) -> str:
    return EMPTY if mark is None or mark.get(f"{namespace}val", "1") in {"0", "false", "off"} else TICKED


CHANGES = {
    qn("w:ins"): "inserted",
    qn("w:del"): "deleted",
    qn("w:moveTo"): "moved here",
    qn("w:moveFrom"): "moved away",
}
MOST_CHANGES = 1_000
LONGEST_PLACE = 120  # characters quoted of the text that a comment or a change refers to

_PARAGRAPH = qn("w:p")


def notes(part: Any, mark: str) -> list[str]:
    """Return the footnotes or endnotes, each with its mark in the text; Word's separators among them are left out."""
    own_notes = [note for note in part if isinstance(note.tag, str) and note.get(qn("w:type")) is None]
    texts = [(note.get(qn("w:id"), ""), _text(note)) for note in own_notes]
    return [f"[^{mark}{number}]: {text}" for number, text in texts if text]


def comments(part: Any, body: Any) -> list[str]:
    about = _comment_texts(body)
    return [
        f"- {_author(comment)}{_quote(about.get(comment.get(qn('w:id')), ''))}: {_text(comment)}"
        for comment in part.iter(qn("w:comment"))
    ]


def changes(parts: Sequence[Any]) -> list[str]:
    """Return the insertions, deletions and moves, with their authors and paragraphs."""
    elements = [change for part in parts for change in part.iter(*CHANGES)][:MOST_CHANGES]
    texts = ((change, " ".join(runs_text(change, removed=True).split())) for change in elements)
    return [f"- {_author(change)} {CHANGES[change.tag]} “{text}”{_place(change)}" for change, text in texts if text]


def _comment_texts(body: Any) -> dict[str, str]:
    """The texts that comments refer to, keyed by the number of the comment."""
    texts: dict[str, list[str]] = {}
    open_now: set[str] = set()
    for element in body.iter(qn("w:commentRangeStart"), qn("w:commentRangeEnd"), qn("w:t")):
        number = element.get(qn("w:id"), "")
        if element.tag == qn("w:t"):
            for reference in open_now:
                texts[reference].append(element.text or "")
        elif element.tag == qn("w:commentRangeStart"):
            open_now.add(number)
            texts.setdefault(number, [])
        else:
            open_now.discard(number)
    return {number: " ".join("".join(parts).split()) for number, parts in texts.items()}


def _author(element: Any) -> str:
    author = element.get(qn("w:author")) or "somebody"
    day = element.get(qn("w:date"), "").partition("T")[0]
    return f"{author} ({day})" if day else author


def _quote(text: str) -> str:
    return f" on “{_short(text)}”" if text else ""


def _place(change: Any) -> str:
    paragraph = next(change.iterancestors(_PARAGRAPH), None)
    text = " ".join(runs_text(paragraph).split()) if paragraph is not None else ""
    return f" in “{_short(text)}”" if text else ""


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_PLACE else f"{text[:LONGEST_PLACE]}…"


def _text(element: Any) -> str:
    return " ".join(" ".join(_paragraphs(element)).split())


def _paragraphs(element: Any) -> Iterator[str]:
    return (runs_text(paragraph) for paragraph in element.iter(_PARAGRAPH))
