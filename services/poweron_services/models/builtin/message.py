"""The built-in model's final message: the answer, or a note that a report is written; failures are stated plainly."""

import re
from typing import Literal

from poweron_services.models.builtin.phrases import say
from poweron_services.models.builtin.task_plan import wanted_format, wants_comparison, wants_report
from poweron_services.models.builtin.vocabulary import known_language
from poweron_services.models.prompts import MessagePrompt, TaskResult

MAX_TEXT = 10_000  # characters of an answer
MAX_REASON = 600  # characters

_TOTALS = re.compile(r"\A# .*\n\n\*\*(.+)\*\*$", re.MULTILINE)  # the beginning of a `comparison`
_REMARK = re.compile(r"^> .*$", re.MULTILINE)  # how `process` marks remarks about the reading of documents


def message(prompt: MessagePrompt) -> str:
    """Return the message that the user reads at the end of a round."""
    language = known_language(prompt.language, prompt.user_prompt)
    successes = [result for result in prompt.results if result.status == "success"]
    all_worked = len(successes) == len(prompt.results) and not any(result.failures for result in prompt.results)
    parts = (
        _success_parts(prompt.user_prompt, successes, language, "done" if all_worked else "written")
        if successes
        else []
    )
    for result in prompt.results:
        if result.status != "success":
            reason = (result.summary or result.objective).strip()[:MAX_REASON]
            parts.append(say("partly_failed" if successes else "failed", language, reason=reason))
        parts += [say("step_failed", language, failure=failure[:MAX_REASON]) for failure in result.failures]
    return "\n\n".join(part for part in parts if part) or say("nothing", language)


def _success_parts(
    request: str, successes: list[TaskResult], language: str, outcome: Literal["done", "written"]
) -> list[str]:
    """Return what was found; say that a file is done only if nothing failed on the way."""
    text = successes[0].text
    if wants_report(request):
        totals = _TOTALS.findall(text)[:1] if wants_comparison(request) else []
        return [" ".join([say(f"report_{outcome}", language), *totals]), *_REMARK.findall(text)]
    if wanted_format(request) is not None:
        return [say(f"file_{outcome}", language), _truncate(text.strip())]
    texts = dict.fromkeys(result.text.strip() for result in successes if result.text.strip() and not result.only_read)
    return [_truncate(text) for text in texts] or [successes[-1].summary]


def _truncate(text: str) -> str:
    """Truncate a long text, but keep the remarks about the reading of documents."""
    if len(text) <= MAX_TEXT:
        return text
    remarks = "\n\n".join(_REMARK.findall(text, MAX_TEXT))
    return f"{text[:MAX_TEXT].rsplit(' ', 1)[0]} …\n\n{remarks}".rstrip()
