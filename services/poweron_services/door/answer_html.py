"""The answer as HTML: Markdown without images, with the address of each link, and marks that lead to the sources."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

import nh3
from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import Markup

from poweron_projections.audit.verifier.quote_search import comparable
from poweron_services.client.source_check import CheckedQuote, CitedDocument, Result, Source, Sources
from poweron_services.door.page_rendering import TEMPLATES, visible

MARKS: Final = 20  # places at which the words of a statement are marked
MOST: Final = 30_000  # characters of an answer that a page shows
TAGS: Final = frozenset(
    (
        *("a", "blockquote", "br", "code", "del", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s"),
        *("mark", "strong", "sup", "table", "tbody", "td", "th", "thead", "tr", "ul"),
    )
)
ATTRIBUTES: Final = {
    "a": {"href", "class", "aria-label"},
    "ol": {"start"},
    "mark": {"id"},
    "table": {"tabindex"},
    **{tag: {"dir"} for tag in ("p", "li", "td", "th", "blockquote", "h3", "h4", "h5", "h6")},
}
SCHEMES: Final = ("http://", "https://", "mailto:")
"""What the address of a link begins with; an answer has no links to pages of the door."""
WORST_FIRST: Final[Sequence[Result]] = ("not found", "missing", "not quoted", "calculated", "found")
_OWN_DIRECTION: Final = frozenset({"p", "li", "td", "th", "blockquote", "h3", "h4", "h5", "h6"})
LISTED: Final = 12  # sources that a page lists
_ENTRY: Final = re.compile(r"\[([0-9]{1,3})\] ")
_NUMBER: Final = re.compile(r"\s*\[[0-9]{1,3}\]")
_MARKS: Final = re.compile(r"[\s\W_]+")


class ShownCheck(NamedTuple):
    """A statement, and the result of the check of its quotes: that of the worst one."""

    statement: str
    result: Result
    quotes: Sequence[str] = ()
    """The words to mark in the text of the source: quotes, or the cells of calculated values."""
    cells: str = ""
    """The cells from which values were calculated."""


class ShownSource(NamedTuple):
    """A source of the answer, with the statements that it supports."""

    n: int
    title: str
    places: str
    url: str
    """The address of a web page; empty for a document."""
    reference: str
    """The id of the document whose text was searched; empty for a web page."""
    fetched_at: str
    place: str
    checks: Sequence[ShownCheck]


def shown_sources(sources: Sources) -> list[ShownSource]:
    """Return the sources in the form of the page."""
    return [*map(_shown, sources.sources), *map(_shown, sources.documents)]


def _shown(source: Source | CitedDocument) -> ShownSource:
    checks = [
        _check(statement, [quote for quote in source.quotes if quote.statement == statement])
        for statement in source.statements
    ]
    if isinstance(source, Source):
        return ShownSource(source.n, source.title or source.url, "", source.url, "", source.fetched_at, "", checks)
    reference = source.texts[-1].split(":")[1] if source.texts else ""
    places = ", ".join(source.places)
    place = source.places[0] if source.places else ""
    return ShownSource(source.n, source.document, places, "", reference, "", place, checks)


def _check(statement: str, quotes: Sequence[CheckedQuote]) -> ShownCheck:
    cells = [cell for quote in quotes for cell in quote.cells]
    words = [quote.quote for quote in quotes if quote.quote and not quote.cells]
    return ShownCheck(
        statement,
        min((quote.result for quote in quotes), key=WORST_FIRST.index),
        [*words, *(cell.rpartition(": ")[2] for cell in cells)],
        "; ".join(cells),
    )


class _Renderer(RendererHTML):
    """Writes the address of a link behind its text, and of an image only its description and address."""

    def link_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:  # noqa: ARG002
        address = str(tokens[idx].attrGet("href") or "")
        alone = [(part.type, part.content) for part in tokens[idx + 1 : idx + 3]] == [
            ("text", address),
            ("link_close", ""),
        ]
        if alone:
            tokens[idx + 1].content = ""
        env.setdefault("links", []).append((address, alone))
        return ""

    def link_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:  # noqa: ARG002
        given, alone = env["links"].pop()
        address = escapeHtml(given)
        shown = f'<a href="{address}">{address}</a>' if address.startswith(SCHEMES) else address
        return shown if alone else f" ({shown})"

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        description = self.renderInlineAsText(tokens[idx].children or [], options, env)
        return escapeHtml(f"[picture: {description} {tokens[idx].attrGet('src') or ''}]")


_MARKDOWN: Final = MarkdownIt("commonmark", {"html": False, "linkify": False}, renderer_cls=_Renderer).enable("table")


def answer_html(markdown: str, sources: Iterable[ShownSource] = ()) -> Markup:
    """Return the Markdown of an answer as safe HTML; each statement leads to its sources by their numbers.

    The answer's own list of sources at its end is left out if the page lists all of them.
    """
    tokens, sources = _tokens(markdown, MOST), list(sources)
    if len(sources) <= LISTED:
        tokens = _without_list(tokens, {source.n for source in sources})
    by_statement: dict[str, list[int]] = {}
    for source in sources:
        for check in source.checks:
            by_statement.setdefault(_key(check.statement), []).append(source.n)
    cited = set[tuple[str, int]]()
    for token in tokens:
        if token.type == "inline":
            _add_marks(token, by_statement, cited)
    return _cleaned(tokens)


def _without_list(tokens: list[Token], numbers: Collection[int]) -> list[Token]:
    """Leave out the last section if it is only a list of these numbers, each with its source."""
    start = next((place for place in reversed(range(len(tokens))) if tokens[place].type == "heading_open"), len(tokens))
    body = tokens[start + 3 :]
    entries = [_ENTRY.match(token.content) for token in body if token.type == "inline"]
    is_list = bool(entries) and body[0].type == "bullet_list_open" and body[-1].type == "bullet_list_close"
    return tokens[:start] if is_list and all(entry and int(entry[1]) in numbers for entry in entries) else tokens


def marked_html(markdown: str, quotes: Sequence[str], most: int) -> tuple[Markup, int]:
    """Return a text as safe HTML in which the words of quotes are marked, and how many places are marked."""
    tokens, wanted, count = _tokens(markdown, most), [*filter(None, map(_pattern, quotes))], 0
    for token in tokens:
        for child in token.children or []:
            if child.type == "text" and count < MARKS:
                child.content, marks = _marked(child.content, wanted, count)
                child.type, count = "html_inline", count + marks
    if not count:  # the words of a statement may be spread over the cells of a row, or over formatted words
        keys = [*filter(None, map(_key, quotes))]
        for token in tokens:
            if token.children and any(key in _key(token.content) for key in keys):
                count += 1
                token.children = [_html(f'<mark id="mark-{count}">'), *token.children, _html("</mark>")]
    return _cleaned(tokens), count


def _pattern(quote: str) -> re.Pattern[str] | None:
    words = re.findall(r"[^\W_]+", quote[:1_000])  # `_` separates words: in both, the search could take for ever
    return re.compile(r"[\W_]{1,12}?".join(map(re.escape, words)), re.IGNORECASE) if words else None


def _marked(text: str, wanted: Sequence[re.Pattern[str]], count: int) -> tuple[str, int]:
    spans = sorted(match.span() for pattern in wanted for match in islice(pattern.finditer(text), MARKS))
    result, at, marks = "", 0, 0
    for start, end in spans:
        if start >= at:
            marks += 1
            result += (
                f'{escapeHtml(text[at:start])}<mark id="mark-{count + marks}">{escapeHtml(text[start:end])}</mark>'
            )
            at = end
    return result + escapeHtml(text[at:]), marks


def _html(content: str) -> Token:
    token = Token("html_inline", "", 0)
    token.content = content
    return token


def _tokens(markdown: str, most: int) -> list[Token]:
    """Parse Markdown; its headings become those of a section, and each block has its own direction."""
    tokens = _without_empty_headers(_MARKDOWN.parse(visible(markdown, most)))
    for token in tokens:
        if token.type == "table_open":
            token.attrSet("tabindex", "0")  # a wide table is scrolled by the keyboard, too
        if token.tag in ("h1", "h2", "h3", "h4"):
            token.tag = f"h{int(token.tag[1]) + 2}"
        if token.nesting == 1 and token.tag in _OWN_DIRECTION:
            token.attrSet("dir", "auto")
    return tokens


def _without_empty_headers(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens without the heads of tables that are empty; other empty header cells become data cells."""
    result, head = list[Token](), list[Token]()
    for index, token in enumerate(tokens):
        if token.type == "thead_open" or head:
            head.append(token)
            if token.type == "inline" and not token.content:
                tokens[index - 1].tag = tokens[index + 1].tag = "td"
            if token.type == "thead_close":
                result += head if any(part.type == "inline" and part.content for part in head) else ()
                head = []
        else:
            result.append(token)
    return result


def _cleaned(tokens: Sequence[Token]) -> Markup:
    html = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {})
    return Markup(  # noqa: S704 - nh3 has cleaned it
        nh3.clean(
            str(html),
            tags=set(TAGS),
            attributes={tag: set(names) for tag, names in ATTRIBUTES.items()},
            url_schemes={"http", "https", "mailto"},
            link_rel="noopener noreferrer nofollow",
        )
    )


def _key(text: str) -> str:
    return _MARKS.sub("", comparable(text))


def _add_marks(token: Token, by_statement: Mapping[str, Sequence[int]], cited: set[tuple[str, int]]) -> None:
    """Append the numbers of the sources whose statements this block contains; each statement is marked once."""
    text = _key(token.content)
    numbers = dict[int, None]()
    for statement, sources in by_statement.items():
        if statement and statement in text:
            for number in sources:
                if (statement, number) not in cited:
                    cited.add((statement, number))
                    numbers[number] = None
    for number in numbers:
        _remove_mark(token.children or [])
        mark = _html(f' <a class="cite" href="#source-{number}" aria-label="Source {number}">{number}</a>')
        token.children = [*(token.children or []), mark]


def _remove_mark(children: Sequence[Token]) -> None:
    """Remove the last number in brackets, in whose place the number of the source comes."""
    for child in reversed(children):
        if child.type == "text" and (matches := [*_NUMBER.finditer(child.content)]):
            start, end = matches[-1].span()
            child.content = child.content[:start] + child.content[end:]
            return


TEMPLATES.filters["answer"] = answer_html
