"""Do a task with a model from documents of any length.

Texts that fit the model's window are shown whole. From longer texts, the passages that fit the task best are shown; for
a task that needs everything (sum up, list all, compare), the mode `advanced` asks the model about each part separately.
If a model accepts less than expected, the window shrinks. The answer says what was shown and what was not.

`needs_everything` recognises such a task by its words in several languages; a task in any other language is answered
from the passages that fit best. Words that only name the place of a fact (“in the summary”, “on the price list”) do not
count, and a question needs everything only if it asks for all of something, for the main points or for differences.
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from poweron_events.step_events import DocumentCoverage, PlaceKind
from poweron_services.actions.action import Order
from poweron_services.actions.document_passages import AROUND, DocumentPassage, PassageText, chosen, cut
from poweron_services.actions.output_formats import written
from poweron_services.actions.part_answers import PartAnswers
from poweron_services.actions.process_prompts import DocumentTask, process_prompt
from poweron_services.models.chat_model import TooLong
from poweron_services.models.prompts import OutputFormat, SourceText

MOST_SHOWN: Final = 200_000  # characters of passages shown for one question, even if a model accepts more


LEAST: Final = 1_000  # characters, below which the window never shrinks


MAX_NAMED: Final = 5  # documents named in a sentence


_UNREAD: Final = {
    "en": (
        (
            "Not everything was read for this answer: {documents} were read, the rest was not. "
            "Name more exactly what it is about if this is not the answer that you look for."
        ),
        "{shown} of {all} {places} of {name}",
        "{percent} % of {name}",
        "and of {count} more documents a part or nothing",
    ),
    "de": (
        (
            "Für diese Antwort wurde nicht alles gelesen: Gelesen wurden {documents}, der Rest nicht. "
            "Nennen Sie genauer, worum es geht, wenn das nicht die gesuchte Antwort ist."
        ),
        "{shown} von {all} {places} von {name}",
        "{percent} % von {name}",
        "und von {count} weiteren Dokumenten ein Teil oder nichts",
    ),
}


_UNMERGED: Final = {
    "en": (
        "The answers from the parts were not combined; they follow one another.",
        "They are text, because they make no valid {wanted}.",
    ),
    "de": (
        "Die Antworten aus den Teilen wurden nicht zusammengeführt, sie stehen hintereinander.",
        "Sie sind Text, weil sie kein gültiges {wanted} ergeben.",
    ),
}


_PLACES: Final[dict[str, dict[PlaceKind, str]]] = {
    "en": {"page": "pages", "sheet": "sheets", "slide": "slides", "section": "parts"},
    "de": {"page": "Seiten", "sheet": "Blättern", "slide": "Folien", "section": "Teilen"},
}


@dataclass(frozen=True, slots=True)
class DocumentAnswer:
    """What a model wrote for a task, and how much of the documents it was shown."""

    text: str
    notes: tuple[str, ...]
    output_format: OutputFormat
    """The requested one, or markdown if the answers from parts cannot be joined in it."""
    coverage: tuple[DocumentCoverage, ...] = ()
    """The coverage of each document, if not all of them were shown at once."""


async def answer_from(order: Order, task: DocumentTask, texts: Sequence[SourceText], window: int) -> DocumentAnswer:
    """Do the task from the texts.

    Args:
        order: asks the model.
        task: what the model must do.
        texts: the texts of the documents.
        window: how many characters the model accepts.

    Raises:
        Refused: as for `Order.ask`, or the output is not in the requested format.
    """
    room = max(LEAST, window - len(task.prompt) - len(task.custom_instructions))
    passages: list[PassageText] | None = None
    while True:
        try:
            if _size(texts) <= room:
                return DocumentAnswer(*await written(order.ask, process_prompt(task, texts)), task.output_format)
            if passages is None:
                passages = await asyncio.to_thread(lambda: [cut(text) for text in texts])
            if task.mode == "advanced" and needs_everything(task.prompt):
                return await _from_parts(order, task, passages, room)
            return await _from_passages(order, task, passages, room)
        except TooLong:
            if room <= LEAST:
                raise
            room = max(LEAST, min(room, _size(texts)) // 2)


async def _from_passages(order: Order, task: DocumentTask, texts: Sequence[PassageText], room: int) -> DocumentAnswer:
    loop = asyncio.get_running_loop()

    def on_searched(done: int, total: int) -> None:
        loop.call_soon_threadsafe(partial(order.tell_progress, "passages_searched", done, total))

    passages_shown = await asyncio.to_thread(chosen, texts, task.prompt, min(room, MOST_SHOWN), on_searched)
    excerpts = [
        replace(text.source, text=text.shown(passages))
        for text, passages in zip(texts, passages_shown, strict=True)
        if passages
    ]
    text, notes = await written(order.ask, process_prompt(task, excerpts, "excerpts"))
    return _with_shortcomings(task, DocumentAnswer(text, notes, task.output_format, coverage_of(texts, passages_shown)))


async def _from_parts(order: Order, task: DocumentTask, texts: Sequence[PassageText], room: int) -> DocumentAnswer:
    outcome = await PartAnswers(order, task, texts, room).answer()
    answer = DocumentAnswer(outcome.text, outcome.notes, outcome.output_format, coverage_of(texts, outcome.shown))
    return _with_shortcomings(task, answer, outcome.not_joined)


def _with_shortcomings(task: DocumentTask, answer: DocumentAnswer, not_joined: str = "") -> DocumentAnswer:
    """Add what was not read or not merged to the answer: in its notes and, if its format is prose, below the text."""
    language = "de" if (task.language or "").casefold()[:2] == "de" else "en"
    sentences, below = (
        [unread_sentence(answer.coverage, code), _unmerged_sentence(task, answer, code) if not_joined else ""]
        for code in ("en", language)
    )
    notes = (sentences[0], f"{sentences[1]} {not_joined}" if not_joined else "", *answer.notes)
    sentence = " ".join(filter(None, below))
    text = with_sentence(answer.text, sentence, answer.output_format)
    return replace(answer, text=text, notes=tuple(filter(None, notes)))


def _unmerged_sentence(task: DocumentTask, answer: DocumentAnswer, language: str) -> str:
    """Say that answers from parts follow one another unmerged, and why they are not in the requested format."""
    sentence, in_words = _UNMERGED[language]
    if answer.output_format == task.output_format:
        return sentence
    return f"{sentence} {in_words.format(wanted=task.output_format.upper())}"


def coverage_of(
    texts: Sequence[PassageText], shown: Sequence[Sequence[DocumentPassage]]
) -> tuple[DocumentCoverage, ...]:
    """Return how much of each text was shown, the least covered first."""
    coverage = [
        DocumentCoverage(
            document_name=text.source.name[:255] or "document",
            place=_place_kind(text),
            places=len({passage.place for passage in text.passages}),
            places_shown=len({passage.place for passage in passages}),
            characters=sum(passage.end - passage.start for passage in text.passages),
            characters_shown=sum(passage.end - passage.start for passage in passages),
        )
        for text, passages in zip(texts, shown, strict=True)
    ]
    return tuple(sorted(coverage, key=lambda entry: entry.characters_shown - entry.characters))


def _place_kind(text: PassageText) -> PlaceKind:
    """Return the kind of the places of a text, by the heading of the last one."""
    match text.places[-1].removeprefix("## ").partition(" ")[0]:
        case "page" | "sheet" | "slide" as kind:
            return kind
    return "section"


def unread_sentence(coverage: Sequence[DocumentCoverage], language: str) -> str:
    """Say in a sentence what was not shown of the documents; empty if everything was."""
    gaps = [entry for entry in coverage if entry.characters_shown < entry.characters]
    if not gaps:
        return ""
    sentence, _, _, more = _UNREAD[language]
    shares = [_share(entry, language) for entry in gaps[:MAX_NAMED]]
    if len(gaps) > MAX_NAMED:
        shares.append(more.format(count=len(gaps) - MAX_NAMED))
    return sentence.format(documents=", ".join(shares))


def _share(entry: DocumentCoverage, language: str) -> str:
    """Say how much of a document was shown: how many of its pages or other places, else how much of its text."""
    _, part, share, _ = _UNREAD[language]
    if entry.places > 1:
        places = _PLACES[language][entry.place]
        return part.format(shown=entry.places_shown, all=entry.places, places=places, name=entry.document_name)
    percent = entry.characters_shown * 100 / entry.characters
    return share.format(percent=f"{percent:.0f}" if percent >= 1 else f"{percent:.1g}", name=entry.document_name)


def with_sentence(text: str, sentence: str, output_format: OutputFormat) -> str:
    """Add a sentence below the text, if there is one and the format is for readers."""
    if not sentence:
        return text
    match output_format:
        case "markdown":
            return f"{text.rstrip()}\n\n> {sentence}\n"
        case "text":
            return f"{text.rstrip()}\n\n{sentence}\n"
        case "html":
            return f"{text.rstrip()}\n<p>{escaped(sentence)}</p>\n"
    return text


def escaped(sentence: str) -> str:
    return sentence.replace("&", "&amp;").replace("<", "&lt;")


def _size(texts: Sequence[SourceText]) -> int:
    return sum(len(text.text) + len(text.name) + AROUND for text in texts)


MOST_READ: Final = 5_000  # characters of a task


_POINTS: Final = (
    r"key (?:facts|points|findings|messages)|main points|kernaussagen|points clés|punti chiave|puntos clave"
)


_SUM_UP: Final = (
    rf"summar(?:y|ies|i[sz]\w*)|sum up|overview|{_POINTS}|tl;dr|translat(?:e[ds]?|ing|ions?)"
    r"|zusammenfass\w*|zusammengefasst|fass\w*\b.{0,80}\bzusammen|überblick|übersicht|übersetz(?:en?|t|ung)"
    r"|résum(?:e[rsz]?|ons|ant)|(?:un|bref|court|petit|le) résumé|synthès\w*|synthétis\w*|aperçu|tradui\w*"
    r"|riassu\w*|sintesi|sintetizza\w*|panoramica|tradu(?:ci\w*|ce|rre|zion[ei])"
    r"|resum(?:a|as|an|ir|en|o|os)|síntesis|sintetiza\w*|sinteti[cz]\w*|visión general|visão geral|síntese"
    r"|tradu(?:ce|zca|cir|cción|z|za|zir|ção)"
    r"|samenvat\w*|vat\b.{0,80}\bsamen|overzicht|vertaal\w*"
    r"|sammanfatt\w*|översikt|sammenfat\w*|oppsummer\w*|oversikt|overblik|oversæt\w*|oversett\w*|översätt\w*"
    r"|podsumuj\w*|podsumowani\w*|streszcz\w*|przetłumacz\w*"
)


_COMPARE: Final = (
    r"compar(?:e[ds]?|ing|isons?)|contrast(?= (?:the|these|both|them|two|all)\b)|differences? between"
    r"|vergleich(?:en?|t|s|end\w*)?|verglichen|unterschiede?n?"
    r"|compar(?:er|ez|aison\w*)|différences?|confront(?:a|are|ate|i|o)|differenz[ae] tra"
    r"|compar(?:a|ar|ación|ação)|diferen[cç]\w* entre"
    r"|vergelijk\w*|verschil\w*|jämför\w*|skillnad\w*|sammenlign\w*|forskel\w*|forskjell\w*|porówna\w*|różnic\w*"
)


_REQUESTS: Final = (
    rf"{_POINTS}|summari[sz]e|sum up|(?:an?|short) (?:summary|overview)|differences? between|differ|compare"
    r"|zusammenfassen|einen? (?:überblick|übersicht|zusammenfassung)|unterschiede?n? zwischen|unterscheiden|vergleichen"
    r"|résumer|différences? entre|diffèrent|riassumere|differenz[ae] (?:tra|fra)|resumir|diferen[cç]\w* entre"
    r"|verschil\w* tussen|skillnad\w* mellan|forskj?el\w* (?:på|mellem|mellom)|różnic\w*"
)


_LIST: Final = r"list\w*|enumerat\w*|name|extract|find|give|show|collect|count|how many|which|what|who|who are"


_ALL: Final = (
    rf"(?:{_LIST})\b[^.?!\n]{{0,40}}?\b(?:all|every|each|everything|everyone|everybody|complete list)"
    r"|complete list|full list|in total how many"
    r"|(?:nenne\w*|liste\w*|zähle\w*|zeige\w*|finde\w*|gib|führe|welche\w*|wer|was)\b[^.?!\n]{0,40}?\b"
    r"(?:alle[nrs]?|sämtliche\w*|jede[nrs]?)|auflist\w*|vollständige liste|liste aller"
    r"|(?:liste\w*|énumère\w*|donne\w*|cite\w*|trouve\w*|montre\w*|quel\w*)\b[^.?!\n]{0,40}?\b(?:tous|toutes|chaque)"
    r"|(?:elenca\w*|trova|mostra|quali|dammi)\b[^.?!\n]{0,40}?\b(?:tutt[ie]|ogni)"
    r"|(?:enumera\w*|lista\w*|muestra|encuentra|qué|cuáles|dame|liste|mostre|encontre|quais)\b[^.?!\n]{0,40}?\b"
    r"(?:tod[oa]s|cada)"
    r"|(?:noem|toon|geef|vind|welke|som)\b[^.?!\n]{0,40}?\b(?:alle|elke?|ieder\w*)"
    r"|(?:lista|visa|nämn|hitta|vilka)\b[^.?!\n]{0,40}?\b(?:alla|varje|samtliga)"
    r"|(?:list|vis|nævn|nevn|find|finn|hvilke|opregn|angi)\b[^.?!\n]{0,40}?\b(?:alle|hver\w*|samtlige)"
    r"|(?:wymień|wypisz|pokaż|znajdź|podaj|które|jakie)\b[^.?!\n]{0,40}?\b(?:wszystki\w*|każd\w*)"
)


_REPORT: Final = (
    r"(?:write|create|generate|prepare|make|draft|give me)\b[^.?!\n]{0,40}\b(?:reports?|memo|briefing)"
    r"|(?:schreib\w*|erstell\w*|verfass\w*)\b[^.?!\n]{0,40}\bbericht\w*"
    r"|(?:rédige\w*|écri\w*)\b[^.?!\n]{0,40}\brapport|(?:escrib\w*|redacta\w*|escreva)\b[^.?!\n]{0,40}\b(?:informe|relatório)"
    r"|(?:scrivi|redigi)\b[^.?!\n]{0,40}\b(?:relazione|rapporto)"
)


_CONVERT: Final = (
    r"convert(?:ed|ing)?|transform(?:ed|ing)?|export(?= (?:the|all|every\w*|it|them|this|these|as|to)\b)"
    r"|turn\b.{0,60}\binto|konvertier\w*|wandle\b.{0,60}\bum|exportier\w*"
)


_BEGINS: Final = r"(?:please |por favor,? )?(?:export|resume|résumé)\b(?! (?:of|code|number|work)\b)"
"""Words that are a verb, or a whole task, only at the beginning of a task."""


_QUESTION: Final = re.compile(
    r"\W*(?:(?:tell me|say|find out|sag(?:en sie)? mir|dis-moi|dites-moi|dimmi|dime|diga-me),? )?"
    r"(?:(?:and|und|et|in|on|at|to|by|for|from|with|of|auf|an|bei|mit|zu|für|von|à|de|dans|a|da|di|con|en|em|para) )?"
    r"(?:who(?:m|se)?|when|where|why|which|what|how|is|are|was|were|does|did|has|have"
    r"|wer|we[nm]|wessen|wann|woh?er|wohin|wo|warum|wie\w*|welche\w*|ist|sind|hat|haben"
    r"|qui|quand|où|pourquoi|comment|combien|quel\w*|que|qu'\w+|est-ce"
    r"|chi|quando|dove|perché|quant[oaie]|qual[ei]?|che|cosa|è"
    r"|quién\w*|cuándo|dónde|por qué|cómo|cuánt\w+|cuál\w*|qué|quem|onde|como|quais"
    r"|wat|welke?|wanneer|waar|hoe\w*|vem|vad|vilke\w*|när|var|hur|hvem|hvad?|hvilke\w*|hvornår|når|hvor"
    r"|kto|kiedy|gdzie|co|któr\w*|jaki\w*|ile)\b",
    re.IGNORECASE,
)


_WITHIN: Final = re.compile(
    r"\b(?:(?:in|on|of|at) (?:the|this|that|his|her|its|their|our|your|my|\w+'s) (?:[\w-]+ ){0,2}?"
    r"(?:summary|overview|translation|comparison|reports?|memo|briefing|export|list(?: of all)?)"
    r"|(?:(?:in|auf|aus|laut|von) )?(?:der|dem|des|dieser|diesem|im|vom) (?:\w+ )?"
    r"(?:zusammenfassung|übersicht|überblicks?|bericht\w*|vergleichs?|übersetzung|\w*liste(?: aller)?)"
    r"|(?:dans|sur|du|de|selon) ?(?:le |la |l'|ce |cette )?(?:résumé|synthèse|aperçu|rapport|comparaison|liste)"
    r"|(?:ne|de|su|da)l(?:la |l'| )(?:riassunto|sintesi|panoramica|relazione|rapporto|lista|traduzione)"
    r"|(?:en|de|del|según) ?(?:el |la |este |esta )?(?:resumen|síntesis|informe|comparación|traducción|lista)"
    r"|(?:no|na|do|da) (?:resumo|síntese|relatório|tradução|lista))\b",
    re.IGNORECASE,
)


_FOR_ALL: Final = re.compile(
    r"\b(?:for|to|with|by|at|on|für|zu|mit|bei|pour|à|avec|per|a|con|para|por|voor|för|til|dla) (?:\w+ )?"
    r"(?:all|every|each|everyone|everybody|alle[nrs]?|jede[nrs]?|tous|toutes|chaque|tutt[ie]|ogni|tod[oa]s|cada|alla"
    r"|elke?|wszystki\w*)\b",
    re.IGNORECASE,
)


_CLAUSE: Final = re.compile(r"[.!?;\n]+|, ?(?:and|then|und|dann|et|puis|e|poi|y|luego|en|och|og|i) ")


_NEEDS: Final = re.compile(rf"\W*{_BEGINS}|.*?\b(?:{_SUM_UP}|{_COMPARE}|{_ALL}|{_REPORT}|{_CONVERT})\b", re.IGNORECASE)


_ASKS: Final = re.compile(rf".*?\b(?:{_REQUESTS}|{_ALL})\b", re.IGNORECASE)


def needs_everything(task: str) -> bool:
    """Return whether a task cannot be done from some passages, however well they fit."""
    return any(map(_needs, _CLAUSE.split(task[:MOST_READ].replace("\u2019", "'"))))


def _needs(clause: str) -> bool:
    task = _WITHIN.sub(" ", " ".join(clause.split()))
    if _QUESTION.match(task):
        return _ASKS.match(_FOR_ALL.sub(" ", task)) is not None
    return _NEEDS.match(task) is not None
