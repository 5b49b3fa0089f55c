"""What a request wants besides an answer: a summary, a report, another format."""

import re
from typing import Literal

from poweron_events.request import TaskType

Format = Literal["json", "csv", "markdown"]

_SUMMARY = re.compile(
    r"\b(?:summar(?:y|ies|i[sz]e[ds]?|i[sz]ing)|overview|key (?:facts|points|findings)|main points|abstract of|tl;dr"
    r"|zusammenfass\w*|fasse?\b.{0,80}\bzusammen|überblick|übersicht|kernaussagen)\b",
    re.IGNORECASE | re.DOTALL,
)
_REPORT = re.compile(
    r"\b(?:write|create|generate|prepare|make|produce|draft|compile|give me|build|need|want|as)\b[^.?!]{0,40}"
    r"\b(?:reports?|memo|briefing|dossier)\b"
    r"|^\W*reports?\b(?! (?:id|date|number))"
    r"|\bberichte?\b.{0,80}\b(?:schreib\w*|erstell\w*|verfass\w*)"
    r"|\b(?:schreib\w*|erstell\w*|verfass\w*|generier\w*)\b.{0,40}\bbericht",
    re.IGNORECASE,
)
_FORMATS: tuple[tuple[Format, re.Pattern[str]], ...] = (
    ("json", re.compile(r"\bjson\b", re.IGNORECASE)),
    ("csv", re.compile(r"\bcsv\b|\bcomma[- ]separated\b", re.IGNORECASE)),
    (
        "markdown",
        re.compile(
            r"\b(?:as|to|in|into|als|write|create|save)\b[^.?!]{0,30}\b(?:markdown|md file|text file|file|datei)\b",
            re.IGNORECASE,
        ),
    ),
)
_ASKED_AS = re.compile(
    r"\b(?:as|to|in|into|als|nach|output|return|give|write|create|export\w*|format\w*|convert\w*|generate|produce"
    r"|erstell\w*|ausgabe)\b[^.?!]{0,60}\b(?:json|csv|comma[- ]separated)\b"
    r"|\b(?:json|csv)[- ](?:file|format|output|datei|ausgabe)\b",
    re.IGNORECASE,
)
_CONVERSION = re.compile(
    r"\b(?:convert\w*|transform\w*|turn\b.{0,60}\binto|export\w*|translate\b.{0,60}\b(?:in)?to (?:json|csv)|reformat\w*"
    r"|konvertier\w*|wandle\b.{0,60}\bum|umwandeln|umzuwandeln|exportier\w*)\b",
    re.IGNORECASE | re.DOTALL,
)
_WHOLE_TABLE = re.compile(
    r"^\W*(?:give|return|list|get|show|output|extract|put|save)\b[^?]{0,40}\b(?:tables?|rows|everything|all data)\b",
    re.IGNORECASE,
)
_ANALYSIS = re.compile(
    r"\b(?:compar\w*|analy[sz]\w*|contrast|evaluate|assess|trend\w*|difference between"
    r"|vergleich\w*|analysier\w*|bewert\w*)\b",
    re.IGNORECASE,
)


def wants_summary(request: str) -> bool:
    """Whether the texts are to be summed up."""
    return bool(_SUMMARY.search(request) or _REPORT.search(request))


def wants_report(request: str) -> bool:
    """Whether a report is to be written: a document of its own."""
    return wants_summary(request)


def wants_conversion(request: str) -> bool:
    """Whether the data is to be given as it is in another format."""
    return bool(_CONVERSION.search(request) or _WHOLE_TABLE.search(request))


def wanted_format(request: str) -> Format | None:
    """The format that a file or the answer is to have."""
    for name, pattern in _FORMATS:
        if pattern.search(request) and (name == "markdown" or _ASKED_AS.search(request) or wants_conversion(request)):
            return name
    return None


def task_type(request: str) -> TaskType:
    """What sort of work a request is."""
    if wanted_format(request) in ("json", "csv") or wants_conversion(request):
        return "transform"
    if wants_report(request):
        return "report"
    return "analysis" if _ANALYSIS.search(request) else "lookup"
