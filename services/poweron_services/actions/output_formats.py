"""The output formats of a model: how its output is checked, joined and made into documents."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from itertools import count
from typing import Any, Final

import nh3
import orjson

from poweron_events.fold.state import MAX_REFUSALS
from poweron_events.step_events import ActionDocument
from poweron_services.actions.action import Ask, Failed, document
from poweron_services.models.builtin import process as by_rule
from poweron_services.models.builtin.brief import as_csv
from poweron_services.models.json_objects import with_escapes
from poweron_services.models.prompts import OutputFormat, ProcessPrompt
from poweron_services.text.provenance import Provenance, marked_markdown, marked_page
from poweron_services.text.spreadsheet_text import csv_as_text

WITHIN: Final = "output_json"
"""The member that wraps JSON: a name that no request asks for."""
COLUMNS: Final = "columns"
ROWS: Final = "rows"
OUTPUT_SCHEMAS: Final[Mapping[OutputFormat, Mapping[str, Any]]] = {
    "json": {
        "type": "object",
        "properties": {WITHIN: {"anyOf": [{"type": "object"}, {"type": "array"}]}},
        "required": [WITHIN],
        "additionalProperties": False,
    },
    "csv": {
        "type": "object",
        "properties": {
            COLUMNS: {"type": "array", "items": {"type": "string"}, "minItems": 1},
            ROWS: {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
        },
        "required": [COLUMNS, ROWS],
        "additionalProperties": False,
    },
}
FORMS: Final[Mapping[OutputFormat, str]] = {
    "text": " (plain text without any markdown)",
    "html": " (elements of a page's body such as headings, paragraphs, lists and tables; "
    "no scripts, styles or pictures)",
    "csv": f' (where JSON is asked for, "{COLUMNS}" names the columns, and each of "{ROWS}" has a text for each)',
}
"""What prompts say about a format."""
MIME_TYPES: Final[dict[OutputFormat, str]] = {
    "markdown": "text/markdown",
    "text": "text/plain",
    "html": "text/html",
    "json": "application/json",
    "csv": "text/csv",
}
ENDINGS: Final[dict[OutputFormat, str]] = {
    "markdown": "md",
    "text": "txt",
    "html": "html",
    "json": "json",
    "csv": "csv",
}
FENCE: Final = "```"
FENCE_TAKEN_OFF: Final = "The code fence around the output was taken off."
ASKED_AGAIN: Final = "The model was asked once more: {problem}"
MOST_SHOWN: Final = 4_000  # characters of a refused output

_FENCE: Final = re.compile(
    r"\s*(?P<fence>`{3,})[ \t]*(?P<format>\w*)[ \t]*\r?\n(?P<inside>.*?)\r?\n(?P=fence)\s*", re.DOTALL
)
_NAMES: Final = {"text": ("", "text", "txt", "plain", "plaintext"), "html": ("", "html")}
_MARKDOWN: Final = re.compile(
    r"^#{1,6} \S|\*\*[^\s*][^*\n]*\*\*|^\|(?: *:?-{3,}:? *\|)+\s*$|^`{3,}|\[[^\[\]\n]+\]\(https?://", re.MULTILINE
)
_ELEMENT: Final = re.compile(
    r"<(?:p|h[1-6]|ul|ol|table|dl|div|section|article|blockquote|pre|span|br)\b", re.IGNORECASE
)
TAGS: Final = {
    *("h1", "h2", "h3", "h4", "h5", "h6", "p", "br", "hr", "blockquote", "pre", "code", "em", "strong", "b", "i", "s"),
    *("a", "ul", "ol", "li", "dl", "dt", "dd", "table", "caption", "thead", "tbody", "tfoot", "tr", "th", "td"),
    *("sup", "sub", "div", "span", "section", "article"),
}
_PAGE: Final = (
    '<!doctype html>\n<html lang="{language}">\n<head>\n<meta charset="utf-8">\n'
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'">\n'
    "<title>{title}</title>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
)


async def written(ask: Ask, prompt: ProcessPrompt) -> tuple[str, tuple[str, ...]]:
    """Return the model's output in the format of the prompt, and notes; invalid output is requested a second time.

    Raises:
        Failed: the output is invalid again, and there is no other model; the sentence says what is wrong with it.
        Refused: the model refused to answer, or a budget does not cover the call.
    """
    retry_notes: tuple[str, ...] = ()
    for tries in count(1):
        reply = await ask(replace(prompt, answer_schema=OUTPUT_SCHEMAS.get(prompt.output_format)))
        text, notes = _bare(unfolded_output(reply.text, prompt.output_format), prompt.output_format)
        try:
            check_format(text, prompt.output_format)
        except Failed as error:
            turns, is_second = divmod(tries, MAX_REFUSALS)
            if not is_second and reply.call.next_model is None:
                raise
            again = prompt.repeated(problem=str(error), refused=text[:MOST_SHOWN])
            prompt, retry_notes = replace(again, passed_over=turns), (ASKED_AGAIN.format(problem=error),)
        else:
            break
    return text, (*retry_notes, *notes)


def _bare(text: str, output_format: OutputFormat) -> tuple[str, tuple[str, ...]]:
    bare = without_fence(text, output_format)
    return bare, () if bare == text else (FENCE_TAKEN_OFF,)


def without_fence(text: str, output_format: OutputFormat) -> str:
    """Remove the code fence around a whole output, unless its format is markdown; leave other output unchanged."""
    match = None if output_format == "markdown" else _FENCE.fullmatch(text)
    if match is None or match["format"].casefold() not in _NAMES.get(output_format, ("", output_format)):
        return text
    return text if f"\n{match['fence']}" in f"\n{match['inside']}" else match["inside"]


def check_format(text: str, output_format: OutputFormat) -> None:
    """Refuse output that is not in the requested format.

    Raises:
        Failed: the sentence says what is wrong with it.
    """
    if not text.strip():
        raise Failed("The model wrote nothing.", code="answer_empty")
    try:
        if output_format == "json":
            orjson.loads(text)
        elif output_format == "csv":
            _check_csv(text)
        elif output_format == "text" and (match := _MARKDOWN.search(text)):
            raise _invalid(f"The output is not plain text: it contains the markdown {match[0][:40]!r}.")
        elif output_format == "html":
            _check_html(text)
    except (orjson.JSONDecodeError, csv.Error) as error:
        raise _invalid(f"The output is not valid {output_format.upper()}: {error}") from error


def _check_csv(text: str) -> None:
    rows = [row for row in csv.reader(io.StringIO(text), strict=True) if row]
    if any(len(row) == 1 and row[0].startswith(FENCE) for row in rows):
        raise _invalid("The output is not valid CSV: it contains a code fence.")
    if len({len(row) for row in rows}) > 1:
        raise _invalid("The output is not valid CSV: its rows differ in their number of cells.")


def _check_html(text: str) -> None:
    if not _ELEMENT.search(text):
        raise _invalid("The output is not HTML: it contains no element such as <p> or <table>.")
    if FENCE in text:
        raise _invalid("The output is not HTML: it contains a code fence.")
    if not nh3.clean(text, tags=set(), clean_content_tags={"script", "style", "title"}).strip():
        raise _invalid("The output is not HTML that can be shown: without scripts and styles no text is left.")


def joined_by_rule(answers: Sequence[str], output_format: OutputFormat) -> str:
    """Join answers one after the other: as a list in JSON, as rows under one header in CSV, as sections in HTML.

    Raises:
        Failed: they do not form valid output in the format.
    """
    bare = [without_fence(answer, output_format).strip() for answer in answers]
    text = "\n\n".join(bare)
    match output_format:
        case "json":
            text = by_rule.joined(bare, "json")
        case "csv":
            text = _under_one_header(bare)
        case "html":
            pieces = [_harmless(answer if answer.startswith("<") else by_rule.html(answer)) for answer in bare]
            text = "\n".join(f"<section>\n{piece}\n</section>" for piece in pieces)
        case "text":
            text = by_rule.plain_text(text)
    check_format(text, output_format)
    return text


def _under_one_header(answers: Sequence[str]) -> str:
    """Join tables with the same header of at least two columns, since any text is a table of one column."""
    try:
        tables = [[row for row in csv.reader(io.StringIO(answer), strict=True) if row] for answer in answers]
    except csv.Error as error:
        raise _invalid(f"An answer is not valid CSV: {error}") from error
    header = tables[0][:1]
    if any(table[:1] != header or len(table[0]) == 1 for table in tables):
        raise _invalid("The answers are no tables with the same header.")
    return as_csv(map(tuple, [*header, *(row for table in tables for row in table[1:])]))


def _invalid(reason: str) -> Failed:
    return Failed(reason, code="output_invalid")


def as_document(
    text: str, output_format: OutputFormat, language: str | None, provenance: Provenance | None = None
) -> ActionDocument:
    """Return the output as a document: HTML as a page that fetches and runs nothing, CSV without formulas.

    Markdown and HTML have a mark of their origin; plain text, JSON and CSV have no place for it.
    """
    data = marked_page(html_page(text, language), provenance) if output_format == "html" else text
    data = marked_markdown(text, provenance) if output_format == "markdown" else data
    data = csv_as_text(data) if output_format == "csv" else data
    return document(f"answer.{ENDINGS[output_format]}", data, MIME_TYPES[output_format])


def html_page(text: str, language: str | None) -> str:
    """Return the harmless part of the HTML that a model wrote, as a whole page."""
    return _PAGE.format(language=escape(language or "en", quote=True), title="Answer", body=_harmless(text))


def _harmless(text: str) -> str:
    """Remove everything from HTML that could run or be fetched, and close open elements."""
    return nh3.clean(
        text,
        tags=TAGS,
        clean_content_tags={"script", "style", "title"},
        attributes={
            "a": {"href", "title"},
            "ol": {"start"},
            "td": {"colspan", "rowspan"},
            "th": {"colspan", "rowspan"},
        },
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer",
    ).strip()


def unfolded_output(text: str, output_format: OutputFormat) -> str:
    """Unwrap output in the form of the format's schema to JSON or CSV; leave anything else unchanged."""
    if output_format not in OUTPUT_SCHEMAS:
        return text
    try:
        value = orjson.loads(json_text := with_escapes(text))
    except orjson.JSONDecodeError:
        return text
    if output_format == "json":
        return (
            orjson.dumps(value[WITHIN]).decode() if isinstance(value, dict) and value.keys() == {WITHIN} else json_text
        )
    return as_csv(map(tuple, [value[COLUMNS], *value[ROWS]])) if _is_table(value) else text


def _is_table(value: Any) -> bool:
    if not isinstance(value, dict) or value.keys() != {COLUMNS, ROWS}:
        return False
    rows = [value[COLUMNS], *value[ROWS]] if isinstance(value[ROWS], list) else []
    return all(isinstance(row, list) for row in rows) and all(isinstance(cell, str) for row in rows for cell in row)
