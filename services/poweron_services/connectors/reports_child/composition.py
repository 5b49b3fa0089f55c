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
from poweron_services.connectors.reports_child.table_figures import figure_of
from poweron_services.connectors.reports_child.words import date, word
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
_ESCAPED: Final = re.compile(r"^\\(\\*#{1,2}(?: |$))", re.MULTILINE)
_PLACE: Final = re.compile(r"(?P<kind>page|sheet|slide) (?P<number>.+)|section (?P<title>.+)", re.DOTALL)
_NOTES: Final = "notes"


def composed(draft: Draft) -> Report:
    """Compose a report from its draft. The same draft always gives the same report."""
    title = UNSEEN.sub("", " ".join(draft.title.split())) or AUTHOR
    language = draft.language or "en"
    chapters = [_chapter(part, draft, title) for part in _ordered(draft.parts)]
    body = _with_anchors(_with_figures(_aligned(_once(chapters)), language))
    sources = _levelled(blocks(draft.sources), 1)
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
    )


def _ordered(parts: Sequence[Part]) -> list[Part]:
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
        return _extracted(part, draft.language or "en")
    found = list(blocks(part.text))
    if _repeats_title(found, title, alone=len(draft.parts) == 1):
        found = found[1:]
    if len(draft.parts) > 1 and not (found and isinstance(found[0], Heading)):
        name = word("result", draft.language) if part.kind == "written" else _shown_name(part.name)
        found.insert(0, Heading(1, (Run(name),)))
    return list(_levelled(found, 1))


def _repeats_title(found: Sequence[Block], title: str, *, alone: bool) -> bool:
    """Return whether a text begins with the title of the report or, if it is the only text, with a similar heading."""
    if not found or not isinstance(found[0], Heading):
        return False
    said, titled = (_words(text) for text in (text_of(found[0].runs), title))
    top = [block for block in found if isinstance(block, Heading) and block.level <= found[0].level]
    shared = len(said & titled)
    return text_of(found[0].runs).strip() == title or (
        alone and len(top) == 1 and bool(shared) and shared * 2 >= min(len(said), len(titled))
    )


def _words(text: str) -> set[str]:
    return {word for word in text.casefold().split() if len(word) > SHORT}


def _extracted(part: Part, language: str) -> list[Block]:
    """The blocks of an extracted document: its name as the heading, with its pages and sheets below."""
    head = _EXTRACTED.match(part.text)
    name, body = (head["name"].strip(), part.text[head.end() :]) if head else ("", part.text)
    found: list[Block] = []
    for piece in re.split(r"^(?=## )", body, flags=re.MULTILINE):
        first, _, rest = piece.partition("\n")
        if first.startswith("## "):
            found.append(Heading(2, (Run(_place(UNSEEN.sub("", first[3:]).strip(), language)),)))
        else:
            rest = piece
        found += _levelled(blocks(_ESCAPED.sub(r"\1", rest), keep_lines=True), 3)
    pages = [block for block in found if isinstance(block, Heading) and block.level == 2]
    if len(pages) == 1 and found[0] is pages[0]:
        found = [replace(block, level=block.level - 1) if isinstance(block, Heading) else block for block in found[1:]]
    return [Heading(1, (Run(UNSEEN.sub("", name) or _shown_name(part.name)),)), *_levelled(found, 2)]


def _place(locator: str, language: str) -> str:
    if locator == _NOTES:
        return word("notes", language)
    found = _PLACE.fullmatch(locator)
    if found is None:
        return locator
    return found["title"] or word(found["kind"], language, number=found["number"])


def _shown_name(name: str) -> str:
    return UNSEEN.sub("", name.removesuffix(".md")) or AUTHOR


def _levelled(found: Iterable[Block], top: int) -> tuple[Block, ...]:
    """The blocks with headings from level `top` on, each at most one level below the previous one."""
    above: list[int] = []
    levelled: list[Block] = []
    for block in found:
        if isinstance(block, Heading):
            while above and above[-1] >= block.level:
                above.pop()
            above.append(block.level)
        levelled.append(_at_level(block, min(DEEPEST, top + len(above) - 1)))
    return tuple(levelled)


def _at_level(block: Block, level: int) -> Block:
    return replace(block, level=level) if isinstance(block, Heading) else block


def _once(chapters: Iterable[Sequence[Block]]) -> tuple[Block, ...]:
    """Join all chapters, without blocks that an earlier chapter contains and without headings that have no content."""
    said: set[Block] = set()
    kept: list[Block] = []
    for chapter in chapters:
        kept += [block for block in chapter if isinstance(block, Heading) or block not in said]
        said |= {block for block in chapter if len(_all_text(block)) >= LEAST_REPEATED}
    return tuple(_without_empty_headings(kept))


def _without_empty_headings(found: Sequence[Block]) -> Iterator[Block]:
    for index, block in enumerate(found):
        if not isinstance(block, Heading):
            yield block
            continue
        following = next(iter(found[index + 1 :]), None)
        if following is not None and not (isinstance(following, Heading) and following.level <= block.level):
            yield block


def _all_text(block: Block) -> str:
    match block:
        case ReportTable():
            return "".join(text_of(cell) for row in (block.header, *block.rows) for cell in row)
        case ReportQuote():
            return "".join(map(_all_text, block.blocks))
        case _:
            return repr(block)


def _aligned(found: Iterable[Block]) -> tuple[Block, ...]:
    """Align columns of numbers to the end."""
    return tuple(_with_numbers_right(block) if isinstance(block, ReportTable) else block for block in found)


def _with_numbers_right(table: ReportTable) -> ReportTable:
    columns = ([text_of(row[column]) for row in table.rows] for column in range(table.columns))
    ends = (
        "end" if (column or table.columns == 1) and is_numeric(cells) else table.aligned[column]  # column 0 names rows
        for column, cells in enumerate(columns)
    )
    return replace(table, aligned=tuple(ends))


def _with_figures(found: Sequence[Block], language: str) -> tuple[Block, ...]:
    """Add a figure below each table that can be drawn as one."""
    shown: list[Block] = []
    under, drawn = "", 0
    for block in found:
        shown.append(block)
        under = text_of(block.runs) if isinstance(block, Heading) else under
        if (
            isinstance(block, ReportTable)
            and drawn < MAX_FIGURES
            and (figure := figure_of(block, under, language, drawn + 1))
        ):
            shown.append(figure)
            drawn += 1
    return tuple(shown)


def _with_anchors(found: Iterable[Block], name: str = "section") -> tuple[Block, ...]:
    return tuple(
        replace(block, anchor=f"{name}-{number}") if isinstance(block, Heading) else block
        for number, block in enumerate(found, start=1)
    )


def _is_long(found: Iterable[Block]) -> bool:
    blocks_ = list(found)
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
    counted = word("source" if count == 1 else "sources", language, count=count) if count else ""
    return tuple(line for line in (date(draft.day, language), by, counted) if line)


def _keywords(found: Iterable[Block]) -> tuple[str, ...]:
    names = (text_of(block.runs) for block in found if isinstance(block, Heading) and block.level == 1)
    return tuple(dict.fromkeys(name.replace(",", " ").strip()[:60] for name in names if name.strip()))[:MAX_KEYWORDS]
