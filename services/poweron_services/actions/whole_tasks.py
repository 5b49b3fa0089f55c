"""Tasks that need everything that documents say, told by their words: sum up, list all, compare.

In the languages that are told apart elsewhere; a task in another one is answered from what fits it best.
"""

import re
from typing import Final

MOST_READ: Final = 5_000  # characters of a task

_SUM_UP: Final = (
    r"summar(?:y|ies|i[sz]\w*)|sum up|overview|key (?:facts|points|findings|messages)|main points|tl;dr|translat\w*"
    r"|zusammenfass\w*|zusammengefasst|fass\w*\b.{0,80}\bzusammen|überblick|übersicht|kernaussagen|übersetz\w*"
    r"|résum\w*|synthès\w*|synthétis\w*|aperçu|tradui\w*"
    r"|riassu\w*|sintesi|sintetizza\w*|panoramica|tradu[cz]\w*"
    r"|resum\w*|síntesis|sintetiza\w*|sinteti[cz]\w*|visión general|visão geral|síntese"
    r"|samenvat\w*|vat\b.{0,80}\bsamen|overzicht|vertaal\w*"
    r"|sammanfatt\w*|översikt|sammenfat\w*|oppsummer\w*|oversikt|overblik|oversæt\w*|oversett\w*|översätt\w*"
    r"|podsumuj\w*|podsumowani\w*|streszcz\w*|przetłumacz\w*"
)
_COMPARE: Final = (
    r"compar(?:e[ds]?|ing|isons?)|contrast\w*|differences? between|vergleich\w*|verglichen|unterschied\w*"
    r"|compar(?:er|ez|aison\w*)|différences?|confront\w*|differenz\w*|compar(?:a|ar|ación|ação|e)|diferenc\w*|diferenç\w*"
    r"|vergelijk\w*|verschil\w*|jämför\w*|skillnad\w*|sammenlign\w*|forskel\w*|forskjell\w*|porówna\w*|różnic\w*"
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
    r"convert\w*|transform\w*|export\w*|turn\b.{0,60}\binto|konvertier\w*|wandle\b.{0,60}\bum|exportier\w*"
)
_NEEDS: Final = re.compile(rf"\b(?:{_SUM_UP}|{_COMPARE}|{_ALL}|{_REPORT}|{_CONVERT})\b", re.IGNORECASE)


def needs_everything(task: str) -> bool:
    """Whether a task cannot be done from some passages, however well they fit."""
    return _NEEDS.search(task[:MOST_READ]) is not None
