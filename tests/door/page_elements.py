"""Pages as a parser of HTML sees them."""

from typing import Any

from lxml import html as lxml_html
from opened_door import Door

Element = Any
_OF_TEXTS = {"wbr", "del", "ins"}
"""What the words of a text decide."""
_PLACED = "ancestor::div[contains(@class, 'answer')] or ancestor-or-self::*[@data-label='Step']"
"""What Markdown, or how long a step waited, decides."""


async def parsed(door: Door, path: str) -> Element:
    """Fetch a page and parse it."""
    response = await door.http.get(path, headers={"Accept": "text/html"})
    assert response.status_code < 500, (path, response.text)
    return lxml_html.document_fromstring(response.content, parser=lxml_html.HTMLParser(encoding="utf-8"))


def region(page: Element, label: str) -> str:
    """Return the text of a block with a label."""
    (block,) = page.xpath("//pre[@aria-label=$label]", label=label)
    text: str = block.text_content()
    return text.removeprefix("\n")


def structure(page: Element) -> list[tuple[str, tuple[str, ...]]]:
    """Return each element with the names of its attributes, in order.

    Those of answers, which are Markdown, of the times that a step waited, marks of differences and places where a line
    may break are left out.
    """
    return [
        (element.tag, tuple(sorted(element.attrib)))
        for element in page.iter()
        if (element.tag not in _OF_TEXTS or element.attrib) and not element.xpath(_PLACED)
    ]
