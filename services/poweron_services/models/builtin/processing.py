"""`ai.process` without a language model: questions are answered from the text, reports are put together from it."""

import re
from collections.abc import Iterable

import orjson

from poweron_services.decider.language_detection import detect
from poweron_services.models.builtin import kinds, summarising, values
from poweron_services.models.builtin.answering import Finding, Reader, Statement
from poweron_services.models.builtin.closest import Close
from poweron_services.models.builtin.converting import as_csv, converted
from poweron_services.models.builtin.intent import wants_conversion, wants_summary
from poweron_services.models.builtin.passages import Library, library
from poweron_services.models.builtin.phrases import say
from poweron_services.models.builtin.sources import Reading
from poweron_services.models.builtin.words import known_language, language_of
from poweron_services.models.prompts import ProcessPrompt

_ABOUT_IT = re.compile(r"\b(?:it|its|they|them|their|es|sie|er|ihn|ihm|ihr)\b", re.IGNORECASE)
MAX_NOTES = 5  # of a document


def process(prompt: ProcessPrompt) -> str:
    """The answer to the prompt in the format that it asks for.

    Words are compared in the language of the request; the model's own sentences are in the user's.
    """
    language = known_language(prompt.language, prompt.ai_prompt)
    if not prompt.documents:
        return _formatted(prompt, [Finding(prompt.ai_prompt, ())], say("no_documents", language), [])
    spoken = language_of(prompt.ai_prompt)
    held = library(prompt.documents, spoken)
    if not held.passages:
        names = ", ".join(document.name for document in prompt.documents)
        empty = _with_remarks(say("empty_documents", language, names=names), held, language)
        return _formatted(prompt, [Finding(prompt.ai_prompt, ())], empty, remarks(held, language))
    if prompt.output_format != "markdown" and wants_conversion(prompt.ai_prompt):
        return converted(held, prompt.output_format)
    if wants_summary(prompt.ai_prompt):
        written = summarising.summary(held, language, prompt.output_format)
        return _with_remarks(written, held, language) if prompt.output_format == "markdown" else written
    findings = Reader(held, spoken).findings(prompt.ai_prompt) or [Finding(prompt.ai_prompt, ())]
    written = _with_remarks(answer(findings, language, _refusing(prompt, held)), held, language)
    return _formatted(prompt, findings, written, remarks(held, language))


def answer(findings: list[Finding], language: str, refusing: str) -> str:
    """The findings as markdown, each statement with its place; `refusing` is the phrase where there is none."""
    phrases = ["stands_above" if _stands_in(findings[:index], one) else refusing for index, one in enumerate(findings)]
    return "\n\n".join(_paragraph(one, language, phrase) for one, phrase in zip(findings, phrases, strict=True))


def _stands_in(before: list[Finding], finding: Finding) -> bool:
    """Whether a question about the one before it asks for a kind of value that the answer to that one shows."""
    kind = kinds.kind_of(finding.question)
    if kind not in values.TYPED or not _ABOUT_IT.search(finding.question) or not before:
        return False
    return any(values.holds(kind, statement.text, finding.question) for statement in before[-1].statements)


def _paragraph(finding: Finding, language: str, refusing: str) -> str:
    if not finding.statements:
        return _refusal(finding, language, refusing)
    lines = [_line(statement) for statement in finding.statements]
    return lines[0] if len(lines) == 1 else "\n".join(f"- {line}" for line in lines)


def _refusing(prompt: ProcessPrompt, held: Library) -> str:
    """The phrase for what was not found: nothing is denied that was not read or may be said in other words."""
    asked = detect(prompt.ai_prompt)
    read = {detect(document.text) for document in prompt.documents}
    if asked and not read & {asked, None}:
        return "other_language"
    in_part = bool(held.left_out) or any(reading.in_part for reading in held.readings)
    return "not_said_in_part" if in_part else "not_said"


def _refusal(finding: Finding, language: str, refusing: str) -> str:
    """That the documents do not say it, and below what comes closest, told apart from an answer."""
    refused = say(refusing, language, question=" ".join(finding.question.split())[:500])
    if not finding.closest:
        return refused
    quotes = "\n".join(f"- “{close.quote}” — {close.place}" for close in finding.closest)
    return f"{refused}\n\n{say('closest', language)}\n\n{quotes}"


def _line(statement: Statement) -> str:
    said = f"**{statement.text}**" if statement.label else f"“{statement.text}”"
    return f"{said} — {_places(statement)}"


def _places(statement: Statement) -> str:
    return "; ".join(map(str, statement.places))


def remarks(held: Library, language: str) -> list[str]:
    """What a reader must know about how the documents were read, a sentence for each."""
    found = [_remark(reading, language) for reading in held.readings]
    return [*found, say("left_out", language, names=", ".join(held.left_out))] if held.left_out else found


def _remark(reading: Reading, language: str) -> str:
    notes = " ".join(reading.notes[:MAX_NOTES]) or say("cut_off", language)
    phrase = "read_in_part" if reading.in_part else "read_with_notes"
    return say(phrase, language, name=reading.document, notes=notes)


def _with_remarks(text: str, held: Library, language: str) -> str:
    return "\n\n".join([text, *remarks(held, language)])


def _formatted(prompt: ProcessPrompt, findings: list[Finding], markdown: str, noted: list[str]) -> str:
    if prompt.output_format == "json":
        notes: dict[str, object] = {"notes": noted} if noted else {}
        entries_with_notes = [entry | notes for entry in _entries(findings)]
        return orjson.dumps(entries_with_notes, option=orjson.OPT_INDENT_2).decode()
    if prompt.output_format == "csv":
        entries: list[tuple[str, ...]] = [("question", "label", "answer", "document", "place")]
        entries += [_columns(finding, statement) for finding in findings for statement in finding.statements or (None,)]
        entries += [("", "", note, "", "") for note in noted]
        return as_csv(entries)
    return markdown


def _entries(findings: Iterable[Finding]) -> Iterable[dict[str, object]]:
    for finding in findings:
        answers = [
            {
                "label": statement.label,
                "answer": statement.value,
                "sources": [{"document": place.document, "place": place.locator} for place in statement.places],
            }
            for statement in finding.statements
        ]
        entry: dict[str, object] = {"question": finding.question, "answered": bool(answers), "answers": answers}
        yield entry if answers else entry | {"closest": [_closest(close) for close in finding.closest]}


def _closest(close: Close) -> dict[str, object]:
    return {"quote": close.quote, "source": {"document": close.place.document, "place": close.place.locator}}


def _columns(finding: Finding, statement: Statement | None) -> tuple[str, ...]:
    if statement is None:
        return (finding.question, "", "", "", "")
    documents = "; ".join(dict.fromkeys(place.document for place in statement.places))
    places = "; ".join(dict.fromkeys(place.locator for place in statement.places))
    return (finding.question, statement.label, statement.value, documents, places)
