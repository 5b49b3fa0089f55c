"""Notes, comments and tracked changes of a Word document."""

from collections.abc import Iterator, Sequence
from typing import Any

from docx.oxml.ns import qn

from poweron_services.connectors.documents_child.word_text import runs_text

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
    """Return the insertions and deletions with their authors and paragraphs."""
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
