"""Composition of a report from its parts: text written for the user first, then tables, then other documents.

Heading levels have no gaps, and nothing is repeated.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from poweron_services.connectors.reports_child.markdown_blocks import UNSEEN, blocks
from poweron_services.connectors.reports_child.report import (
    Block,
    Code,
    Draft,
    Figure,
    Heading,
    Listing,
    Paragraph,
    Part,
    Report,
    ReportQuote,
    ReportTable,
    Run,
    text_of,
)
from poweron_services.connectors.reports_child.table_figures import date, figure_of, word
from poweron_services.text.numbers import is_numeric

AUTHOR: Final = "PowerOn"
LEAST_FOR_CONTENTS: Final = 3  # headings
LONG: Final = 120  # lines, about two and a half pages; a shorter report needs no table of contents
LINE: Final = 90  # characters
LEAST_REPEATED: Final = 40  # characters; shorter blocks may be repeated
SHORT: Final = 3  # letters; words this short say nothing about the subject of a title
DEEPEST: Final = 5
MAX_FIGURES: Final = 20
MAX_KEYWORDS: Final = 10

_EXTRACTED: Final = re.compile(r"\A# ?(?P<name>[^\n]*)\n\s*<!-- [^\n]* -->\n?")
_ESCAPE: Final = re.compile(r"^\\(\\*#{1,2}(?: |$))", re.MULTILINE)
_PLACE: Final = re.compile(r"(?P<kind>page|sheet|slide) (?P<number>.+)|section (?P<title>.+)", re.DOTALL)
_NOTES: Final = "notes"


def composed(draft: Draft) -> Report:
    """Compose a report from its draft. The same draft always gives the same report."""
    title = UNSEEN.sub("", " ".join(draft.title.split())) or AUTHOR
    language = draft.language or "en"
    chapters = [_chapter(part, draft, title) for part in _sort(draft.parts)]
    body = _with_anchors(_with_figures(_with_alignment(_once(chapters)), language))
    sources = _with_levels(blocks(draft.sources), 1)
    sources = tuple(_with_anchors(sources, "source")) if sources else ()
    return Report(
        title=title,
        language=language,
        author=AUTHOR,
        day=draft.day,
        cover=_cover(draft, language),
        contents=word("contents", language) if _is_long(body) else "",
        blocks=body,
        sources=sources,
        sources_text=draft.sources,
        keywords=_keywords(body),
        provenance=draft.provenance,
    )


def _sort(parts: Sequence[Part]) -> list[Part]:
    """Sort the parts: written for the user, then mostly tables, then other documents, each group in its given order."""
    return sorted(parts, key=_rank)


def _rank(part: Part) -> int:
    if part.kind == "written":
        return 0
    lines = [line for line in part.text.splitlines() if line.strip()]
    tables = sum(line.startswith("|") for line in lines)
    return 1 if lines and tables * 2 > len(lines) else 2


def _chapter(part: Part, draft: Draft, title: str) -> list[Block]:
    """The blocks of a part, with headings from level 1 on."""
    if part.kind == "extracted":
        return _document_blocks(part, draft.language or "en")
    content = list(blocks(part.text))
    if _repeats_title(content, title, alone=len(draft.parts) == 1):
        content = content[1:]
    if len(draft.parts) > 1 and not (content and isinstance(content[0], Heading)):
        name = word("result", draft.language) if part.kind == "written" else _display_name(part.name)
        content.insert(0, Heading(1, (Run(name),)))
    return list(_with_levels(content, 1))


def _repeats_title(content: Sequence[Block], title: str, *, alone: bool) -> bool:
    """Return whether a text begins with the title of the report or, if it is the only text, with a similar heading."""
    if not content or not isinstance(content[0], Heading):
        return False
    words, title_words = (_words(text) for text in (text_of(content[0].runs), title))
    top = [block for block in content if isinstance(block, Heading) and block.level <= content[0].level]
    overlap = len(words & title_words)
    return text_of(content[0].runs).strip() == title or (
        alone and len(top) == 1 and bool(overlap) and overlap * 2 >= min(len(words), len(title_words))
    )


def _words(text: str) -> set[str]:
    return {word for word in text.casefold().split() if len(word) > SHORT}


def _document_blocks(part: Part, language: str) -> list[Block]:
    """The blocks of an extracted document: its name as the heading, with its pages and sheets below."""
    head = _EXTRACTED.match(part.text)
    name, body = (head["name"].strip(), part.text[head.end() :]) if head else ("", part.text)
    content: list[Block] = []
    for piece in re.split(r"^(?=## )", body, flags=re.MULTILINE):
        first, _, rest = piece.partition("\n")
        if first.startswith("## "):
            content.append(Heading(2, (Run(_place(UNSEEN.sub("", first[3:]).strip(), language)),)))
        else:
            rest = piece
        content += _with_levels(blocks(_ESCAPE.sub(r"\1", rest), keep_lines=True), 3)
    pages = [block for block in content if isinstance(block, Heading) and block.level == 2]
    if len(pages) == 1 and content[0] is pages[0]:
        content = [
            replace(block, level=block.level - 1) if isinstance(block, Heading) else block for block in content[1:]
        ]
    return [Heading(1, (Run(UNSEEN.sub("", name) or _display_name(part.name)),)), *_with_levels(content, 2)]


def _place(locator: str, language: str) -> str:
    if locator == _NOTES:
        return word("notes", language)
    match = _PLACE.fullmatch(locator)
    if match is None:
        return locator
    return match["title"] or word(match["kind"], language, number=match["number"])


def _display_name(name: str) -> str:
    return UNSEEN.sub("", name.removesuffix(".md")) or AUTHOR


def _with_levels(content: Iterable[Block], top: int) -> tuple[Block, ...]:
    """The blocks with headings from level `top` on, each at most one level below the previous one."""
    above: list[int] = []
    result: list[Block] = []
    for block in content:
        if isinstance(block, Heading):
            while above and above[-1] >= block.level:
                above.pop()
            above.append(block.level)
        result.append(_at_level(block, min(DEEPEST, top + len(above) - 1)))
    return tuple(result)


def _at_level(block: Block, level: int) -> Block:
    return replace(block, level=level) if isinstance(block, Heading) else block


def _once(chapters: Iterable[Sequence[Block]]) -> tuple[Block, ...]:
    """Join all chapters, without blocks that an earlier chapter contains and without headings that have no content."""
    earlier: set[Block] = set()
    result: list[Block] = []
    for chapter in chapters:
        result += [block for block in chapter if isinstance(block, Heading) or block not in earlier]
        earlier |= {block for block in chapter if len(_all_text(block)) >= LEAST_REPEATED}
    return tuple(_without_empty_headings(result))


def _without_empty_headings(content: Sequence[Block]) -> Iterator[Block]:
    for index, block in enumerate(content):
        if not isinstance(block, Heading):
            yield block
            continue
        next_block = next(iter(content[index + 1 :]), None)
        if next_block is not None and not (isinstance(next_block, Heading) and next_block.level <= block.level):
            yield block


def _all_text(block: Block) -> str:
    match block:
        case ReportTable():
            return "".join(text_of(cell) for row in (block.header, *block.rows) for cell in row)
        case ReportQuote():
            return "".join(map(_all_text, block.blocks))
        case _:
            return repr(block)


def _with_alignment(content: Iterable[Block]) -> tuple[Block, ...]:
    """Align columns of numbers to the end."""
    return tuple(_with_numbers_right(block) if isinstance(block, ReportTable) else block for block in content)


def _with_numbers_right(table: ReportTable) -> ReportTable:
    columns = ([text_of(row[column]) for row in table.rows] for column in range(table.columns))
    ends = (
        "end" if (column or table.columns == 1) and is_numeric(cells) else table.aligned[column]  # column 0 names rows
        for column, cells in enumerate(columns)
    )
    return replace(table, aligned=tuple(ends))


def _with_figures(content: Sequence[Block], language: str) -> tuple[Block, ...]:
    """Add a figure below each table that can be drawn as one."""
    result: list[Block] = []
    under, count = "", 0
    for block in content:
        result.append(block)
        under = text_of(block.runs) if isinstance(block, Heading) else under
        if (
            isinstance(block, ReportTable)
            and count < MAX_FIGURES
            and (figure := figure_of(block, under, language, count + 1))
        ):
            result.append(figure)
            count += 1
    return tuple(result)


def _with_anchors(content: Iterable[Block], name: str = "section") -> tuple[Block, ...]:
    return tuple(
        replace(block, anchor=f"{name}-{number}") if isinstance(block, Heading) else block
        for number, block in enumerate(content, start=1)
    )


def _is_long(content: Iterable[Block]) -> bool:
    blocks_ = list(content)
    headings = sum(isinstance(block, Heading) and block.level <= 2 for block in blocks_)
    return headings >= LEAST_FOR_CONTENTS and sum(map(_lines, blocks_)) >= LONG


def _lines(block: Block) -> int:
    """Estimate how many lines a block takes on paper."""
    match block:
        case Heading() | Paragraph():
            return 2 + len(text_of(block.runs)) // LINE
        case Listing():
            return sum(_lines(inner) for item in block.items for inner in item)
        case ReportQuote():
            return sum(map(_lines, block.blocks))
        case Code():
            return 1 + block.text.count("\n")
        case ReportTable():
            return 2 + len(block.rows)
        case Figure():
            return 16


def _cover(draft: Draft, language: str) -> tuple[str, ...]:
    name = UNSEEN.sub("", " ".join(draft.requester.split()))
    by = word("for", language, name=name) if name else word("by", language)
    count = draft.source_count
    source_text = word("source" if count == 1 else "sources", language, count=count) if count else ""
    return tuple(line for line in (date(draft.day, language), by, source_text) if line)


def _keywords(content: Iterable[Block]) -> tuple[str, ...]:
    names = (text_of(block.runs) for block in content if isinstance(block, Heading) and block.level == 1)
    return tuple(dict.fromkeys(name.replace(",", " ").strip()[:60] for name in names if name.strip()))[:MAX_KEYWORDS]
