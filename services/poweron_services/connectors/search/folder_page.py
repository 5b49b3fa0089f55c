"""What the search in a folder of pages knows of a page: its words, and what it tells of itself.

All of its text is searched, not its main part alone; who reads a page for an answer uses the readers of pages.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Final

LONGEST_TITLE = 300  # characters
MOST_TEXT = 1_000_000  # characters of a page that are searched

_UNSEEN: Final = frozenset({"script", "style", "noscript", "template", "svg", "nav", "footer", "iframe", "form"})
_IN_LINE: Final = {
    *("a", "abbr", "b", "bdi", "bdo", "cite", "code", "data", "del", "dfn", "em", "font", "i", "img", "ins", "kbd"),
    *("mark", "q", "s", "samp", "small", "span", "strong", "sub", "sup", "td", "th", "time", "u", "var", "wbr"),
}
_DATED: Final = frozenset(
    {"article:published_time", "date", "datepublished", "dc.date", "dcterms.date", "dcterms.created", "last-modified"}
)
_DATE: Final = re.compile(r"(?:19|20)\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])")
_CHARSET: Final = re.compile(rb"charset\s*=\s*[\"']?([A-Za-z0-9_-]{2,30})", re.IGNORECASE)
_HEADING: Final = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)


@dataclass(slots=True)
class FolderPage:
    """The words of a page in blocks, and what it says of itself."""

    blocks: list[str] = field(default_factory=list)
    title: str = ""
    language: str | None = None
    published: str | None = None
    canonical: str | None = None

    @property
    def text(self) -> str:
        return "\n\n".join(self.blocks)


def read_page(data: bytes, media_type: str) -> FolderPage:
    """The words of a page of HTML, Markdown or plain text."""
    text = decoded(data)[:MOST_TEXT]
    if media_type in {"text/html", "application/xhtml+xml"}:
        return _Reader.read(text)
    return told_page([text])


def told_page(sections: Sequence[str]) -> FolderPage:
    """A page of the texts that a reader of documents found; it is named by its first heading, or its first line."""
    blocks = [block.strip() for section in sections for block in section.split("\n\n") if block.strip()]
    first = _HEADING.search("\n".join(blocks[:5]))
    title = first[1] if first else next(iter(blocks), "").partition("\n")[0]
    return FolderPage(blocks, " ".join(title.split())[:LONGEST_TITLE])


def decoded(data: bytes) -> str:
    """The characters: UTF-8, or the encoding that the page names, or that of old Windows systems."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        named = _CHARSET.search(data[:2_048])
    try:
        return data.decode(named[1].decode() if named else "cp1252", errors="replace")
    except LookupError:
        return data.decode("cp1252", errors="replace")


class _Reader(HTMLParser):
    """Collects what people see of a page, a block for each paragraph, row or point."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.page = FolderPage()
        self._words: list[str] = []
        self._unseen = 0
        self._titled = False

    @classmethod
    def read(cls, text: str) -> FolderPage:
        reader = cls()
        reader.feed(text)
        reader.close()
        reader._end_block()
        page = reader.page
        page.title = " ".join((page.title or next(iter(page.blocks), "")).split())[:LONGEST_TITLE]
        return page

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: value or "" for name, value in attrs}
        self._note(tag, said)
        if tag in _UNSEEN:
            self._unseen += 1
        self._titled = tag == "title" and not self.page.title
        self._part(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in _UNSEEN and self._unseen:
            self._unseen -= 1
        self._titled = False
        self._part(tag)

    def handle_data(self, data: str) -> None:
        if self._titled:
            self.page.title += data
        elif not self._unseen:
            self._words.append(data)

    def _part(self, tag: str) -> None:
        if tag not in _IN_LINE:
            self._end_block()
        elif tag in {"td", "th"}:
            self._words.append(" ")

    def _end_block(self) -> None:
        block = " ".join("".join(self._words).split())
        self._words.clear()
        if block:
            self.page.blocks.append(block)

    def _note(self, tag: str, said: dict[str, str]) -> None:
        page = self.page
        if tag == "html":
            page.language = page.language or said.get("lang") or said.get("xml:lang") or None
        elif tag == "link" and "canonical" in said.get("rel", "").lower().split():
            page.canonical = page.canonical or said.get("href")
        elif tag == "time" or (said.get("name") or said.get("property") or said.get("itemprop", "")).lower() in _DATED:
            date = _DATE.match(said.get("datetime") or said.get("content", ""))
            page.published = page.published or (date[0] if date else None)
