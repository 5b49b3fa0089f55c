"""The title of a report, in the words of the request."""

import re
from typing import Final

from poweron_services.models.builtin.phrases import say

MAX_TITLE: Final = 120  # characters

_POLITE: Final = re.compile(
    r"^\W*(?:(?:please|bitte|s'il (?:vous|te) plaît|por favor|per favore)\W+|(?:can|could|would) you (?:please )?)+",
    re.IGNORECASE,
)
_MAKE: Final = re.compile(
    r"^(?:write|create|make|prepare|draft|generate|produce|compile|give me|i (?:need|want)|schreib\w*|erstell\w*"
    r"|verfass\w*|mach\w*|rédige\w*|écri\w*|prépare\w*|crée\w*|escrib\w*|redact\w*|haz|prepara\w*|scriv\w*|redig\w*|crea\w*|اكتب|أعد|أنشئ)\s+"
    r"(?:(?:me|us|mir|uns|daraus)\s+)?(?:(?:an?|the|eine?[nrms]?|une?|un[ao]?|el|la|il|le)\s+)?"
    r"(?:(?:short|brief|detailed|kurze[nrms]?|ausführliche[nrms]?|court|brève?|breve|corto)\s+)*(?=\w)",
    re.IGNORECASE,
)
_SUM_UP: Final = re.compile(
    r"^(?:summari[sz]e|sum up|fasse?|résume[rz]?|resum[ea]|riassumi)\s+(?P<what>.+?)(?:\s+zusammen)?$", re.IGNORECASE
)
_COMPARE: Final = re.compile(r"^(?:compare|vergleiche?|comparez|compara|confronta)\s+(?P<what>.+)$", re.IGNORECASE)
_FORMAT: Final = re.compile(
    r"\s*\(?\b(?:as|in|into|als|im|en|au format)\s+(?:(?:an?|eine?[mnrs]?|une?)\s+)?"
    r"\.?(?:pdf|word|docx|excel|xlsx|html|markdown|csv|json|powerpoint)\b.*$"
    r"|\s+(?:with|mit|avec|con)\s+(?:sources|quellen|fuentes|fonti)\b.*$",
    re.IGNORECASE | re.DOTALL,
)
_SENTENCE_END: Final = re.compile(
    r"(?<=\w)[.!?;](?=\s|$)|\n|,?\s(?:and|then|und|dann|et|y|e)\s(?=(?:make|write|create|give|mach|schreib|erstell)\w*\b)"
)
_GERMAN_ARTICLE: Final = re.compile(r"^(?:de[nrms]|die|das|eine?[nrms]?)\s+", re.IGNORECASE)


def report_title(request: str, language: str) -> str:
    """Return the topic of a report: the first sentence of the request, without the instruction and the format."""
    said = _FORMAT.sub("", _POLITE.sub("", _SENTENCE_END.split(request.strip(), maxsplit=1)[0])).strip(" ,.")
    for pattern, phrase in ((_SUM_UP, "summary_of"), (_COMPARE, "comparison_of")):
        if found := pattern.match(said):
            return _about(phrase, found["what"], language)[:MAX_TITLE]
    title = _MAKE.sub("", said)
    return (title[:1].upper() + title[1:])[:MAX_TITLE] or "Report"


def _about(phrase: str, what: str, language: str) -> str:
    """Return the title of a summary or a comparison; in German with a colon, since a phrase would change the case."""
    if language == "de":
        return f"{say(phrase, language, names='').partition(' ')[0]}: {_GERMAN_ARTICLE.sub('', what)}"
    return say(phrase, language, names=what)
