"""Tasks that need everything that documents say, recognised by their words: sum up, list all, compare.

This works in the languages that are detected elsewhere; a task in another one is answered from the passages that fit
best. Words that only name the place of a fact (“in the summary”, “on the price list”) do not count, and a question
needs everything only if it asks for all of something, for the main points or for differences.
"""

import re
from typing import Final

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
