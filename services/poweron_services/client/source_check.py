"""The sources that answers of a workflow cite: what each statement quotes, and whether the quote appears there.

Documents are cited by name and place, such as “estimate.pdf, page 1”, or by a number of the answer's own list.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Final, Literal, NamedTuple

from poweron_events.content import ContentStore
from poweron_events.errors import MissingContent
from poweron_events.event import CitedSource, DocumentRef, Model, WebPage
from poweron_events.fold.history import item_reference
from poweron_projections import workflow_excerpts
from poweron_projections.connection import Pool
from poweron_services.client.connect import Connections
from poweron_services.client.document_text import CalculatedValue, DocumentText, SearchedText, calculated_values
from poweron_services.client.workflow_snapshot import verified_records
from poweron_services.decider.authorship import written_by_model
from poweron_services.text.citations import places_shown, without_document_sources, without_list
from poweron_services.text.language_detection import detect
from poweron_services.text.provenance import without_mark
from poweron_services.text.statements import Statement, statements


class Citation(NamedTuple):
    """A document and the places in it that a statement names; without places, the whole document."""

    document: str
    places: tuple[str, ...]


MARKDOWN: Final = "text/markdown"


TEXTS: Final = frozenset({MARKDOWN, "text/csv", "application/json"})
"""The media types of documents that are searched for citations."""


ReadText = Callable[[bytes, str], Awaitable[str]]
"""Returns the text of a document with these bytes and this name, as `document.extract` does; "" if it has none."""


MOST_CELLS: Final = 50
"""The cells of a calculated value that are named."""


Result = Literal["found", "calculated", "not found", "not quoted", "missing"]


class QuoteResult(NamedTuple):
    """A quote, what the check found, and the cells of a value that was calculated."""

    quote: str | None
    result: Result
    cells: tuple[str, ...] = ()


NOT_QUOTED: Final = [QuoteResult(None, "not quoted")]


class CheckedQuote(Model):
    """Words that a statement quotes from a source, or the fact that it quotes none."""

    quote: str | None
    result: Result
    """Whether the words appear in the text of the page or document that the model saw; `calculated` if they are a value
    that was calculated again from cells of its tables; `missing` if that is gone."""
    statement: str
    documents: tuple[str, ...]
    """The documents that contain the statement, as references."""
    cited_as: tuple[int, ...]
    """The number of the source in each of these documents, which have their own numbering; empty if a document is
    cited by its name."""
    cells: tuple[str, ...] = ()
    """The cells from which a value was calculated, such as “Labour, Cost: 300”; of many, the first."""
    cell_count: int = 0
    """The number of all of these cells."""


class Source(Model):
    """A web page that at least one answer of a workflow cites."""

    n: int
    """Its number among the sources of the workflow, in the order in which answers first cite them."""
    url: str
    title: str
    fetched_at: str
    sha256: str
    statements: tuple[str, ...]
    quotes: tuple[CheckedQuote, ...]
    """For each statement the quotes that it takes from this page, or one entry that says that it quotes nothing."""


class CitedDocument(Model):
    """A document, or places in it, that at least one answer of a workflow cites by its name."""

    n: int
    """Its number among the sources of the workflow, after all web pages."""
    document: str
    """Its name, as answers write it."""
    places: tuple[str, ...]
    """Such as “page 2”, “sheet Budget”, “section Returns”; empty if it is cited as a whole."""
    texts: tuple[str, ...]
    """The documents that are searched for the words, as references."""
    statements: tuple[str, ...]
    quotes: tuple[CheckedQuote, ...]


class Sources(Model):
    """All sources of a workflow."""

    workflow_id: str
    sources: tuple[Source, ...]
    documents: tuple[CitedDocument, ...]
    missing: tuple[str, ...]
    """What could not be searched, since the content store no longer holds it: names of documents, and addresses of
    pages."""


async def check_sources(connections: Connections, workflow_id: str, read: ReadText) -> Sources:
    """Return the sources of the workflow and what its answers quote, from rows that were compared with the log.

    `read` returns the text of a document that answers cite and whose text no step has stored.

    Raises:
        UnknownWorkflow: there is no such workflow.
        RowsDiffer, RowsMissing: its rows differ from the log.
        Unavailable: a server cannot be reached.
    """
    await verified_records(connections, workflow_id)
    return await stored_sources(connections, workflow_id, read)


async def stored_sources(connections: Connections, workflow_id: str, read: ReadText) -> Sources:
    """Return the same as `check_sources` from the rows as they are, without the log."""
    answers, documents = await cited_documents(connections.pool, workflow_id)
    return await check_answers(answers, connections.content, workflow_id, documents, read)


async def cited_documents(pool: Pool, workflow_id: str) -> tuple[list[DocumentRef], list[DocumentRef]]:
    """Return the answers of a workflow, and the documents that they may cite."""
    answers, documents = list[DocumentRef](), list[DocumentRef]()
    for entry in await workflow_excerpts.documents(pool, workflow_id):
        if written_by_model(entry, {entry.label: [entry]}):
            answers.append(entry)
        elif entry.page is None:
            documents.append(entry)
    return answers, documents


async def check_answers(
    answers: Iterable[DocumentRef],
    content: ContentStore,
    workflow_id: str,
    documents: Sequence[DocumentRef],
    read: ReadText,
) -> Sources:
    """Return the sources that these answers of a workflow cite, in order: web pages, and any of the documents."""
    check = _Check(content, workflow_id, _by_name(documents), read)
    for answer in answers:
        if answer.mime_type in TEXTS:
            await check.take(answer)
    return check.sources()


def _by_name(documents: Iterable[DocumentRef]) -> dict[str, list[DocumentRef]]:
    """Map each name that an answer may use to its documents; `document.extract` adds `.md` to the names it reads."""
    result: dict[str, list[DocumentRef]] = {}
    for document in documents:
        for name in dict.fromkeys((document.document_name, document.document_name.removesuffix(".md"))):
            result.setdefault(name, []).append(document)
    return result


@dataclass(slots=True)
class _Cited:
    """A source and its statements, each with its quotes and the answers that contain it."""

    texts: Sequence[SearchedText] | None
    """What quotes are compared with; None if it is gone."""
    quotes: dict[tuple[str, str | None], QuoteResult] = field(default_factory=dict)
    answers: dict[str, dict[str, int | None]] = field(default_factory=dict)

    def add(self, statement: str, reference: str, number: int | None, results: Sequence[QuoteResult]) -> None:
        self.answers.setdefault(statement, {}).setdefault(reference, number)
        for result in results:
            self.quotes.setdefault((statement, result.quote), result)

    def holds(self, quote: str, facts: Iterable[str] = ()) -> bool:
        """Return whether the source has the quote, or a cell for one of the facts that the quote is a part of."""
        return any(text.holds(quote) or any(map(text.has_cell, facts)) for text in self.texts or ())

    def checked(self) -> tuple[CheckedQuote, ...]:
        return tuple(
            CheckedQuote(
                quote=result.quote,
                result=result.result,
                statement=statement,
                documents=tuple(self.answers[statement]),
                cited_as=tuple(number for number in self.answers[statement].values() if number is not None),
                cells=result.cells[:MOST_CELLS],
                cell_count=len(result.cells),
            )
            for (statement, _), result in self.quotes.items()
        )


@dataclass(slots=True)
class _Check:
    """Collects the sources of one answer after the other; threads search the texts."""

    content: ContentStore
    workflow_id: str
    named: Mapping[str, Sequence[DocumentRef]]
    read: ReadText
    pages: dict[tuple[str, str, str], tuple[WebPage, _Cited]] = field(default_factory=dict)
    documents: dict[Citation, _Cited] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    texts: dict[str, DocumentText | None] = field(default_factory=dict)
    """The text of each document that was searched, by its content."""

    async def take(self, answer: DocumentRef) -> None:
        known = {source.n: await self._page(source) for source in answer.sources}
        pages = frozenset(known)
        answer_text = await self._text(answer.content, answer.document_name) or ""
        names = await asyncio.to_thread(named_in, answer_text, self.named)
        places_by_name = {name: await self._places(name) for name in names}
        marked = await asyncio.to_thread(lambda: numbered(without_list(answer_text, answer.sources), places_by_name))
        known |= {n: await self._document(citation) for n, citation in marked.meant.items() if n not in pages}
        await asyncio.to_thread(_add_statements, answer, marked, known, pages)

    async def _page(self, source: CitedSource) -> _Cited:
        key = (source.page.url, source.page.sha256, source.text)
        if key not in self.pages:
            text = await self._text(source.text, source.page.url)
            self.pages[key] = source.page, _Cited(None if text is None else [SearchedText(text)])
        return self.pages[key][1]

    async def _document(self, citation: Citation) -> _Cited:
        if citation not in self.documents:
            texts = await self._read_texts(citation.document)
            at = [part for text in texts for part in text.at(citation.places)]
            self.documents[citation] = _Cited(at if texts else None)
        return self.documents[citation]

    async def _places(self, name: str) -> list[str]:
        return [place for text in await self._read_texts(name) for place in text.parts if place]

    async def _read_texts(self, name: str) -> list[DocumentText]:
        """Return the texts of this name that steps have stored; if there are none, read them now."""
        texts = [await self._document_text(document) for document in self._candidates(name)]
        return [text for text in texts if text is not None]

    def _candidates(self, name: str) -> Sequence[DocumentRef]:
        markdown_documents = [document for document in self.named[name] if document.mime_type == MARKDOWN]
        return markdown_documents or self.named[name]

    async def _document_text(self, document: DocumentRef) -> DocumentText | None:
        if document.content not in self.texts:
            data = await self._bytes(document.content, document.document_name)
            if data is None:
                self.texts[document.content] = None
            elif document.mime_type == MARKDOWN:
                text = without_mark(data.decode("utf-8", errors="replace"))
                self.texts[document.content] = await asyncio.to_thread(DocumentText.of, text)
            else:
                text = await self.read(data, document.document_name)
                self.texts[document.content] = await asyncio.to_thread(DocumentText.of, text)
        return self.texts[document.content]

    async def _text(self, content: str, name: str) -> str | None:
        data = await self._bytes(content, name)
        return None if data is None else without_mark(data.decode("utf-8", errors="replace"))

    async def _bytes(self, content: str, name: str) -> bytes | None:
        try:
            return await self.content.get(self.workflow_id, content)
        except MissingContent:
            self.missing.append(name)
            return None

    def sources(self) -> Sources:
        pages = [(page, cited) for page, cited in self.pages.values()]
        sources = [
            Source(
                n=n,
                **page.model_dump(include={"url", "title", "fetched_at", "sha256"}),
                statements=tuple(cited.answers),
                quotes=cited.checked(),
            )
            for n, (page, cited) in enumerate(pages, start=1)
        ]
        cited_documents = [(citation, cited) for citation, cited in self.documents.items() if cited.answers]
        documents = [
            CitedDocument(
                n=n,
                document=citation.document,
                places=citation.places,
                texts=tuple(
                    item_reference(document.document_id, document.document_name)
                    for document in self._candidates(citation.document)
                ),
                statements=tuple(cited.answers),
                quotes=cited.checked(),
            )
            for n, (citation, cited) in enumerate(cited_documents, start=len(sources) + 1)
        ]
        return Sources(
            workflow_id=self.workflow_id,
            sources=tuple(sources),
            documents=tuple(documents),
            missing=tuple(dict.fromkeys(self.missing)),
        )


def _add_statements(
    answer: DocumentRef, marked: "Numbered", known: Mapping[int, _Cited], pages: Container[int]
) -> None:
    """Add each statement of an answer to the sources that it cites, with what it quotes from them."""
    reference = item_reference(answer.document_id, answer.document_name)
    for statement in statements(marked.text, answer.mime_type, language=detect(marked.text) or "en"):
        for number in statement.numbers:
            if number not in known:
                continue
            results = _results(statement, number, known)
            if number not in marked.mentioned or (results != NOT_QUOTED and not statement.is_quote):
                known[number].add(statement.text, reference, number if number in pages else None, results)


def _results(statement: Statement, number: int, known: Mapping[int, _Cited]) -> list[QuoteResult]:
    """Return the statement's quotes from one of its sources, without those found only in another of its sources."""
    results: list[QuoteResult] = []
    calculated = _calculations(statement, known)
    in_calculations = {at for first, (value, _) in calculated.items() for at in range(first, first + value.length)}
    otherwise: Result = "missing" if known[number].texts is None else "not found"
    for at, quote in enumerate(statement.quotes):
        if number not in quote.numbers:
            continue
        if at in calculated:
            value, cells = calculated[at]
            results.append(QuoteResult(value.text, "calculated" if cells else otherwise, cells))
        elif at not in in_calculations:
            facts = _facts(statement, at)
            holding = [source for source in quote.numbers if source in known and known[source].holds(quote.text, facts)]
            if number in holding or not holding:
                results.append(QuoteResult(quote.text, "found" if holding else otherwise))
    return results or NOT_QUOTED


def _calculations(
    statement: Statement, known: Mapping[int, _Cited]
) -> dict[int, tuple[CalculatedValue, tuple[str, ...]]]:
    """Return the calculated values of a statement by the position of their first quote, with the cells behind each.

    The cells may be in several of its sources. A count without them is left out, since it may be a quote.
    """
    result: dict[int, tuple[CalculatedValue, tuple[str, ...]]] = {}
    for at, value in calculated_values(statement).items():
        numbers = statement.quotes[at].numbers
        texts = [text for number in numbers if number in known for text in known[number].texts or ()]
        cells = value.cells(texts)
        if cells or value.equation:
            result[at] = value, cells
    return result


def _facts(statement: Statement, at: int) -> list[str]:
    """Return the labels with their values of which a quote is a part, as in “Hinge, price”: “4.20”."""
    neighbours = statement.quotes[max(at - 1, 0) : at + 2]
    pairs = pairwise(quote.text for quote in neighbours)
    return [f"{label}: {value}" for label, value in pairs if f"“{label}”: “{value}”" in statement.text]


MOST_PLACES: Final = 2_000  # places other than pages by which documents can be cited


MOST_COMMAS: Final = 12  # in the name of a place


_PAGE: Final = r"(?:pages?|pp?\.|Seiten?|S\.)\s*(?P<page>\d{1,6})"


_PAGES: Final = re.compile(_PAGE, re.IGNORECASE)


_LABEL: Final = re.compile(
    r"^( {0,9}(?:[-*] {1,3})?)\*\*([^*“”\n]+)\*\*(?: = ([^*“”—\n]{1,2000}))?(?= — )", re.MULTILINE
)


_GAP: Final = r"\s{0,3}"  # bounded, since an answer may contain a million blanks


_NOTHING: Final = r"(?!)"


_NUMBERS: Final = range(999, 0, -1)


class Numbered(NamedTuple):
    """A text in which each citation of a document has a number."""

    text: str
    meant: Mapping[int, Citation]
    mentioned: frozenset[int]
    """The numbers of documents that are only mentioned; they count as cited if something is quoted from them.

    A block quote that only mentions a document is a note about it, such as how it was read, and quotes nothing.
    """


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
        if opening.count("\n") > 1 and match.string[: match.start()].endswith("|"):
            return f"\n\n{marks}"  # below a table, it is a citation of all of its rows
        if not opening or ("(" in opening and not closing):
            return f"{opening}{match['all']}{closing} {marks}"
        return f" {marks}{'' if '(' in opening else closing}"

    marked_text = pattern.several.sub(mark, _LABEL.sub(_as_quotes, body))
    meant |= {n: citation for (citation, _), n in by_citation.items()}
    return Numbered(marked_text, meant, frozenset(n for (_, is_mention), n in by_citation.items() if is_mention))


def _as_quotes(match: re.Match[str]) -> str:
    """Return a label and its value, which the built-in model takes from a document or calculates, as quotes."""
    if match[3]:
        label, _, value = match[2].rpartition(": ")
        return f"{match[1]}“{label}”: “{value}” = “{match[3]}”"
    label, colon, value = match[2].partition(": ")
    return f"{match[1]}“{label}”: “{value}”" if colon else f"{match[1]}“{label}”"


def _of_line(line: str, documents: Mapping[str, Iterable[str]]) -> Citation | None:
    """Return what a line of a list of documents cites, such as “estimate.pdf, page 1, page 2”."""
    for name in sorted(documents, key=len, reverse=True):
        shown_name = " ".join(name.split())
        if line == shown_name or line.startswith(f"{shown_name}, "):
            places = _places_of(line[len(shown_name) :].split(", ")[1:], places_shown(documents[name]))
            return Citation(name, tuple(place for place in places if place != "…"))
    return None


def _places_of(parts: Sequence[str], known: Mapping[str, str]) -> Iterator[str]:
    """Yield the places that a list separates by commas; a known place may contain commas, too."""
    start = 0
    while start < len(parts):
        ends = range(min(len(parts), start + MOST_COMMAS), start, -1)
        candidates = ((end, " ".join(", ".join(parts[start:end]).split()).casefold()) for end in ends)
        end, place = next((pair for pair in candidates if pair[1] in known), (start + 1, ""))
        yield known.get(place, parts[start])
        start = end


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
