"""The built-in model's plan and its final message.

The plan has one task that finds the answer and, if the request wants it, one that writes a file. The message is the
answer, or a note that a report is written; failures are stated plainly.
"""

import re
from typing import Literal

import orjson

from poweron_events.event import TaskType
from poweron_events.round_events import TaskPlan
from poweron_services.models.builtin.phrases import say
from poweron_services.models.builtin.tool_choice import wanted_tools
from poweron_services.models.builtin.vocabulary import known_language
from poweron_services.models.builtin.web_choice import wants_web
from poweron_services.models.prompts import MessagePrompt, PlanningPrompt, TaskResult
from poweron_services.text.format_wishes import wished_formats

MAX_OBJECTIVE = 1_500  # characters of the request that an objective repeats
ANSWERED = "The answer is stated with its source, or it is said that the {texts} do not hold it."
SUMMED_UP = "The main facts and statements of the {texts} are put together, each with its source."
REPORT_WRITTEN = "A report is written as a document of its own."

_SUMMARY = re.compile(
    r"\b(?:summar(?:y|ies|i[sz]e[ds]?|i[sz]ing)|overview|key (?:facts|points|findings)|main points|tl;dr"
    r"|zusammenfass\w*|fasse?\b.{0,80}\bzusammen|überblick|übersicht|kernaussagen)\b"
    r"|^\W*(?:resume|resuma|résume\w*|riassumi|sintetizza|podsumuj)\b|\b(?:samenvat\w*|sammanfatt\w*|sammenfat\w*"
    r"|oppsummer\w*|podsumowani\w*|(?:un|une|le|el|il|uma?) (?:résumé|synthèse|resumen|resumo|riassunto|síntesis))\b",
    re.IGNORECASE | re.DOTALL,
)
_REPORT = re.compile(
    r"\b(?:write|create|generate|prepare|make|draft|give me|need|want|as)\b[^.?!]{0,40}\b(?:reports?|memo|briefing)\b"
    r"|\b(?:schreib\w*|erstell\w*|verfass\w*)\b.{0,40}\bbericht"
    r"|\b(?:rédige\w*|écri\w*|établi\w*|prépare\w*|crée\w*|génère\w*|fais|faites|escrib\w*|redact\w*|crea\w*|genera\w*"
    r"|prepara\w*|haz|escrev\w*|elabor\w*|crie|faça|scriv\w*|redigi\w*|fai|schrijf|maak|skriv\w*|lag|gör|lav|napisz"
    r"|przygotuj|utwórz)\b[^.?!]{0,40}\b(?:rapport\w*|informe|relatório|relazione|verslag|raport\w*)\b"
    r"|(?:اكتب|أعد|أنشئ)\s.{0,30}تقرير|(?:写|撰写|生成|做).{0,20}报告|(?:レポート|報告書)",
    re.IGNORECASE | re.DOTALL,
)
_FORMAT = re.compile(
    r"\b(?:as|to|in|into|als|nach|return|give|write|create|export\w*|format\w*|convert\w*|generate|erstell\w*)\b"
    r"[^.?!]{0,60}\b(?P<name>json|csv)\b",
    re.IGNORECASE,
)
_CONVERSION = re.compile(
    r"\b(?:convert\w*|transform\w*|turn\b.{0,60}\binto|export\w*|konvertier\w*|wandle\b.{0,60}\bum|exportier\w*)\b"
    r"|^\W*(?:give|return|list|get|show|extract|save)\b[^?]{0,40}\b(?:tables?|rows|everything|all data)\b",
    re.IGNORECASE | re.DOTALL,
)
_ABOUT = re.compile(
    r"\b(?:about|regarding|concerning|with regard to|what .{0,40}? says? (?:about|on)|über|bezüglich"
    r"|hinsichtlich|zum thema|au sujet d\w+|sobre|riguardo a\w*)\s+(?P<topic>[^.?!]{3,200})",
    re.IGNORECASE,
)
_AS_FORMAT = re.compile(
    r",?\s+(?:as|als|in|into)\s+(?:an?\s+|eine?[mnr]?\s+)?(?:\.?(?:pdf|xlsx|docx)|excel|word|csv|json)\b"
    r"(?:[ -](?:files?|documents?|workbook|sheet|table|spreadsheet|datei|dokument|tabelle|mappe)\b)?",
    re.IGNORECASE,
)
_TEXT = re.compile(
    r"^\W*(?:please\s+|bitte\s+)?(?:extract|give me|show(?: me)?|return|output|print|get|extrahiere|gib|zeige?|lies)\b"
    r"[^?.]{0,30}\b(?:text|wortlaut|inhalt)\b(?!\s*(?:about|on|regarding|über|zu)\b)[^?]{0,80}$",
    re.IGNORECASE,
)
_BEYOND = re.compile(
    r"^\W*(?:(?:please|bitte|can you|could you|kannst du|können sie)\s+)?(?:translat\w+|rewrite|rephrase|paraphrase"
    r"|proofread|brainstorm|improve|correct (?:the|my|all)|reply to|respond to|explain like"
    r"|(?:write|draft|compose)\s+(?:an?|the|my)\s+(?:\w+\s+)?(?:reply|e-?mail|letter|response|message|poem|story|speech|post)"
    r"|übersetz\w+|formulier\w+|korrigier\w+|verbesser\w+"
    r"|(?:schreib\w*|verfass\w*|entwirf)\s+(?:eine?[nm]?|die|den)\s+(?:\w+\s+)?(?:antwort|e-?mail|mail|brief|rede|gedicht)"
    r"|tradui\w+|traduc\w+|traduz\w+)\b",
    re.IGNORECASE,
)
_COMPARISON = re.compile(
    r"\b(?:compar\w*|side by side|vergleich\w*|vergleiche\w*|gegenüber\w*"
    r"|confront\w*|vergelijk\w*|jämför\w*|sammenlign\w*|porówn\w*)\b",
    re.IGNORECASE,
)
_ANALYSIS = re.compile(
    r"\b(?:compar\w*|analy[sz]\w*|contrast|evaluate|trend\w*|difference between|vergleich\w*|analysier\w*)\b",
    re.IGNORECASE,
)


def plan(prompt: PlanningPrompt) -> str:
    """Plan the tasks of the round; a last one, of one step, writes the report or the file that the request asks for."""
    request, kind = prompt.user_prompt, _task_type(prompt.user_prompt)
    tools = wanted_tools(prompt, prompt.actions)
    is_web = not tools and wants_web(prompt, {line.name for line in prompt.actions})
    criterion = (SUMMED_UP if kind == "report" else ANSWERED).format(texts="pages" if is_web else "documents")
    source = "with the tools that are there" if tools else "from the web" if is_web else "from the documents"
    tasks = [_task(request, f"Find out {source}", criterion, kind)]
    if file_format := wanted_format(request):
        result_criterion = f"The result is written as {file_format}."
        tasks.append(_task(request, f"Write the result as {file_format}", result_criterion, "transform", file_format))
    elif wants_report(request) and "document.generateReport" in {line.name for line in prompt.actions}:
        tasks.append(_task(request, "Write the report as a document", REPORT_WRITTEN, "report", "markdown"))
    return orjson.dumps({"tasks": [task.model_dump(mode="json", by_alias=True) for task in tasks]}).decode()


def wants_summary(request: str) -> bool:
    """Return whether the request asks for a summary, as an answer or as a report."""
    return bool(_SUMMARY.search(request) or _REPORT.search(request))


def wants_report(request: str) -> bool:
    """Return whether the request asks for a document of its own."""
    return bool(_REPORT.search(request) or wished_formats(request))


def wants_text(request: str) -> bool:
    """Return whether the request asks for the unchanged text of the documents."""
    return bool(_TEXT.search(request))


def is_beyond(request: str) -> bool:
    """Return whether the request needs new text, such as a translation or a reply, which takes a language model."""
    return bool(_BEYOND.search(request))


def question_of(request: str) -> str:
    """Remove the format of the answer from a request, since no document contains it."""
    return _AS_FORMAT.sub("", request) if wished_formats(request) or wanted_format(request) else request


def topic_of(request: str) -> str:
    """Return the topic of a summary, in words; "" if it covers everything."""
    about = _ABOUT.search(request)
    return about["topic"] if about else ""


def wants_comparison(request: str) -> bool:
    """Return whether the request asks for documents side by side."""
    return bool(_COMPARISON.search(request))


def wants_conversion(request: str) -> bool:
    """Return whether the request asks for the same data in another format."""
    return bool(_CONVERSION.search(request))


def wanted_format(request: str) -> Literal["json", "csv"] | None:
    """Return the format that the file or the answer must have; None if the request names none."""
    match = _FORMAT.search(request)
    if match is None:
        return None
    return "json" if match["name"].casefold() == "json" else "csv"


def _task_type(request: str) -> TaskType:
    if wanted_format(request) or wants_conversion(request):
        return "transform"
    if wants_summary(request):
        return "report"
    return "analysis" if _ANALYSIS.search(request) else "lookup"


def _task(request: str, activity: str, criterion: str, kind: TaskType, output_format: str = "") -> TaskPlan:
    return TaskPlan(
        objective=f"{activity}: {request.strip()[:MAX_OBJECTIVE]}",
        success_criteria=(criterion,),
        task_type=kind,
        expected_formats=(output_format,) if output_format else (),
        max_steps=1 if output_format else None,
    )


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
