"""Formats that were asked for and that this release cannot make: the end of a round says so (L-08).

It makes markdown, HTML, JSON and CSV. Other formats are known here as what tasks expect, and by what requests
wish for beyond doubt: nothing is said where it may be the format of a document that is there already.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from poweron_events.fold.state import Workflow
from poweron_services.decider.defaults import own_language

_KINDS: Final = {
    **dict.fromkeys(("pdf",), "PDF"),
    **dict.fromkeys(("docx", "doc", "word", "wordprocessingml"), "Word"),
    **dict.fromkeys(("xlsx", "xls", "excel", "spreadsheetml"), "Excel"),
    **dict.fromkeys(("pptx", "ppt", "powerpoint", "presentationml"), "PowerPoint"),
}
_ENDINGS: Final = {"PDF": (".pdf",), "Word": (".docx",), "Excel": (".xlsx",), "PowerPoint": (".pptx",)}
_SAID: Final = {
    "en": (" and ", "You asked for {formats}, which this release cannot make", "; it made {documents} instead"),
    "de": (
        " und ",
        "Gewünscht war {formats}, was diese Version nicht erstellen kann",
        "; stattdessen liegt vor: {documents}",
    ),
}
MAX_NAMED = 5  # documents
MOST_READ = 5_000  # characters of a request
_QUOTED: Final = re.compile(r":(?=\s)|[\"“”„«»`]")  # from here on the words may be another's
_SENTENCE_ENDS: Final = re.compile(r"[.?!;](?=\s)|\n")
_FORMAT: Final = r"(?:pdf|docx|xlsx|pptx|word|excel|powerpoint)"
_KIND_OF: Final = (
    r"(?:(?:-|\s+)(?:files?|documents?|docs?|formats?|reports?|versions?|tables?|sheets?|workbooks?|spreadsheets?|slides"
    r"|presentations?|datei(?:en)?|dokumente?|format|bericht|fassung|tabelle|liste|mappe|präsentation)\b)?"
)
_A: Final = r"(?:an?|eine?[mnrs]?)\s+(?:(?:short|new|single|kurze[ns]?|neue[ns]?)\s+)?"
_DOUBTFUL: Final = (
    re.compile(  # after these it may be the format of a document that is there, or one that is not wanted
        r"\b(?:how|what|which|who(?:se|m)?|why|when|where|whether|that|if|than|i|we|they|is|are|was|were|has|have|had"
        r"|sent|came|come|got|received|available|same|such|well|not|no|never|without|instead|\w+n\Wt|\w+ing"
        r"|wie|was|wer|we[mn]|welche[mnrs]?|warum|wann|wo|ob|dass|ich|wir|sie|ist|sind|waren|hat|haben|liegen|liegt"
        r"|erhalten|bekommen|nicht|keine?[mnrs]?|nie|ohne|statt"
        r"|(?:\w+ed|ge\w+[tn]|angehängt|beigefügt|vorhanden|verfügbar)\s+(?:as|als|into))\b",
        re.IGNORECASE,
    )
)
_CREATE: Final = (
    r"(?:create|make|generate|produce|write|build|erstellen?|erzeugen?|generieren?|schreiben?|schreib|machen?|mach)\b"
)
_TURN: Final = (
    rf"(?:{_CREATE}|(?:draft|prepare|compile|export|save|convert|turn|render|deliver|output|summari[sz]e|give|send|put"
    r"|format|verfassen?|exportieren?|speichern?|speichere|wandeln?|wandle|konvertieren?|fassen?|fass|gib|geben|liefern?"
    r"|liefere|senden?|schicken?)\b)"
)
_ASKED: Final = re.compile(
    rf"(?:{_CREATE}\s+(?:(?:me|us|mir|uns|daraus|davon|bitte)\s+)*{_A}|{_TURN}.{{0,200}}?\b(?:as|als|into)\s+(?:{_A})?)"
    rf"\.?(?P<formats>{_FORMAT}{_KIND_OF}(?:\s+(?:and|und)\s+(?:{_A})?\.?{_FORMAT}{_KIND_OF})*)"
    r"(?=\W*$|[,)]|\s+(?:with|of|for|from|and|then|on|about|please|mit|von|für|aus|und|über|zusammen|um|ab|bitte)\b)",
    re.IGNORECASE,
)
_CLAUSE_BEGINS: Final = re.compile(
    r"^(?:(?:can|could|would)\s+you\s+)?|(?:,|\b(?:and|then|und|dann|please|bitte)\b)\s*", re.IGNORECASE
)
_TELLS: Final = re.compile(r"(?:the|these|this|our|my|their|der|die|das|unsere)\b", re.IGNORECASE)


def missing_formats(workflow: Workflow, documents: Sequence[str]) -> str:
    """The sentence about the formats that none of the round's documents has; empty where nothing is missing."""
    named = tuple(name.casefold() for name in documents)
    missing = [kind for kind in _asked(workflow) if not any(name.endswith(_ENDINGS[kind]) for name in named)]
    if not missing:
        return ""
    both, sentence, instead = _SAID[own_language(workflow)]
    beside = instead.format(documents=", ".join(documents[-MAX_NAMED:])) if documents else ""
    return f"{sentence.format(formats=both.join(missing))}{beside}."


def _asked(workflow: Workflow) -> list[str]:
    expected = (kind for plan in workflow.current.tasks for kind in plan.expected_formats)
    words = [word for kind in expected for word in re.findall(r"[a-z]+", kind.casefold())]
    words += [word for wish in _wishes(workflow.current.opening.prompt) for word in re.findall(r"[a-z]+", wish)]
    return list(dict.fromkeys(_KINDS[word] for word in words if word in _KINDS))


def _wishes(prompt: str) -> Iterator[str]:
    """What the request's sentences wish for without a doubt, in small letters; its quotations are not read."""
    own = _QUOTED.split(prompt[:MOST_READ])[0]
    for sentence in (part.lstrip(" \t*-\u2022") for part in _SENTENCE_ENDS.split(own)):
        doubtful = _DOUBTFUL.search(sentence)
        doubt = doubtful.start() if doubtful else len(sentence)
        if _TELLS.match(sentence):
            continue
        for clause in _CLAUSE_BEGINS.finditer(sentence, 0, doubt):
            if (found := _ASKED.match(sentence, clause.end())) and found.end() <= doubt:
                yield found["formats"].casefold()
