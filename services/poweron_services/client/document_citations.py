"""How answers cite documents: by name and place, such as “estimate.pdf, page 1”, or by a number of their own list."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Final, NamedTuple

from poweron_services.text.quotes import comparable, occurs
from poweron_services.text.source_list import places_shown, without_document_sources

MOST_PLACES: Final = 2_000  # places other than pages by which documents can be cited

_HEAD: Final = re.compile(r"\A# ?(?P<name>[^\n]*)\n\s*<!-- [^\n]* -->\n?")
_PARTS: Final = re.compile(r"^##(?: (.*))?$", re.MULTILINE)
_HEADINGS: Final = re.compile(r"^#{1,6} ([^\n]+)$", re.MULTILINE)
_PAGE: Final = r"(?:pages?|pp?\.|Seiten?|S\.)\s*(?P<page>\d{1,6})"
_PAGES: Final = re.compile(_PAGE, re.IGNORECASE)
_LABEL: Final = re.compile(r"^( {0,9}(?:[-*] {1,3})?)\*\*([^*“”\n]+)\*\*(?= — )", re.MULTILINE)
_GAP: Final = r"\s{0,3}"  # bounded, since an answer may contain a million blanks
_NOTHING: Final = r"(?!)"
_NUMBERS: Final = range(999, 0, -1)


class Citation(NamedTuple):
    """A document and the places in it that a statement names; without places, the whole document."""

    document: str
    places: tuple[str, ...]


class Numbered(NamedTuple):
    """A text in which each citation of a document has a number."""

    text: str
    meant: Mapping[int, Citation]
    mentioned: frozenset[int]
    """The numbers of documents that are only mentioned; they count as cited if something is quoted from them."""


@dataclass(frozen=True)
class SearchedText:
    """A text that is searched for quotes."""

    text: str

    def holds(self, quote: str) -> bool:
        """Return whether it contains the words, or one row of a table does, as in “item: Hinge; price: 4.20”."""
        return occurs(quote, self._plain) or self._has_row(quote)

    def _has_row(self, quote: str) -> bool:
        cells = [part.partition(": ") for part in quote.split("; ")]
        if len(cells) < 2 or not all(value for _, _, value in cells):
            return False
        return any(all(occurs(name, row) for name, _, _ in cells) for row in self._rows) and any(
            all(occurs(value, row) for _, _, value in cells) for row in self._rows
        )

    @cached_property
    def _plain(self) -> str:
        return comparable(self.text)

    @cached_property
    def _rows(self) -> list[str]:
        return [comparable(line) for line in self.text.splitlines() if line.startswith("|")]


@dataclass(frozen=True, slots=True)
class DocumentText:
    """The text of a document as it was read, by place: “page 2”, “sheet Budget”, “section Returns”."""

    parts: Mapping[str, str]

    @classmethod
    def of(cls, markdown: str) -> "DocumentText":
        """Parse what `document.extract` writes about a document, or a text with headings."""
        head = _HEAD.match(markdown)
        first, *rest = (_PARTS if head else _HEADINGS).split(markdown[head.end() if head else 0 :])
        titles = [title or "" if head else f"section {title.strip(' #')}" for title in rest[::2]]
        parts: dict[str, str] = {}
        for place, text in zip(["", *titles], [first, *rest[1::2]], strict=True):
            parts[place] = f"{parts.get(place, '')}\n{text}"
        return cls(parts)

    def at(self, places: Sequence[str]) -> list[SearchedText]:
        """Return the text of each of these places; without places, the whole text."""
        texts = [self.parts[place] for place in places if place in self.parts]
        return [SearchedText(text) for text in (texts if places else ["\n".join(self.parts.values())])]


def named_in(text: str, documents: Iterable[str]) -> list[str]:
    """Return the documents whose names appear in a text, ignoring case."""
    key = _key(text)
    return [name for name in documents if _key(name) in key]


def numbered(text: str, documents: Mapping[str, Iterable[str]]) -> Numbered:
    """Mark each citation of a document with a number.

    `documents` maps the name of each document to its places. A name without a dot is a citation only if a place
    follows it, since it may be any word.
    """
    body, lines = without_document_sources(text)
    meant = {n: line_citation for n, line in lines.items() if (line_citation := _of_line(line, documents))}
    pattern = _pattern(documents)
    if pattern is None:
        return Numbered(body, meant, frozenset())
    free = (n for n in _NUMBERS if f"[{n}]" not in text)
    by_citation: dict[tuple[Citation, bool], int] = {}

    def mark(match: re.Match[str]) -> str:
        opening, closing, marks = match["open"] or "", match["close"] or "", ""
        for reference in pattern.one.finditer(match["all"]):
            if (citation := pattern.citation(reference)) is None:
                continue
            key = citation, not opening and not citation.places
            if key not in by_citation and (number := next(free, None)):
                by_citation[key] = number
            marks += f"[{by_citation[key]}]" if key in by_citation else ""
        if not opening or ("(" in opening and not closing):
            return f"{opening}{match['all']}{closing} {marks}"
        return f" {marks}{'' if '(' in opening else closing}"

    marked_text = pattern.several.sub(mark, _LABEL.sub(_as_quotes, body))
    meant |= {n: citation for (citation, _), n in by_citation.items()}
    return Numbered(marked_text, meant, frozenset(n for (_, is_mention), n in by_citation.items() if is_mention))


def _as_quotes(match: re.Match[str]) -> str:
    """Return a label and its value, which the built-in model takes from a document, as quotes."""
    label, colon, value = match[2].partition(": ")
    return f"{match[1]}“{label}”: “{value}”" if colon else f"{match[1]}“{label}”"


def _of_line(line: str, documents: Mapping[str, Iterable[str]]) -> Citation | None:
    """Return what a line of a list of documents cites, such as “estimate.pdf, page 1, page 2”."""
    for name in sorted(documents, key=len, reverse=True):
        if line == name or line.startswith(f"{name}, "):
            places_by_key = places_shown(documents[name])
            named_places = line[len(name) :].split(", ")[1:]
            return Citation(
                name, tuple(places_by_key.get(place.casefold(), place) for place in named_places if place != "…")
            )
    return None


class _Pattern(NamedTuple):
    one: re.Pattern[str]
    several: re.Pattern[str]
    """Matches consecutive citations, with the dash or the brackets that separate them from the statement."""
    names: Mapping[str, str]
    places: Mapping[str, str]

    def citation(self, match: re.Match[str]) -> Citation | None:
        """Return the citation; None if only the regex equates two letters, such as a dotless i and an i."""
        name = self.names.get(_key(match["name"] or match["word"]))
        if name is None:
            return None
        page = match["before_page"] or match["page"]
        place = f"page {int(page)}" if page else self.places.get(_key(match["place"] or ""), "")
        return Citation(name, (place,) if place else ())


def _pattern(documents: Mapping[str, Iterable[str]]) -> _Pattern | None:
    if not documents:
        return None
    labels = (
        (_key(label), place)
        for document_places in documents.values()
        for label, place in places_shown(document_places).items()
    )
    places = dict(islice(((key, place) for key, place in labels if not _PAGES.fullmatch(key)), MOST_PLACES))
    place_names = "|".join(_escape_all(places)) or _NOTHING
    place = rf"(?:{_GAP},{_GAP}|\s{{1,3}}|{_GAP}\()(?:(?P<place>{place_names})|{_PAGE})(?!\w)"
    before = _PAGE.replace("page>", "before_page>")
    names = "|".join(_escape_all(name for name in documents if "." in name)) or _NOTHING
    words = "|".join(_escape_all(name for name in documents if "." not in name)) or _NOTHING
    single = (
        rf"(?:{before}\s+(?:of|in|von|aus)\s+)?(?<![\w./-])"
        rf"(?:(?P<name>{names})(?!\w|[.-]\w)|(?P<word>{words})(?={_anonymous(place)}))(?:{place})?"
    )
    bare = _anonymous(single)
    further = rf"{_GAP}(?:[;,&]|and|und){_GAP}{bare}"
    several = rf"(?P<open>{_GAP}[\u2013\u2014]{_GAP}|{_GAP}\()?(?P<all>{bare}(?:{further})*)(?P<close>\))?"
    return _Pattern(
        re.compile(single, re.IGNORECASE),
        re.compile(several, re.IGNORECASE),
        {_key(name): name for name in documents},
        places,
    )


def _anonymous(pattern: str) -> str:
    return re.sub(r"\(\?P<\w+>", "(?:", pattern)


def _escape_all(texts: Iterable[str]) -> Iterator[str]:
    r"""Yield patterns for the texts, longest first; they allow any blanks, and markdown's backslashes before signs."""
    for text in sorted(filter(None, texts), key=len, reverse=True):
        yield r"\s+".join("".join(c if c.isalnum() else rf"\\?{re.escape(c)}" for c in word) for word in text.split())


def _key(text: str) -> str:
    return " ".join(text.replace("\\", "").split()).casefold()
