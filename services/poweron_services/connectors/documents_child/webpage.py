"""The reader of HTML: headings, paragraphs, lists and tables of the main content, without menus, scripts and forms.

libxml2 stops at 256 nested elements and reports it only in its error log; a page cut off there is marked as truncated.
"""

import re
from collections.abc import Iterator
from typing import Any

import lxml.html  # type: ignore[import-untyped] # it has no stubs

from poweron_services.connectors.documents_child import text_encodings
from poweron_services.connectors.documents_child.headings import OutlineBlock, sections
from poweron_services.connectors.documents_child.limits import ReadLimits
from poweron_services.connectors.documents_child.pipe_tables import first_row_is_header, pipe_table
from poweron_services.connectors.documents_child.plain_text import decoded
from poweron_services.connectors.documents_child.readers import Note, Part

MAIN_SHARE = 0.5  # of the page's text; a main part with less is not all of the main content
NAME_WORDS = 3  # a link text with more words is rarely a menu entry
MENU_ENTRIES = 4
NESTED_TOO_DEEPLY = "The page is nested too deeply; what lies deeper than 256 levels could not be read."
BREAK = "\v"  # replaces <br> until white space is normalised

BUTTONS = ".//button | .//input[@type='submit' or @type='button'] | .//a[@role='button']"
AGREE = re.compile(
    r"\b(?:accept|agree|consent|reject|allow|zustimm\w*|akzeptier\w*|ablehnen|accepter|accepte|refuser|aceptar|rechazar"
    r"|accetta\w*|rifiuta\w*)\b",
    re.IGNORECASE,
)
COOKIES = re.compile(r"\bcookies?\b", re.IGNORECASE)
_WHOLE_PAGE = {"html", "body", "main", "article"}
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_NOISE = {
    *("script", "style", "noscript", "template", "svg", "math", "iframe", "object", "canvas", "audio", "video"),
    *("nav", "button", "select", "input", "textarea", "dialog", "menu", "head", "map", "link", "meta"),
}
_VISIBLE = {None, "until-found"}
"""Values of the attribute `hidden` with which users can still find a text; None means that the attribute is missing."""
_NOISY_ROLES = {"navigation", "banner", "contentinfo", "search", "menu", "menubar", "dialog", "alertdialog"}
_NOISY_NAME = re.compile(
    r"(?:^|[-_\s])(?:nav|navbar|navigation|navbox|menu|breadcrumbs?|cookie\w*|mw-editsection|mw-jump-link|catlinks|"
    r"sidebar|skip-link|social|share|site-footer|site-header|pagination|vector-header\S*|noprint)(?:$|[-_\s])"
)
_INLINE = {
    *("a", "abbr", "b", "bdi", "bdo", "cite", "code", "data", "del", "dfn", "em", "font", "i", "ins", "kbd", "label"),
    *("mark", "q", "s", "samp", "small", "span", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr", "br", "img"),
}


def read(data: bytes, limits: ReadLimits) -> Iterator[Part]:
    text, notes = _text(data, limits)
    parser = lxml.html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    root = lxml.html.document_fromstring(text.encode(), parser=parser)
    drop_consent(root)
    yield from sections(_with_title(root, main_blocks(root)))
    yield from notes
    if is_too_deep(parser):
        yield Note(NESTED_TOO_DEEPLY, truncated=True)


def is_too_deep(parser: Any) -> bool:
    """Return whether the parsed page was cut off because it is nested too deeply."""
    return any("depth" in entry.message for entry in parser.error_log)


def main_blocks(root: Any) -> list[OutlineBlock]:
    """Return the headings, paragraphs, lists and tables of the main content of a parsed page."""
    return list(_blocks(_main(root)))


def drop_consent(root: Any) -> None:
    """Remove requests for consent to cookies: the smallest element with both the question and the button."""
    for button in (button for button in root.xpath(BUTTONS) if AGREE.search(label(button))):
        request = next((part for part in button.iterancestors() if COOKIES.search(part.text_content())), None)
        if (
            request is None
            or request.tag in _WHOLE_PAGE
            or request.getparent() is None
            or request.find(".//h1") is not None
        ):
            continue
        request.drop_tree()


def label(button: Any) -> str:
    """Return the label of a button, which may come from its text, value or ARIA label."""
    return f"{button.text_content()} {button.get('value', '')} {button.get('aria-label', '')}"


def _text(data: bytes, limits: ReadLimits) -> tuple[str, list[Note]]:
    try:
        return decoded(data, limits, encoding=text_encodings.named(data))
    except LookupError:  # an unknown encoding
        return decoded(data, limits)


def _with_title(root: Any, blocks: list[OutlineBlock]) -> list[OutlineBlock]:
    """Put the title of the page before the blocks, unless the first heading says the same."""
    title = " ".join((root.findtext(".//title") or "").split())
    first = next((block.text for block in blocks if block.level), "")
    return blocks if not title or (first and first in title) else [OutlineBlock(title), *blocks]


def _main(root: Any) -> Any:
    """The element that the page itself marks as its main part, if it holds most of the text; else the body."""
    body = root.find("body") if root.find("body") is not None else root
    length = len(body.text_content())
    for part in (*body.iterfind(".//main"), *body.iterfind(".//article")):
        if len(part.text_content()) > length * MAIN_SHARE:
            return part
    return body


def _blocks(element: Any) -> Iterator[OutlineBlock]:
    """Yield the content of the element in reading order; text outside of any paragraph becomes a paragraph."""
    loose = [element.text or ""]
    for child in element:
        if _is_inline(child):
            loose.append(_inline(child))
        elif not _is_noise(child):
            yield from _paragraph(loose)
            loose = []
            yield from _block(child)
        loose.append(child.tail or "")
    yield from _paragraph(loose)


def _block(element: Any) -> Iterator[OutlineBlock]:
    tag = element.tag
    if tag in _HEADINGS:
        text = _flat(element)
        if text:
            yield OutlineBlock(text, _HEADINGS[tag])
    elif tag == "table":
        yield from _table(element)
    elif tag in {"ul", "ol"}:
        items = [] if _is_menu(element) else list(_items(element))
        if items:
            yield OutlineBlock("\n".join(items))
    elif tag == "dl":
        yield OutlineBlock("\n".join(_terms(element)))
    elif tag == "pre":
        yield OutlineBlock(f"```\n{element.text_content().strip()}\n```")
    else:
        yield from _blocks(element)


def _table(table: Any) -> Iterator[OutlineBlock]:
    """Yield the rows of the table; a table that holds other tables or headings is only page layout."""
    if any(next(table.iter(tag), None) is not None for tag in ("h1", "h2", "h3")) or len(list(table.iter("table"))) > 1:
        yield from _blocks(table)
        return
    caption = table.find("caption")
    if caption is not None:
        yield OutlineBlock(_flat(caption))
    rows = [[cell for cell in row if cell.tag in {"td", "th"}] for row in table.iter("tr")]
    texts = [_spread(row) for row in rows if row]
    has_head = bool(rows) and len(rows[0]) > 1 and all(cell.tag == "th" for cell in rows[0])
    text = pipe_table(texts, header=has_head or first_row_is_header(texts))
    if text:
        yield OutlineBlock(text)


def _spread(row: list[Any]) -> list[str]:
    """The texts of the cells, each followed by empty ones for the other columns that it spans."""
    texts: list[str] = []
    for cell in row:
        span = cell.get("colspan", "1")
        width = min(int(span), 50) if span.isdecimal() else 1
        texts += [_flat(cell), *[""] * (width - 1)]
    return texts


def _items(items: Any, indent: str = "") -> Iterator[str]:
    is_numbered = items.tag == "ol"
    for number, item in enumerate(items.iterchildren("li"), start=1):
        inner_lists = [child for child in item if child.tag in {"ul", "ol"}]
        text = " ".join("".join(_inline_parts(item, inner_lists)).split())
        if text:
            yield f"{indent}{f'{number}.' if is_numbered else '-'} {text}"
        for inner in inner_lists:
            yield from _items(inner, indent + "  ")


def _terms(terms: Any) -> Iterator[str]:
    for child in terms.iter("dt", "dd"):
        yield f"{_flat(child)}:" if child.tag == "dt" else f"  {_flat(child)}"


def _is_menu(items: Any) -> bool:
    """Return whether the list holds nothing but short links."""
    entries = list(items.iter("li"))
    if len(entries) < MENU_ENTRIES:
        return False
    link_count = sum(len(_flat(link).split()) <= NAME_WORDS for link in items.iter("a"))
    in_links = sum(len(_flat(link)) for link in items.iter("a"))
    return link_count >= len(entries) and in_links >= len(_flat(items)) * 0.9


def _paragraph(loose: list[str]) -> Iterator[OutlineBlock]:
    lines = [" ".join(line.split()) for line in "".join(loose).split(BREAK)]
    text = "\n".join(line for line in lines if line)
    if text:
        yield OutlineBlock(text)


def _flat(element: Any) -> str:
    return " ".join("".join(_inline_parts(element)).replace(BREAK, " ").split())


def _inline(element: Any) -> str:
    return BREAK if element.tag == "br" else "".join(_inline_parts(element))


def _inline_parts(element: Any, without: Any = ()) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        if child not in without and not _is_noise(child):
            yield _inline(child) if _is_inline(child) else f" {_inline(child)} "
        yield child.tail or ""


def _is_inline(element: Any) -> bool:
    """Return whether the element flows with the text around it; a link around whole paragraphs does not."""
    return element.tag in _INLINE and not _is_noise(element) and all(_is_inline(child) for child in element)


def _is_noise(element: Any) -> bool:
    if not isinstance(element.tag, str) or element.tag in _NOISE or element.get("hidden") not in _VISIBLE:
        return True
    if element.get("role") in _NOISY_ROLES or element.get("aria-hidden") == "true" or "display:none" in _style(element):
        return True
    return element.tag not in _WHOLE_PAGE and any(
        _NOISY_NAME.search(element.get(name, "").lower()) for name in ("class", "id")
    )


def _style(element: Any) -> str:
    style: str = element.get("style", "")
    return style.replace(" ", "").lower()
