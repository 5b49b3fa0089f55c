"""A document's markdown taken apart: sections, and in them headings, tables, lines and prose.

Reads what the action `document.extract` writes: `# name`, then a `## page 2` for every part. Any
other markdown is read as well: there each heading begins a section.
"""

import re
from dataclasses import dataclass
from typing import Literal

from poweron_services.models.prompts import SourceText

MAX_HEADING = 80  # characters
MAX_HEADING_WORDS = 9
VERSE_LINE = 70  # characters; longer lines are prose

MAX_NOTE = 300  # characters

_EXTRACTED = re.compile(r"\A# ?(?P<name>[^\n]*)\n\s*<!-- (?P<about>[^\n]*)-->\n?")
_NOTES = re.compile(r"^## notes$\n(?P<notes>(?:(?!^## ).*\n?)*)", re.MULTILINE)
_UNREAD = re.compile(r"could not be read|were read\b|cut off|took too long")
_SECTION = re.compile(r"^##(?: (.*))?$", re.MULTILINE)
_ANY_HEADING = re.compile(r"^#{1,6} +(.+?)#*$", re.MULTILINE)
_SUB_HEADING = re.compile(r"#{3,6} +(.+?)#*")
_BOLD_LINE = re.compile(r"\*\*(.+?)\*\*:?")
_ESCAPED = re.compile(r"^\\(\\*#{1,2}(?: |$))", re.MULTILINE)
_CELL = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r"[\W_]*")
_BULLET = re.compile(r"\A(?:[-*•▪◦\u2013·]|\d{1,2}[.)]|\(\d{1,2}\))\s+")
_MARKUP = re.compile(r"\*\*|__|`|<sup>.*?</sup>|</?[a-z]+[^>]*>|\\(?=[\[\]_*#])")
_FOOTNOTE = re.compile(r"(?<=[\w.,;:!?)\"”'\u2019\]])\[(?:\d{1,3}|[a-z])\]")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)\s]*\)")
_ENDS_SENTENCE = re.compile(r"[.!?…。:;,]['\"”\u2019)]*$")

BlockKind = Literal["heading", "table", "lines", "prose"]
Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a section: a heading, the rows of a table, lines that stand for themselves, or prose."""

    kind: BlockKind
    lines: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()

    @property
    def text(self) -> str:
        return " ".join(self.lines)


@dataclass(frozen=True, slots=True)
class Section:
    """A page, sheet, slide or headed part of a document; `locator` is how people find it."""

    document: str
    locator: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """What was said about the reading of a document."""

    document: str
    notes: tuple[str, ...]
    in_part: bool  # not everything was read


def reading(source: SourceText) -> Reading | None:
    """The notes about the reading of a document; None where all of it was read without remark."""
    head = _EXTRACTED.match(source.text)
    if head is None:
        return None
    noted = _NOTES.search(source.text, head.end())
    lines = noted["notes"].splitlines() if noted else []
    notes = tuple(line.removeprefix("- ").strip()[:MAX_NOTE] for line in lines if line.strip())
    truncated = head["about"].split()[-1:] == ["truncated"]
    if not notes and not truncated:
        return None
    return Reading(head["name"].strip() or source.name, notes, truncated or any(map(_UNREAD.search, notes)))


def sections(source: SourceText) -> list[Section]:
    """The sections of a document in reading order, without the notes about its reading."""
    head = _EXTRACTED.match(source.text)
    if head is None:
        return _of_markdown(source.name, source.text)
    first, *rest = _SECTION.split(source.text[head.end() :])
    parts = [("", first), *zip((locator or "" for locator in rest[::2]), rest[1::2], strict=True)]
    name = head["name"].strip() or source.name
    return [
        Section(name, locator, tuple(blocks(_ESCAPED.sub(r"\1", text))))
        for locator, text in parts
        if text.strip() and locator != "notes"
    ]


def blocks(text: str) -> list[Block]:
    """The pieces of a section, as blank lines and pipes tell them apart."""
    found: list[Block] = []
    for piece in re.split(r"\n\s*\n", text):
        lines = [line.strip() for line in piece.split("\n") if line.strip()]
        found += _pieces(lines)
    return found


def plain(text: str) -> str:
    """A line without its markup."""
    return " ".join(_FOOTNOTE.sub("", _LINK.sub(r"\1", _MARKUP.sub("", text))).split())


def is_heading(line: str) -> bool:
    """Whether a line of its own names what follows."""
    return (
        len(line) <= MAX_HEADING
        and len(line.split()) <= MAX_HEADING_WORDS
        and not _ENDS_SENTENCE.search(line.rstrip(":"))
        and any(character.isalpha() for character in line)
    )


def _of_markdown(name: str, text: str) -> list[Section]:
    first, *rest = _ANY_HEADING.split(text)
    parts = [
        ("", first),
        *((f"section {plain(title)}", body) for title, body in zip(rest[::2], rest[1::2], strict=True)),
    ]
    return [Section(name, locator, tuple(blocks(body))) for locator, body in parts if body.strip()]


def _pieces(lines: list[str]) -> list[Block]:
    found: list[Block] = []
    run: list[str] = []
    for index, line in enumerate([*lines, ""]):
        is_row = line.startswith("|")
        if run and (index == len(lines) or is_row != run[-1].startswith("|")):
            found += [_table(run)] if run[-1].startswith("|") else _text(run)
            run = []
        run.append(line)
    return found


def _table(lines: list[str]) -> Block:
    rows = [_cells(line) for line in lines]
    return Block("table", rows=tuple(row for row in rows if not all(_RULE.fullmatch(cell) and cell for cell in row)))


def _cells(line: str) -> Row:
    inner = line.strip().removeprefix("|").removesuffix("|")
    return tuple(plain(cell.replace("\\|", "|")) for cell in _CELL.split(inner))


def _text(lines: list[str]) -> list[Block]:
    titled = _SUB_HEADING.fullmatch(lines[0]) or _BOLD_LINE.fullmatch(lines[0])
    if titled:
        rest = _text(lines[1:]) if lines[1:] else []
        return [Block("heading", (plain(titled[1]),)), *rest]
    kept = [line for line in map(plain, lines) if line and not _RULE.fullmatch(line)]
    if not kept:
        return []
    if len(kept) == 1:
        return [Block("heading" if is_heading(kept[0]) and not _BULLET.match(kept[0]) else _kind(kept), tuple(kept))]
    if is_heading(kept[0]) and len(kept[1]) > VERSE_LINE:
        return [Block("heading", (kept[0],)), *_text(kept[1:])]
    return [Block(_kind(kept), tuple(_BULLET.sub("", line, count=1) for line in kept))]


def _kind(lines: list[str]) -> BlockKind:
    if len(lines) == 1 and re.search(r"[a-zäöüß][.!?]['\"”\u2019)]*$", lines[0]) and not _BULLET.match(lines[0]):
        return "prose"
    short = sum(len(line) <= VERSE_LINE for line in lines)
    listed = sum(bool(_BULLET.match(line)) for line in lines)
    verse = short * 2 > len(lines) and not _wrapped(lines)
    return "lines" if listed * 2 > len(lines) or verse else "prose"


def _wrapped(lines: list[str]) -> bool:
    """Whether the lines were broken by the margin: most are about as long as the longest."""
    longest = max(map(len, lines))
    full = sum(len(line) > longest * 0.75 for line in lines[:-1])
    return len(lines) > 1 and longest > VERSE_LINE // 2 + 10 and full * 4 >= (len(lines) - 1) * 3
