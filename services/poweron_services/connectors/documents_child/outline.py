"""Sections, each made of a heading and the text below it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from poweron_services.connectors.documents_child.document import Section

LOCATOR_LENGTH = 120  # characters of a path of headings
BETWEEN = " > "


@dataclass(frozen=True, slots=True)
class Block:
    """A heading of the given level, or text if the level is 0."""

    text: str
    level: int = 0


def sections(blocks: Sequence[Block]) -> Iterator[Section]:
    """Yield a section for each heading with text, named by its path of headings without the title of the document."""
    title = _title(blocks)
    path: list[Block] = []
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


def _section(path: Sequence[Block], texts: Sequence[str]) -> Section:
    name = BETWEEN.join(block.text for block in path)
    return Section(f"section {name}"[:LOCATOR_LENGTH] if path else "", "\n\n".join(texts))


def _title(blocks: Sequence[Block]) -> Block | None:
    """The first heading, if there are other headings and all of them are of a deeper level; else None."""
    headings = [block for block in blocks if block.level]
    if len(headings) > 1 and all(heading.level > headings[0].level for heading in headings[1:]):
        return headings[0]
    return None
