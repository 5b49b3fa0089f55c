"""Extract the main text of an HTML page, its metadata, its links and any obstacle to reading it.

libxml2 stops at 256 nested elements and reports it only in its error log; a page cut there is marked as truncated.

trafilatura finds the main text by weighing parts of the text against each other, which works for articles but not for
pages of a few lines. This module reads those as documents, and also huge pages and, with depth `advanced`, pages whose
tables or lists trafilatura omitted.
"""

import codecs
import re
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from itertools import islice
from typing import Any

import ada_url
import lxml.etree  # type: ignore[import-untyped] # it has no stubs
import lxml.html  # type: ignore[import-untyped] # it has no stubs
import trafilatura

from poweron_services.connectors.documents_child import text_encodings
from poweron_services.connectors.documents_child.document import Unreadable
from poweron_services.connectors.documents_child.headings import OutlineBlock
from poweron_services.connectors.documents_child.limits import ReadLimits
from poweron_services.connectors.documents_child.readers import clean
from poweron_services.connectors.documents_child.webpage import (
    AGREE,
    BUTTONS,
    COOKIES,
    NESTED_TOO_DEEPLY,
    drop_consent,
    is_too_deep,
    label,
    main_blocks,
)
from poweron_services.connectors.pages_child.page_answers import LinkedPage, Obstacle, Page, PageQuestion, TextFormat

LITTLE = 600  # characters; a page with at least this much text has no obstacle


VERY_LITTLE, NEXT_TO_NOTHING = 200, 12


_SCRIPT_REQUEST = re.compile(
    r"(?:enable|requires?|needs?|turn on|activate|without|allow|aktivier\w*|activez|activer|active|habilit\w*)"
    r"[^.!?]{0,60}\bjava ?script|\bjava ?script\b[^.!?]{0,60}"
    r"(?:enabled?|required|disabled|turned on|necessary|aktivier\w*|deaktiviert|activé\w*|désactivé\w*|habilitad\w*)"
    r"|checking your browser|verify(?:ing)? (?:that )?you are (?:a )?human",
    re.IGNORECASE,
)


_PROGRAMS = ".//script[not(@type) or contains(@type, 'javascript') or @type='module']"


_EMPTY = "./body/*[contains(name(), '-') or self::div[@id] or self::main[@id]][not(*)][not(normalize-space())]"


_UNSEEN = "self::script or self::style or self::noscript or self::template or self::head"


WRONG = 1_000  # one character in this many may be invalid, since pages contain pieces of other pages


AS_BROWSERS_DO = {  # the larger encodings that are often sent under the name of a smaller one
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "utf-8": "utf-8-sig",
    "utf-16-le": "utf-16",
    "utf-16-be": "utf-16",
}


MOST = 9_000_000  # bytes: libxml2 does not accept a text of 10 MB


LINE = 300  # characters of a title or of an author


def read(data: bytes, question: PageQuestion, limits: ReadLimits) -> Page:
    """Read a page. Raises `Unreadable` if it has no text, no link and no obstacle."""
    notes: list[str] = []
    html = decoded(data, question.charset).encode("utf-8", "replace")
    if len(html) > MOST:
        notes.append(f"Only the first {MOST:,} of {len(html):,} bytes of the page were read.")
    root, parser = _parse(html[:MOST])
    facts = PageOrigin(title_of(root)) if has_many_elements(root) else origin(root, question.url)
    text = clean(main_text(root, question))
    pages = links(root, question.url)
    obstacle = obstacle_of(root, text)
    is_truncated = is_too_deep(parser)
    if not text and not pages and obstacle is None:
        raise Unreadable("holds no text.", "document_unsafe" if is_truncated else "document_without_text")
    if len(text) > limits.characters:
        notes.append(f"The text was cut off after {limits.characters:,} characters.")
    if is_truncated:
        notes.append(NESTED_TOO_DEEPLY)
    return Page(
        text=text[: limits.characters],
        title=_line(facts.title),
        author=_line(facts.author),
        published=facts.published,
        language=language(root),
        canonical_url=canonical_url(root, question.url),
        links=tuple(pages),
        truncated=bool(notes),
        notes=tuple(notes),
        obstacle=obstacle,
    )


def _parse(html: bytes) -> tuple[Any, Any]:
    parser = lxml.html.HTMLParser(
        encoding="utf-8", remove_comments=True, remove_pis=True, collect_ids=False, default_doctype=False
    )
    try:
        return lxml.html.document_fromstring(html, parser=parser), parser
    except lxml.etree.ParserError:  # the page contains only white space
        raise Unreadable("holds no text.", "document_without_text") from None


def _line(text: str) -> str:
    return " ".join(clean(text).split())[:LINE]


def decoded(data: bytes, charset: str) -> str:
    """Decode a page. This never fails: bytes that cannot be decoded become replacement characters."""
    for encoding in _declared_encodings(data, charset):
        text = data.decode(encoding, "replace")
        if text.count("\ufffd") * WRONG <= len(text):
            return text
    return data.decode(text_encodings.found(data), "replace")


def _declared_encodings(data: bytes, charset: str) -> Iterator[str]:
    """The encodings that the page or its server declares."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF8)):
        yield text_encodings.found(data)
    for name in (charset, text_encodings.named(data)):
        encoding = _codec_name(name or "")
        if encoding:
            yield encoding


def _codec_name(name: str) -> str:
    try:
        b" ".decode(name, "replace")  # some codecs are not text encodings
    except (LookupError, ValueError):  # ValueError: the name has a null character
        return ""
    codec = codecs.lookup(name).name
    return AS_BROWSERS_DO.get(codec, codec)


def obstacle_of(root: Any, text: str) -> Obstacle | None:
    """Return the obstacle of a page, if any; `text` is its main text."""
    if len(text) >= LITTLE:
        return None
    visible_text = " ".join(" ".join(root.xpath(f".//text()[not(ancestor::*[{_UNSEEN}])]")).split())
    if root.xpath(".//input[@type='password']"):
        return "login"
    if COOKIES.search(text or visible_text) and any(map(AGREE.search, map(label, root.xpath(BUTTONS)))):
        return "consent"
    return "javascript" if _needs_script(root, visible_text) else None


def _needs_script(root: Any, visible_text: str) -> bool:
    if not root.xpath(_PROGRAMS):
        return False
    without = " ".join(part.text_content() for part in root.iter("noscript"))
    is_empty = len(visible_text) < NEXT_TO_NOTHING or (len(visible_text) < VERY_LITTLE and bool(root.xpath(_EMPTY)))
    return is_empty or bool(_SCRIPT_REQUEST.search(f"{without} {visible_text}"))


LINKS = 1_000  # of a page


LOOKED_AT = 5_000  # links that are examined; not all of them are web addresses


LINK_TEXT = 200  # characters


ADDRESS = 2_000  # characters


LONG = 300  # characters; a longer paragraph does not name the author or date of the page


_LANGUAGE = re.compile(r"[a-z]{2,3}(?=$|[-_])")


_LANGUAGES = ("./@lang", ".//meta[@http-equiv='content-language']/@content", ".//meta[@property='og:locale']/@content")


_CANONICAL = (".//link[@rel='canonical']/@href", ".//meta[@property='og:url']/@content")


_TELLING_NOTHING = ("nav", "aside", "footer", "table", "ul", "ol", "form", "svg", "style")


@dataclass(frozen=True, slots=True)
class PageOrigin:
    """Who wrote the page, and when."""

    title: str = ""
    author: str = ""
    published: str | None = None


def origin(root: Any, url: str) -> PageOrigin:
    """Extract the origin with trafilatura, without long or repetitive parts: searching those takes most of its time."""
    about = copy(root)
    lxml.etree.strip_elements(about, *_TELLING_NOTHING, with_tail=False)
    for paragraph in [paragraph for paragraph in about.iter("p") if len(paragraph.text_content()) > LONG]:
        paragraph.drop_tree()
    try:
        facts = trafilatura.extract_metadata(about, url, {"original_date": True, "extensive_search": False})
    except Exception:  # noqa: BLE001 - a page's metadata may break the library: its text is read all the same
        return PageOrigin(title_of(root))
    return PageOrigin(facts.title or "", facts.author or "", facts.date)


def title_of(root: Any) -> str:
    return root.findtext(".//title") or ""


def language(root: Any) -> str | None:
    """The language that the page declares, such as `en`; the declaration may be wrong."""
    for path in _LANGUAGES:
        for value in root.xpath(path):
            match = _LANGUAGE.match(value.strip().lower())
            if match:
                return match[0]
    return None


def canonical_url(root: Any, url: str) -> str | None:
    for path in _CANONICAL:
        for value in root.xpath(path):
            address = _address(value, url)
            if address:
                return address
    return None


def links(root: Any, url: str) -> list[LinkedPage]:
    """List each address once, without its fragment; links in the page's own text come before those in its menus."""
    base = next((_address(reference, url) for reference in root.xpath(".//base/@href")), None) or url
    pages: dict[str, LinkedPage] = {}
    for reference, element in islice(_linking(root).items(), LOOKED_AT):
        address = _address(reference, base).partition("#")[0]
        if address and len(pages) < LINKS:
            pages.setdefault(address, LinkedPage(address, " ".join(clean(element.text_content()).split())[:LINK_TEXT]))
    return list(pages.values())


def _linking(root: Any) -> dict[str, Any]:
    """The first element of each link, by its address as written."""
    around = {link for tag in AROUND for part in root.iter(tag) for link in part.iter("a", "area")}
    elements: dict[str, Any] = {}
    for is_around in (False, True):
        for element in root.iter("a", "area"):
            if (element in around) is is_around and element.get("href"):
                elements.setdefault(element.get("href"), element)
    return elements


def _address(reference: str, base: str) -> str:
    """The absolute address; empty if it is not a web address or is far too long."""
    try:
        address = str(ada_url.URL(reference, base=base).href)
    except ValueError:
        return ""
    return address if address.startswith(("https://", "http://")) and len(address) <= ADDRESS else ""


FEW = 500  # characters; a page with fewer is a page of a few lines


NOT_SURELY_MORE = 3_000  # characters; a shorter result may include the menus of a short page


MANY = 50_000  # elements: trafilatura takes 50 to 100 seconds for a million of them


EMPHASIS = ("b", "strong", "i", "em", "u")  # its marks would end up inside quotations


AROUND = {"header", "nav", "aside", "footer"}


HEADINGS = ("h1", "h2", "h3")


_LIST_OR_TABLE = re.compile(r"(?:\| |- |1\. )")


_WORD = re.compile(r"\w+")


_ENDS = re.compile(r"[ \t]+$", re.MULTILINE)


_ESCAPE = re.compile(r"\\([*_`~\[\]<>+.)-])")  # these would also end up inside quotations


def main_text(root: Any, question: PageQuestion) -> str:
    """Return the main text of a parsed page. The page is not modified unless it has too many elements."""
    if has_many_elements(root):
        return _render(main_blocks(_without_frame(root)), question.text_format)
    page = copy(root)
    lxml.etree.strip_tags(page, *EMPHASIS)
    drop_consent(page)
    _open(page)
    _mark_main_part(page)
    text = _text_by_trafilatura(page, question)
    if question.depth == "basic" and len(text) >= NOT_SURELY_MORE:
        return text
    blocks = main_blocks(_without_frame(page))
    is_short = sum(len(block.text) for block in blocks) < FEW
    if is_short or not text or (question.depth == "advanced" and _lacks(text, blocks)):
        return _render(blocks, question.text_format)
    return text


def has_many_elements(root: Any) -> bool:
    """Return whether reading the page in the usual way would take far too long."""
    return bool(root.xpath("count(//*)") > MANY)


def _text_by_trafilatura(page: Any, question: PageQuestion) -> str:
    extract = trafilatura.bare_extraction(
        page,
        url=question.url,
        fast=True,
        favor_recall=question.depth == "advanced",
        include_comments=False,
        include_tables=True,
        include_formatting=question.text_format == "markdown",
    )
    if extract is None or isinstance(extract, dict):
        return ""
    text = _ENDS.sub("", extract.text or "")
    return _ESCAPE.sub(r"\1", text) if question.text_format == "markdown" else text


def _open(page: Any) -> None:
    """Turn asides into articles if they hold most of the text, and show parts that are hidden until found."""
    asides = list(page.iter("aside"))
    if sum(len(aside.text_content()) for aside in asides) * 2 > len(page.text_content()):
        for aside in asides:
            aside.tag = "article"
    for part in page.xpath(".//*[@hidden='until-found']"):
        del part.attrib["hidden"]


def _mark_main_part(page: Any) -> None:
    """Wrap paragraphs that are directly in the body in a main part; otherwise they would count as stray."""
    body = page.find("body")
    if body is None or body.find("p") is None or any(page.find(f".//{tag}") is not None for tag in ("main", "article")):
        return
    main = lxml.etree.SubElement(body, "main")
    main.text, body.text = body.text, None
    main.extend(part for part in list(body) if part is not main and part.tag not in AROUND)


def _without_frame(page: Any) -> Any:
    """Remove everything around the main part; a header with a heading is kept, since it is not a menu."""
    lxml.etree.strip_elements(page, "nav", "aside", "footer", with_tail=False)
    for header in [header for header in page.iter("header") if next(header.iter(*HEADINGS), None) is None]:
        header.drop_tree()
    return page


def _lacks(text: str, blocks: list[OutlineBlock]) -> bool:
    """Return whether lists or tables are missing from the text."""
    words = _words(text)
    return any(_words(block.text) not in words for block in blocks if _LIST_OR_TABLE.match(block.text))


def _words(text: str) -> str:
    return f" {' '.join(_WORD.findall(text))} "


def _render(blocks: list[OutlineBlock], text_format: TextFormat) -> str:
    marks = text_format == "markdown"
    return "\n\n".join(f"{'#' * block.level} {block.text}" if marks and block.level else block.text for block in blocks)
