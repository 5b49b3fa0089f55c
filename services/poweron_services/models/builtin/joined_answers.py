"""Answers from the parts of long documents, joined into one answer in the requested format."""

import csv
import io
import re
from collections.abc import Iterator, Sequence

import nh3
import orjson
from markdown_it import MarkdownIt

from poweron_services.models.builtin.summary import as_csv
from poweron_services.models.prompts import OutputFormat

_MARKS = re.compile(r"^#{1,6} +|\*\*|^\|(?: *:?-{3,}:? *\|)+ *\n?|\\(?=[\\`*<\[\]#>+=~.)-])|^`{3,}.*\n?", re.MULTILINE)
_EMPHASIS = re.compile(r"(?<!\w)\*(?=\S)([^*\n]+)\*(?!\w)")


def joined(answers: Sequence[str], output_format: OutputFormat) -> str:
    """Join the answers in their order, without repetitions."""
    if output_format == "json":
        return orjson.dumps([*_entries(answers)], option=orjson.OPT_INDENT_2).decode()
    if output_format == "csv":
        return as_csv(_rows(answers))
    first_title = next((text.split("\n", 1)[0] for text in answers if text.startswith("# ")), None)
    paragraphs = (part for text in answers for part in text.split("\n\n"))
    kept = [part for part in dict.fromkeys(map(str.strip, paragraphs)) if part and not part.startswith("# ")]
    remarks = [part for part in kept if part.startswith("> ")]
    told = [part for part in kept if not part.startswith("> ")]
    return "\n\n".join([*([first_title] if first_title else []), *told, *remarks])


def _entries(answers: Sequence[str]) -> Iterator[object]:
    for answer in answers:
        try:
            found = orjson.loads(answer)
        except orjson.JSONDecodeError:
            found = [answer]
        yield from found if isinstance(found, list) else [found]


def _rows(answers: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the distinct rows below one header, each padded to the width of the widest."""
    rows = list(dict.fromkeys(tuple(row) for text in answers for row in csv.reader(io.StringIO(text)) if row))
    width = max(map(len, rows), default=1)
    return [(*row, *[""] * (width - len(row))) for row in rows]


def plain_text(markdown: str) -> str:
    """Return the text of markdown, without its markup."""
    return _EMPHASIS.sub(r"\1", _MARKS.sub("", markdown))


def html(markdown: str) -> str:
    """Render markdown as HTML; HTML tags in the markdown are shown as text."""
    renderer = MarkdownIt("commonmark", {"html": False}).enable(["table"])
    return str(nh3.clean(renderer.render(markdown)))
