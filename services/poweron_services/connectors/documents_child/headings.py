"""The reader of Markdown: the text stays as it is and is only split at its headings."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from poweron_services.connectors.documents_child import plain_text
from poweron_services.connectors.documents_child.document import Section
from poweron_services.connectors.documents_child.limits import ReadLimits
from poweron_services.connectors.documents_child.plain_text import decoded
from poweron_services.connectors.documents_child.readers import Note, Part

LOCATOR_LENGTH = 120  # characters of a path of headings
BETWEEN = " > "


@dataclass(frozen=True, slots=True)
class OutlineBlock:
    """A heading of the given level, or text if the level is 0."""

    text: str
    level: int = 0


_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(=+|-{3,})[ \t]*$")


def read(data: bytes, limits: ReadLimits) -> Iterator[Part]:
    if len(data) > limits.whole_text:
        yield Note("The text is too long to look for its headings and was read as plain text.")
        yield from plain_text.read(data, limits)
        return
    text, notes = decoded(data, limits)
    yield from sections(list(_blocks(text.splitlines())))
    yield from notes


def _blocks(lines: list[str]) -> Iterator[OutlineBlock]:
    paragraph: list[str] = []
    fence = ""
    for line in lines:
        heading = None if fence else _heading(line, paragraph)
        if heading is None:
            fence = _fence(line, fence)
            paragraph.append(line)
            continue
        if any(paragraph):
            yield OutlineBlock("\n".join(paragraph))
        paragraph = []
        yield heading
    if any(paragraph):
        yield OutlineBlock("\n".join(paragraph))


def _heading(line: str, above: list[str]) -> OutlineBlock | None:
    """The heading in this line, or in the line above if this one underlines it, which is then removed from `above`."""
    match = _HEADING.match(line)
    if match:
        return OutlineBlock(match[2], len(match[1]))
    alone = above and above[-1].strip() and not (len(above) > 1 and above[-2].strip())
    underline = _UNDERLINE.match(line)
    if underline and alone and not above[-1].lstrip().startswith(("|", "-", ">", "*")):
        return OutlineBlock(above.pop().strip(), 1 if underline[1].startswith("=") else 2)
    return None


def _fence(line: str, fence: str) -> str:
    mark = _FENCE.match(line)
    if mark is None:
        return fence
    if not fence:
        return mark[1]
    return "" if mark[1].startswith(fence) else fence


def sections(blocks: Sequence[OutlineBlock]) -> Iterator[Section]:
    """Yield a section for each heading with text, named by its path of headings without the title of the document."""
    title = _title(blocks)
    path: list[OutlineBlock] = []
    texts: list[str] = []
    for block in blocks:
        if not block.level:
            texts.append(block.text)
            continue
        if texts:
            yield _section(path, texts)
        path = [above for above in path if above.level < block.level and above is not title] + [block]
        texts = [block.text] if block is title else []
    if texts:
        yield _section(path, texts)


def _section(path: Sequence[OutlineBlock], texts: Sequence[str]) -> Section:
    name = BETWEEN.join(block.text for block in path)
    return Section(f"section {name}"[:LOCATOR_LENGTH] if path else "", "\n\n".join(texts))


def _title(blocks: Sequence[OutlineBlock]) -> OutlineBlock | None:
    """The first heading, if there are other headings and all of them are of a deeper level; else None."""
    headings = [block for block in blocks if block.level]
    if len(headings) > 1 and all(heading.level > headings[0].level for heading in headings[1:]):
        return headings[0]
    return None
