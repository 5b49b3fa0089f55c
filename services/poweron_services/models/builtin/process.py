"""`ai.process` without a language model: it answers questions and compiles reports from the text of documents.

It also joins the answers from the parts of long documents, and renders markdown as plain text or HTML.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

import nh3
import orjson
from markdown_it import MarkdownIt

from poweron_events.errors import Unavailable
from poweron_services.models.builtin import page_search
from poweron_services.models.builtin.brief import all_tables, as_csv, brief, converted, summary
from poweron_services.models.builtin.comparison import comparison
from poweron_services.models.builtin.document_findings import DocumentSearch
from poweron_services.models.builtin.page_search import PageSearch
from poweron_services.models.builtin.passage_search import Finding, RankedStatement
from poweron_services.models.builtin.passages import Library, build_library
from poweron_services.models.builtin.phrases import say
from poweron_services.models.builtin.question import understand
from poweron_services.models.builtin.sources import SourcePlace, bare_text
from poweron_services.models.builtin.table_questions import asked_of_tables
from poweron_services.models.builtin.task_plan import (
    is_beyond,
    question_of,
    topic_of,
    wants_comparison,
    wants_conversion,
    wants_report,
    wants_summary,
    wants_text,
)
from poweron_services.models.builtin.tool_choice import only_names_places
from poweron_services.models.builtin.vocabulary import known_language, language_of, terms
from poweron_services.models.builtin.web_choice import asks_for_all
from poweron_services.models.embedding.embedder import Embedder
from poweron_services.models.prompts import NOTHING as NOTHING_SAID
from poweron_services.models.prompts import OutputFormat, ProcessPrompt, SourceText
from poweron_services.text.calculations import row_list
from poweron_services.text.format_wishes import wished_formats
from poweron_services.text.language_detection import detect

_MARKS = re.compile(r"^#{1,6} +|\*\*|^\|(?: *:?-{3,}:? *\|)+ *\n?|\\(?=[\\`*<\[\]#>+=~.)-])|^`{3,}.*\n?", re.MULTILINE)
_EMPHASIS = re.compile(r"(?<!\w)\*(?=\S)([^*\n]+)\*(?!\w)")
_PATH: Final = re.compile(
    r"^(?:#+ )?(?P<path>(?:/|~/|\.{1,2}/|[A-Za-z]:[\\/]|[\w.-]+/)[^\n:]*\.\w{1,8}):[ \t]*$", re.MULTILINE
)
_RULE: Final = re.compile(r"^\s*-{3,}\s*$", re.MULTILINE)
MAX_NOTES = 5  # notes of a document
MAX_QUESTION = 500  # characters of a question that a refusal repeats

_ABOUT_IT = re.compile(r"\b(?:it|its|they|them|their|es|sie|er|ihn|ihm|ihr)\b", re.IGNORECASE)
NOTHING: Final = RankedStatement("", "", ())


def process(prompt: ProcessPrompt, embedder: Embedder | None = None) -> str:
    """Answer the prompt in the format that it asks for.

    Words are compared in the language of the request; the model's own sentences are in the user's language.
    """
    match prompt.output_format:
        case "text" | "html" if prompt.extent == "part":  # the format applies to the joined answer of all parts
            return _answer_text(replace(prompt, output_format="markdown"), embedder)
        case "text":
            return plain_text(_answer_text(replace(prompt, output_format="markdown"), embedder))
        case "html":
            return html(_answer_text(replace(prompt, output_format="markdown"), embedder))
    return _answer_text(prompt, embedder)


def _answer_text(prompt: ProcessPrompt, embedder: Embedder | None) -> str:
    """Return the answer as markdown, JSON or CSV."""
    language = known_language(prompt.language, prompt.ai_prompt)
    if prompt.extent == "answers" and prompt.documents:
        return joined([document.text for document in prompt.documents], prompt.output_format)
    findings = [Finding(prompt.ai_prompt)]
    if prompt.extent == "answers":
        return _format(prompt, findings, _refusal(findings[0], language, "not_said"), [])
    if not prompt.documents:
        return _format(prompt, findings, say("no_documents", language), [])
    text_language = language_of(prompt.ai_prompt, prompt.documents[0].text)
    library = build_library(one_by_one(prompt.documents), text_language)
    if library.passages:
        return _whole_documents(prompt, library, language, text_language, embedder) or _search_answer(
            prompt, library, language, text_language, embedder
        )
    if prompt.extent == "part":
        return NOTHING_SAID
    names = ", ".join(document.name for document in prompt.documents)
    return _format(prompt, findings, say("empty_documents", language, names=names), _remarks(library, language))


def _whole_documents(
    prompt: ProcessPrompt, library: Library, language: str, text_language: str, embedder: Embedder | None
) -> str | None:
    """Return the documents as a whole: summarised, compared, converted or unchanged; None if there is a question."""
    request = prompt.ai_prompt
    if is_beyond(request):
        return say("beyond", language)
    if prompt.output_format != "markdown" and (wants_conversion(request) or wants_summary(request)):
        return converted(library, "json" if prompt.output_format == "json" else "csv")
    if library.has_pages:
        text = _of_pages(prompt, library, language, text_language)
    else:
        text = _of_documents(prompt, library, language, text_language, embedder)
    return _with_remarks(text, _remarks(library, language)) if text else None


def _of_pages(prompt: ProcessPrompt, library: Library, language: str, text_language: str) -> str | None:
    request = prompt.ai_prompt
    wants_all = wants_summary(request) or asks_for_all(request, text_language)
    return (
        page_search.digest(library, text_language, request, language)
        if wants_all and prompt.output_format == "markdown"
        else None
    )


def _of_documents(
    prompt: ProcessPrompt, library: Library, language: str, text_language: str, embedder: Embedder | None
) -> str | None:
    request = prompt.ai_prompt
    if wants_text(request) and prompt.output_format == "markdown":
        return "\n\n".join(map(bare_text, prompt.documents))
    if wants_comparison(request) and (text := comparison(library, language)):
        return text
    if library.tables and "Excel" in wished_formats(request):
        table_answer = asked_of_tables(library.tables, understand(question_of(request), text_language))
        return None if table_answer else all_tables(library)
    if not wants_summary(request):
        return None
    if wants_report(request):
        return summary(library, language, _topic(library, request, text_language))
    return brief(library, _topic(library, request, text_language), text_language, embedder)


def _topic(library: Library, request: str, text_language: str) -> frozenset[str]:
    """Return the words of the topic of a report or a summary, except those in the titles of the documents."""
    titles = frozenset[str]().union(*(around.titles for around in library.around.values()))
    return frozenset(terms(topic_of(request), text_language)) - titles


def _search_answer(
    prompt: ProcessPrompt, library: Library, language: str, text_language: str, embedder: Embedder | None
) -> str:
    """Return what the documents say about the questions of the prompt."""
    in_full = prompt.extent == "whole"
    search = (
        PageSearch(library, text_language)
        if library.has_pages
        else DocumentSearch(library, text_language, embedder, in_full)
    )
    by_words = embedder is None
    question = question_of(prompt.ai_prompt)
    try:
        findings = search.findings(question)
    except Unavailable:
        by_words, findings = True, DocumentSearch(library, text_language, None, in_full).findings(question)
    findings = findings or [Finding(prompt.ai_prompt)]
    if prompt.extent == "part" and not any(finding.statements for finding in findings):
        return NOTHING_SAID
    answer = page_search.answer if library.has_pages else _answer
    text = answer(findings, language, _refusal_phrase(prompt, library))
    more = [say("more_say_it", language, count=finding.left_out) for finding in findings if finding.left_out]
    has_gaps = by_words and not library.has_pages and not all(finding.statements for finding in findings)
    alone = [say("words_alone", language)] if has_gaps else []
    has_names = any(finding.values == "by form" and finding.statements for finding in findings)
    by_form = [say("by_form", language)] if has_names else []
    return _format(prompt, findings, text, [*more, *by_form, *alone, *_remarks(library, language)])


def _format(prompt: ProcessPrompt, findings: list[Finding], markdown: str, remarks: list[str]) -> str:
    if prompt.output_format in ("json", "csv") and len(findings) == 1 and findings[0].columns:
        return _table_as(findings[0], remarks, prompt.output_format)
    if prompt.output_format == "json":
        notes = {"notes": remarks} if remarks else {}
        return orjson.dumps([_entry(finding) | notes for finding in findings], option=orjson.OPT_INDENT_2).decode()
    if prompt.output_format == "csv":
        rows = [
            (
                finding.question,
                statement.label,
                statement.value,
                "; ".join(page_search.source(statement, place) for place in statement.places),
            )
            for finding in findings
            for statement in finding.statements or (NOTHING,)
        ]
        return as_csv([("question", "label", "answer", "source"), *rows, *(("", "", remark, "") for remark in remarks)])
    return _with_remarks(markdown, remarks)


def _table_as(finding: Finding, remarks: list[str], output_format: str) -> str:
    """Return the rows of a table as JSON objects, or as CSV rows below their columns."""
    rows = [statement.cells for statement in finding.statements]
    if output_format == "csv":
        return as_csv([finding.columns, *rows, *((remark,) for remark in remarks)])
    names = [name or f"column {number}" for number, name in enumerate(finding.columns, start=1)]
    objects = [dict(zip(names, row, strict=True)) for row in rows]
    content: object = {"rows": objects, "notes": remarks} if remarks else objects
    return orjson.dumps(content, option=orjson.OPT_INDENT_2).decode()


def _with_remarks(markdown: str, remarks: list[str]) -> str:
    """Append remarks to a text as block quotes, a mark that no other line in it begins with."""
    return "\n\n".join([markdown, *(f"> {remark}" for remark in remarks)])


def _answer(findings: list[Finding], language: str, refusing: str) -> str:
    """Return the findings as markdown, each statement with its place; `refusing` is the phrase if there are none."""
    paragraphs: list[str] = []
    for index, finding in enumerate(findings):
        if finding.goes_on and finding.statements and finding.statements == findings[index - 1].statements:
            continue
        lines = [*_lines(finding, language)]
        if finding.columns:
            paragraphs.append(_table(finding))
        elif not lines:
            goes_on = index and findings[index - 1].statements and _leans(finding)
            is_list = finding.values in ("recognised", "by form")
            phrase = "stands_above" if goes_on else "no_values" if is_list else refusing
            paragraphs.append(_refusal(finding, language, phrase))
        else:
            paragraphs.append(lines[0] if len(lines) == 1 else "\n".join(f"- {line}" for line in lines))
        if finding.agreement:
            paragraphs.append(say(f"documents_{finding.agreement}", language))
    return "\n\n".join(paragraphs)


def _lines(finding: Finding, language: str) -> Iterator[str]:
    """Yield a line for each statement, but one for the values of the same words, then what else is known of them."""
    for (quote, places), group in groupby(
        finding.statements, key=lambda statement: (statement.quote, statement.places)
    ):
        statements = list(group)
        if quote:
            values = ", ".join(f"**{statement.value}**" for statement in statements)
            yield f"{values} — “{quote}” — {'; '.join(map(str, places))}"
        else:
            yield from (_line(statement, language) for statement in statements)
    yield from (say("document_silent", language, name=name) for name in finding.silent)
    if finding.difference:
        yield _line(replace(finding.difference, label=say("difference", language)), language)


def _table(finding: Finding) -> str:
    """Return the statements as the rows of a table, and their places below it."""
    rows = [finding.columns, ("---",) * len(finding.columns), *(statement.cells for statement in finding.statements)]
    places = dict.fromkeys(place for statement in finding.statements for place in statement.places)
    lines = (" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows)
    return "\n".join(f"| {line} |" for line in lines) + f"\n\n— {'; '.join(map(str, places))}"


def _leans(finding: Finding) -> bool:
    """Return whether a question is about the same thing as the previous one."""
    return finding.goes_on or _ABOUT_IT.search(finding.question) is not None


def _line(statement: RankedStatement, language: str) -> str:
    quote = f"**{statement.text}**" if statement.label else f"“{statement.text}”"
    if statement.counted:
        quote = f"**{statement.text} ({row_list(statement.counted, language)})**"
    if statement.calculation:
        quote += f" = {statement.calculation.equation(language)}"
    return f"{quote} — {'; '.join(map(str, statement.places))}"


def _refusal_phrase(prompt: ProcessPrompt, library: Library) -> str:
    """Return the phrase for no answer; it never denies what was not read or may be in another language."""
    if all(only_names_places(document.text) for document in prompt.documents):
        return "only_listed"
    request_language = detect(prompt.ai_prompt)
    text_languages = {detect(document.text) for document in prompt.documents}
    if request_language and not text_languages & {request_language, None}:
        return "pages_in_other_language" if library.has_pages else "other_language"
    if library.has_pages:
        return "pages_not_said"
    if prompt.extent == "excerpts":
        return "not_said_in_part"
    return "not_said_in_part" if any(reading.in_part for reading in library.readings) else "not_said"


def _refusal(finding: Finding, language: str, phrase: str) -> str:
    """Return the closest statements, marked as no answer; if nothing is close, a plain refusal."""
    question = " ".join(finding.question.split())[:MAX_QUESTION]
    if not finding.closest:
        return say(phrase, language, question=question)
    quotes = "\n".join(f"- {_line(close, language)}" for close in finding.closest)
    return f"{say('closest', language, question=question)}\n\n{quotes}"


def _remarks(library: Library, language: str) -> list[str]:
    """Return what users must know about the reading of the documents, one sentence each."""
    remarks: list[str] = []
    for reading in library.readings:
        notes = " ".join(reading.notes[:MAX_NOTES]) or say("cut_off", language)
        phrase = "read_in_part" if reading.in_part else "read_with_notes"
        remarks.append(say(phrase, language, name=reading.document, notes=notes))
    return remarks


def _entry(finding: Finding) -> dict[str, object]:
    answers = [
        {
            "label": statement.label,
            "answer": statement.value,
            **({"quote": statement.quote} if statement.quote else {}),
            **({"calculation": statement.calculation.equation("en")} if statement.calculation else {}),
            "sources": [_source(statement, place) for place in statement.places],
        }
        for statement in finding.statements
    ]
    entry: dict[str, object] = {"question": finding.question, "answered": bool(answers), "answers": answers}
    entry |= {"not_said_in": finding.silent} if finding.silent else {}
    entry |= {"agreement": finding.agreement} if finding.agreement else {}
    entry |= {"difference": finding.difference.value} if finding.difference else {}
    if answers:
        return entry
    return entry | {
        "closest": [
            {"quote": statement.value, "source": _source(statement, statement.places[0])}
            for statement in finding.closest
        ]
    }


def _source(statement: RankedStatement, place: SourcePlace) -> dict[str, object]:
    """Return the place of a statement as JSON; for a web page, also its words and number."""
    return place.as_object() | ({"quote": page_search.source(statement, place)} if place.number else {})


def one_by_one(documents: Iterable[SourceText]) -> tuple[SourceText, ...]:
    """Split texts into files, each under its own name; a text without paths is unchanged."""
    return tuple(text for document in documents for text in _files(document))


def _files(document: SourceText) -> Iterator[SourceText]:
    matches = [*_PATH.finditer(document.text)] if document.number is None else []
    if not matches:
        yield document
        return
    ends = [*(match.start() for match in matches[1:]), len(document.text)]
    for path, end in zip(matches, ends, strict=True):
        name = re.split(r"[/\\]", path["path"])[-1]
        text = _RULE.sub("", document.text[path.end() : end]).strip()
        if text:
            yield replace(document, name=name, text=text)


def joined(answers: Sequence[str], output_format: OutputFormat) -> str:
    """Join the answers in their order, without repetitions."""
    if output_format == "json":
        return orjson.dumps([*_entries(answers)], option=orjson.OPT_INDENT_2).decode()
    if output_format == "csv":
        return as_csv(_rows(answers))
    first_title = next((text.split("\n", 1)[0] for text in answers if text.startswith("# ")), None)
    paragraphs = (part for text in answers for part in text.split("\n\n"))
    parts = [part for part in dict.fromkeys(map(str.strip, paragraphs)) if part and not part.startswith("# ")]
    remarks = [part for part in parts if part.startswith("> ")]
    body = [part for part in parts if not part.startswith("> ")]
    return "\n\n".join([*([first_title] if first_title else []), *body, *remarks])


def _entries(answers: Sequence[str]) -> Iterator[object]:
    for answer in answers:
        try:
            entries = orjson.loads(answer)
        except orjson.JSONDecodeError:
            entries = [answer]
        yield from entries if isinstance(entries, list) else [entries]


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
