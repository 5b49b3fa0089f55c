"""What was answered from the parts of long documents, as one answer in the format that is asked for."""

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
    """The answers one after the other, what several of them say said once."""
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
    """The rows under one header, each as wide as the widest."""
    rows = list(dict.fromkeys(tuple(row) for text in answers for row in csv.reader(io.StringIO(text)) if row))
    width = max(map(len, rows), default=1)
    return [(*row, *[""] * (width - len(row))) for row in rows]


def plain_text(markdown: str) -> str:
    """What markdown says, without its marks."""
    return _EMPHASIS.sub(r"\1", _MARKS.sub("", markdown))


def html(markdown: str) -> str:
    """What markdown says as HTML, its own markup shown as the text it is."""
    renderer = MarkdownIt("commonmark", {"html": False}).enable(["table"])
    return str(nh3.clean(renderer.render(markdown)))
