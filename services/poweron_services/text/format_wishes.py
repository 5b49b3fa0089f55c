"""What a request asks for: one answer or more, and in which formats, by its words and by what its tasks expect.

A format does not count as a wish if it may be that of a document that already exists.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from poweron_events.fold.state import Workflow

Kind = Literal["PDF", "Word", "Excel", "PowerPoint"]

_KINDS: Final[dict[str, Kind]] = {
    **dict.fromkeys(("pdf",), "PDF"),
    **dict.fromkeys(("docx", "doc", "word", "wordprocessingml"), "Word"),
    **dict.fromkeys(("xlsx", "xls", "excel", "spreadsheetml"), "Excel"),
    **dict.fromkeys(("pptx", "ppt", "powerpoint", "presentationml"), "PowerPoint"),
}
MOST_READ = 5_000  # characters of a request
_QUOTE_START: Final = re.compile(r":(?=\s)|[\"“”„«»`]")  # the words after this may be someone else's
_SENTENCE_ENDS: Final = re.compile(r"[.?!;](?=\s)|\n")
_QUESTION: Final = re.compile(r"(?:[^.!?;:\n\u3002\uff01\uff1f\u061f]|[.:](?!\s))+[?\uff1f\u061f]")
_FORMAT: Final = r"(?:pdf|docx|xlsx|pptx|word|excel|powerpoint)"
_KIND_OF: Final = (
    r"(?:(?:-|\s+)(?:files?|documents?|docs?|formats?|reports?|versions?|tables?|sheets?|workbooks?|spreadsheets?|slides"
    r"|presentations?|datei(?:en)?|dokumente?|format|bericht|fassung|tabelle|liste|mappe|präsentation)\b)?"
)
_A: Final = r"(?:an?|eine?[mnrs]?)\s+(?:(?:short|new|single|kurze[ns]?|neue[ns]?)\s+)?"
_DOUBTFUL: Final = re.compile(  # after these, it may be the format of an existing document, or an unwanted one
    r"\b(?:how|what|which|who(?:se|m)?|why|when|where|whether|that|if|than|i|we|they|is|are|was|were|has|have|had"
    r"|sent|came|come|got|received|available|same|such|well|not|no|never|without|instead|\w+n\Wt"
    r"|(?!(?:any|every|no|some)thing\b)\w+ing"
    r"|wie|was|wer|we[mn]|welche[mnrs]?|warum|wann|wo|ob|dass|ich|wir|sie|ist|sind|waren|hat|haben|liegen|liegt"
    r"|erhalten|bekommen|nicht|keine?[mnrs]?|nie|ohne|statt"
    r"|(?:\w+ed|ge\w+[tn]|angehängt|beigefügt|vorhanden|verfügbar)\s+(?:as|als|into))\b",
    re.IGNORECASE,
)
_REPORT: Final = (  # a report that compares things is a report on them: its format is not in doubt
    re.compile(
        r"\b(report|summary|overview|comparison|memo|briefing|document|table)s?\s+(?:(?:that|which)\s+)?"
        r"(?:compar|summari[sz]|describ|list|show|cover|explain|contrast|analy[sz])(?:ing|e?s)\b",
        re.IGNORECASE,
    )
)
_CREATE: Final = (
    r"(?:create|make|generate|produce|write|build|erstellen?|erzeugen?|generieren?|schreiben?|schreib|machen?|mach)\b"
)
_TURN: Final = (
    rf"(?:{_CREATE}|(?:draft|prepare|compile|export|save|convert|turn|render|deliver|output|summari[sz]e|give|send|put"
    r"|list|show"
    r"|format|verfassen?|exportieren?|speichern?|speichere|wandeln?|wandle|konvertieren?|fassen?|fass|gib|geben|liefern?"
    r"|liefere|senden?|schicken?|rédigez?|écri(?:s|vez)|fai(?:s|tes)|créez?|résumez?|comparez?|escrib[ea]|redact[ae]|haz"
    r"|escreva|crie|scrivi|redigi|riassumi|confronta)\b)"
)
_INTO: Final = r"as|als|into|en|em|au format|(?:en|em|in) formato|in(?=\s+(?:an?|eine[mnr]?)\s)"
_REQUEST: Final = re.compile(
    rf"(?:{_CREATE}\s+(?:(?:me|us|mir|uns|daraus|davon|bitte)\s+)*{_A}|{_TURN}.{{0,200}}?\b(?:{_INTO})\s+(?:{_A})?)"
    rf"\.?(?P<formats>{_FORMAT}{_KIND_OF}(?:\s+(?:and|und)\s+(?:{_A})?\.?{_FORMAT}{_KIND_OF})*)"
    r"(?=\W*$|[,)]|\s+(?:with|of|for|from|and|then|on|about|please|mit|von|für|aus|und|über|zusammen|um|ab|bitte)\b)",
    re.IGNORECASE,
)
_CLAUSE_BEGINS: Final = re.compile(
    r"^(?:(?:can|could|would)\s+you\s+)?|(?:,|\b(?:and|then|und|dann|please|bitte)\b)\s*", re.IGNORECASE
)
_BEHIND_COMMA: Final = re.compile(rf",\s+(?:as|als)\s+(?:{_A})?\.?\Z", re.IGNORECASE)
"""A format after a comma is that of the answer, regardless of what comes before it."""
_TELLS: Final = re.compile(r"(?:the|these|this|our|my|their|der|die|das|unsere)\b", re.IGNORECASE)


def asked_formats(workflow: Workflow) -> list[Kind]:
    """The formats that the open round asks for, each once."""
    formats = [kind for plan in workflow.current.tasks for kind in plan.expected_formats]
    return _kinds([*formats, *_wishes(workflow.current.opening.prompt)])


def wished_formats(prompt: str) -> list[Kind]:
    """The formats that a request asks for."""
    return _kinds([*_wishes(prompt)])


def is_one_question(prompt: str) -> bool:
    """Return whether the request is a single sentence that asks something and wishes for no format."""
    text = prompt.strip()
    return len(text) <= MOST_READ and bool(_QUESTION.fullmatch(text)) and not wished_formats(text)


def _kinds(names: Sequence[str]) -> list[Kind]:
    words = [word for name in names for word in re.findall(r"[a-z]+", name.casefold())]
    return list(dict.fromkeys(_KINDS[word] for word in words if word in _KINDS))


def _wishes(prompt: str) -> Iterator[str]:
    """Yield the formats that the request clearly asks for, in lower case; its quotations are not read."""
    own_words = _QUOTE_START.split(prompt[:MOST_READ])[0]
    for part in (part.lstrip(" \t*-\u2022") for part in _SENTENCE_ENDS.split(own_words)):
        sentence = _REPORT.sub(r"\1 on", part)
        doubtful = _DOUBTFUL.search(sentence)
        doubt = doubtful.start() if doubtful else len(sentence)
        if _TELLS.match(sentence):
            continue
        for clause in _CLAUSE_BEGINS.finditer(sentence, 0, doubt):
            match = _REQUEST.match(sentence, clause.end())
            if match and (match.end() <= doubt or _BEHIND_COMMA.search(sentence[: match.start("formats")])):
                yield match["formats"].casefold()
