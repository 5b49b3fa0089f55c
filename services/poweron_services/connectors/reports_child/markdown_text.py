"""A report as markdown, which later steps and models also read: text that would look like markup is escaped."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from poweron_services.connectors.reports_child.report import (
    Block,
    Code,
    Figure,
    Heading,
    Listing,
    Paragraph,
    Report,
    ReportQuote,
    ReportTable,
    Run,
    Runs,
)

_SIGNS: Final = re.compile(r"([\\`*<~]|(?<!\w)_|_(?!\w)|&(?=#?\w+;)|\](?=[(\[:])|!(?=\[))")
_BEGINS_BLOCK: Final = re.compile(r"^(\s*\d*)(?=[#>+=-]|(?<=\d)[.)](?:\s|$))")


def markdown(report: Report) -> str:
    """Write the whole report."""
    pieces = [f"# {_escape(report.title)}"]
    if report.cover:
        pieces.append("\\\n".join(_BEGINS_BLOCK.sub(r"\1\\", _escape(line)) for line in report.cover))
    if report.contents:
        entries = (
            f"{'  ' * (heading.level - 1)}- {_text(_bare(heading.runs), one_line=True)}" for heading in report.headings
        )
        pieces.append(f"**{report.contents}**\n\n" + "\n".join(entries))
    pieces += _blocks(report.blocks)
    text = "\n\n".join(pieces)
    return f"{text}\n\n{report.sources_text.strip()}\n" if report.sources_text.strip() else f"{text}\n"


def _blocks(content: Iterable[Block]) -> Iterator[str]:
    for block in content:
        match block:
            case Heading():
                yield f"{'#' * min(6, block.level + 1)} {_text(block.runs, one_line=True)}"
            case Paragraph():
                yield _text(block.runs)
            case Listing():
                yield _listing(block)
            case ReportQuote():
                yield "\n".join(f"> {line}".rstrip() for line in "\n\n".join(_blocks(block.blocks)).split("\n"))
            case Code():
                fence = "`" * max(3, 1 + max(map(len, re.findall("`+", block.text)), default=0))
                yield f"{fence}\n{block.text}\n{fence}"
            case ReportTable():
                yield _table(block)
            case Figure():
                alt = _escape(block.alt).replace("\\]:", "]:")  # not at a line start, so it defines no link
                yield f"*{_escape(block.caption)}.* {alt}"


def _listing(listing: Listing) -> str:
    lines: list[str] = []
    for place, item in enumerate(listing.items):
        mark = "-" if listing.start is None else f"{listing.start + place}."
        between = "\n" if all(isinstance(block, Paragraph | Listing) for block in item) else "\n\n"
        text = between.join(_blocks(item)).split("\n")
        lines += [f"{mark} {text[0]}".rstrip(), *(f"{' ' * (len(mark) + 1)}{line}".rstrip() for line in text[1:])]
    return "\n".join(lines)


def _table(table: ReportTable) -> str:
    header = table.header or ((),) * table.columns
    rows = [[_text(cell, one_line=True).replace("|", "\\|") for cell in row] for row in (header, *table.rows)]
    widths = [max(3, *(len(row[column]) for row in rows)) for column in range(table.columns)]
    rule = [
        f"{'-' * (width - 1)}:" if side == "end" else "-" * width
        for width, side in zip(widths, table.aligned, strict=True)
    ]
    cells = [
        [
            cell.rjust(width) if side == "end" else cell.ljust(width)
            for cell, width, side in zip(row, widths, table.aligned, strict=True)
        ]
        for row in rows
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in (cells[0], rule, *cells[1:]))


def _bare(runs: Runs) -> Runs:
    return tuple(Run(run.text, literal=run.literal) for run in runs)


def _text(runs: Runs, *, one_line: bool = False) -> str:
    text = "".join(map(_run, runs))
    if one_line:
        return " ".join(text.replace("\\\n", " ").split())
    return "\\\n".join(_BEGINS_BLOCK.sub(r"\1\\", line.strip()) for line in text.split("\\\n"))


def _run(run: Run) -> str:
    if run.monospace:
        fence = "`" * (1 + max(map(len, re.findall("`+", run.text)), default=0))
        pad = " " if run.text.startswith("`") or run.text.endswith("`") else ""
        return f"{fence}{pad}{run.text}{pad}{fence}"
    if run.literal:
        return re.sub(r"([\[\]])", r"\\\1", run.text)
    if run.picture:
        return f"![{_escape(run.text)}](<{run.picture}>)"
    bare = run.text.strip()
    if not bare:
        return _escape(run.text)
    before, after = run.text.split(bare[0], 1)[0], run.text[len(run.text.rstrip()) :]
    mark = ("**" if run.bold else "") + ("*" if run.italic else "") + ("~~" if run.strike else "")
    text = f"{mark}{_escape(bare)}{mark[::-1]}"
    if run.link:
        text = f"<{run.link}>" if run.link == bare else f"[{text}](<{run.link.replace('>', '%3E')}>)"
    return f"{_escape(before)}{text}{_escape(after)}"


def _escape(text: str) -> str:
    return _SIGNS.sub(r"\\\1", text).replace("\n", "\\\n")
