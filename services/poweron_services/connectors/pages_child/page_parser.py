"""Reading of an HTML page into its main text and metadata.

libxml2 stops at 256 nested elements and reports it only in its error log; a page cut there is marked as truncated.
"""

import codecs
import re
from collections.abc import Iterator
from typing import Any

import lxml.html  # type: ignore[import-untyped] # it has no stubs

from poweron_services.connectors.documents_child import text_encodings
from poweron_services.connectors.documents_child.document import Unreadable
from poweron_services.connectors.documents_child.limits import ReadLimits
from poweron_services.connectors.documents_child.readers import clean
from poweron_services.connectors.documents_child.webpage import (
    AGREE,
    BUTTONS,
    COOKIES,
    NESTED_TOO_DEEPLY,
    is_too_deep,
    label,
)
from poweron_services.connectors.pages_child.main_text import has_many_elements, main_text
from poweron_services.connectors.pages_child.page_answers import Obstacle, Page, PageQuestion
from poweron_services.connectors.pages_child.page_facts import (
    PageOrigin,
    canonical_url,
    language,
    links,
    origin,
    title_of,
)

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
