"""Parsing of markdown from any source into blocks: anything that is not plain markdown stays text."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from poweron_services.connectors.reports_child.report import (
    Align,
    Block,
    Code,
    Heading,
    Listing,
    Paragraph,
    ReportQuote,
    ReportTable,
    Run,
    Runs,
)

LINKED: Final = ("http://", "https://", "mailto:")
PICTURES: Final = tuple(f"data:image/{kind};base64," for kind in ("png", "jpeg", "gif", "webp"))
UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufdd0-\ufdef\ufffe\uffff\ud800-\udfff]"
)
"""Control characters, characters that change the text direction, and characters that XML does not allow."""

_READER: Final = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("text_join")


def blocks(markdown: str, *, keep_lines: bool = False) -> tuple[Block, ...]:
    """Parse a text into blocks; `keep_lines` is for text whose line ends come from a document, not from an editor."""
    text = UNSEEN.sub("", markdown.replace("\r\n", "\n").replace("\r", "\n"))
    return tuple(_blocks(SyntaxTreeNode(_READER.parse(text)), "\n" if keep_lines else " "))


def _blocks(parent: SyntaxTreeNode, line_end: str) -> Iterator[Block]:
    for node in parent.children:
        match node.type:
            case "heading":
                yield Heading(int(node.tag[1:]), _inline(node, line_end))
            case "paragraph":
                yield Paragraph(_inline(node, line_end))
            case "bullet_list" | "ordered_list":
                start = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else None
                yield Listing(tuple(tuple(_blocks(item, line_end)) for item in node.children), start)
            case "blockquote":
                yield ReportQuote(tuple(_blocks(node, line_end)))
            case "fence" | "code_block":
                yield Code(node.content.rstrip("\n"))
            case "table":
                yield _table(node)
            case _:  # a horizontal rule has no content
                pass


def _table(node: SyntaxTreeNode) -> ReportTable:
    head, *bodies = node.children
    header = tuple(_inline(cell, " ") for cell in head.children[0].children)
    rows = [tuple(_inline(cell, " ") for cell in row.children) for body in bodies for row in body.children]
    alignment: tuple[Align, ...] = tuple(
        "end" if "right" in str(cell.attrs.get("style", "")) else "start" for cell in head.children[0].children
    )
    return ReportTable(header if any(header) else (), tuple(rows), alignment)


def _inline(node: SyntaxTreeNode, line_end: str) -> Runs:
    return _merge(run for child in node.children for run in _runs(child, Run(""), line_end))


def _runs(node: SyntaxTreeNode, style: Run, line_end: str) -> Iterator[Run]:
    match node.type:
        case "text":
            yield replace(style, text=node.content)
        case "text_special":
            yield replace(style, text=node.content, literal=node.content in "[]")
        case "code_inline":
            yield replace(style, text=node.content, monospace=True)
        case "softbreak" | "hardbreak":
            yield replace(style, text=line_end if node.type == "softbreak" else "\n")
        case "image":
            source = str(node.attrs.get("src", ""))
            yield replace(style, text=node.content, picture=source if source.startswith(PICTURES) else "")
        case "strong":
            style = replace(style, bold=True)
        case "em":
            style = replace(style, italic=True)
        case "s":
            style = replace(style, strike=True)
        case "link":
            address = str(node.attrs.get("href", ""))
            style = replace(style, link=address if address.startswith(LINKED) else "")
    if node.type != "image":
        for child in node.children:
            yield from _runs(child, style, line_end)


def _merge(runs: Iterator[Run]) -> Runs:
    """Merge adjacent runs of the same style and drop empty ones."""
    result: list[Run] = []
    for run in runs:
        if result and not run.picture and replace(result[-1], text=run.text) == run:
            result[-1] = replace(run, text=result[-1].text + run.text)
        elif run.text or run.picture:
            result.append(run)
    return tuple(result)
