"""The final message: the answer as it was found, or that a report is written; what failed is said plainly."""

import re

from poweron_services.models.builtin.intent import wanted_format, wants_report
from poweron_services.models.builtin.phrases import say
from poweron_services.models.builtin.words import known_language
from poweron_services.models.prompts import MessagePrompt, TaskResult

MAX_TEXT = 10_000  # characters of an answer
MAX_REASON = 600  # characters
MAX_POINTS = 3  # of a report

_SOURCES = re.compile(r"^\*[^*\n]+: [^*\n]+\*$", re.MULTILINE)
_READ_IN_PART = re.compile(r"^(?:Not everything was read|Nicht alles wurde gelesen)\b.*$", re.MULTILINE)
_FACTS = re.compile(r"^- \*\*", re.MULTILINE)


def message(prompt: MessagePrompt) -> str:
    """What the user reads at the end of a round."""
    language = known_language(prompt.language, prompt.user_prompt)
    done = [result for result in prompt.results if result.status == "success"]
    failed = [result for result in prompt.results if result.status != "success"]
    parts = _report(prompt, done, language) if _is_file(prompt) and done else _answers(done)
    parts += [_failure(result, language, partly=bool(done)) for result in failed]
    return "\n\n".join(part for part in parts if part) or say("nothing", language)


def _is_file(prompt: MessagePrompt) -> bool:
    return wants_report(prompt.user_prompt) or wanted_format(prompt.user_prompt) is not None


def _answers(done: list[TaskResult]) -> list[str]:
    texts = [result.text.strip() for result in done if result.text.strip()]
    return [_cut(text) for text in dict.fromkeys(texts)] or [result.summary for result in done[-1:]]


def _report(prompt: MessagePrompt, done: list[TaskResult], language: str) -> list[str]:
    if not wants_report(prompt.user_prompt):
        return [say("file_done", language), _cut(done[0].text.strip())]
    text = done[0].text
    counts = {
        "sections": len(_SOURCES.findall(text)),
        "facts": len(_FACTS.findall(text)),
        "tables": text.count("\n| ---"),
    }
    if counts["sections"]:
        done_so = f"{say('report_done', language)} {say('report_holds', language, **counts)}"
        return [done_so, *_READ_IN_PART.findall(text)]
    return [say("report_done", language), *_points(text), *_READ_IN_PART.findall(text)]


def _points(text: str) -> list[str]:
    """The first lines of a report's lists: what a reader wants to know first."""
    points = [line for line in text.splitlines() if line.startswith("- ")][:MAX_POINTS]
    return ["\n".join(points)] if points else []


def _failure(result: TaskResult, language: str, *, partly: bool) -> str:
    reason = (result.summary or result.objective).strip()[:MAX_REASON]
    return say("partly_failed" if partly else "failed", language, reason=reason)


def _cut(text: str) -> str:
    """The beginning of a long text; that not everything was read is said all the same."""
    if len(text) <= MAX_TEXT:
        return text
    remarks = "\n\n".join(_READ_IN_PART.findall(text, MAX_TEXT))
    return f"{text[:MAX_TEXT].rsplit(' ', 1)[0]} …\n\n{remarks}".rstrip()
