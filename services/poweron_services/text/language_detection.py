"""Detect the language of a prompt by its small words and its script, unless a guess could be wrong (D-01).

A language is reported only if the text contains at least two of its small words, and more than of any other language.
Text that may occur in any language does not count: quotations, numbers, addresses and the particles of names.
docs/decisions/0011 records what else was measured.
"""

import re
from typing import Final

ENOUGH = 2  # different small words
MOST_READ = 5_000  # characters

SMALL_WORDS: Final = {
    language: frozenset(words.split())
    for language, words in {
        "en": """the a an of and or in on at to for from with without by as is are was were be been has have had do does
            did it its this that these those what which who whom whose when where why how much many all both each every
            any their there they he she we you i my our your not no please into about than between if can could should
            would will summarise summarize list compare extract write show tell find give translate make two five""",
        "de": """der die das den dem des ein eine einen einem einer eines und oder in im ins an am auf aus bei beim mit
            nach von vom zu zum zur für über unter ist sind war waren wird werden hat haben hatte was wer wem wen wie
            wann wo warum welche welcher welches welchen dieser diese dieses diesen diesem alle aller beide beiden nicht
            kein keine bitte ich wir sie es er mir uns kann kannst soll gibt steht stehen zusammen hoch viel viele
            fünf zwei drei kurz fasse vergleiche erstelle nenne zeige schreibe liste übersetze""",
        "fr": """le la les l un une des du de d et ou en au aux dans pour par sur avec sans est sont a ont été qui que
            quoi quel quelle quels quelles quand où comment combien pourquoi ce cet cette ces mon notre votre leur leurs
            tous toutes deux trois cinq je nous vous il elle ils ne pas s il plaît merci résume compare rédige liste
            montre donne extrais traduis""",
        "it": """il lo la gli le l un uno una di del dello della dei degli delle d e o in nel nella nei al alla ai da
            dal dalla con senza per su sul sulla è sono ha hanno chi che cosa quale quali quando dove come quanto quanta
            quanti perché questo questa questi queste entrambe entrambi tutti tutte due tre cinque non mi ci riassumi
            confronta elenca scrivi mostra estrai traduci""",
        "es": """el la los las un una unos unas de del y o en al con sin para por sobre es son fue ha han qué quién
            quiénes cuál cuáles cuándo dónde cómo cuánto cuánta cuántos cuesta que este esta estos estas ambos ambas
            todos todas dos tres cinco no mi su sus resume compara enumera escribe muestra extrae traduce por favor""",
        "pt": """o a os as um uma uns umas de do da dos das e ou em no na nos nas ao à aos com sem para por sobre é são
            foi tem qual quais quem quando onde como quanto quanta quantos que este esta estes estas ambos ambas todos
            todas dois duas três cinco não meu seu sua resuma compare liste escreva mostre extraia traduza custa""",
        "nl": """de het een en of in op aan bij met zonder voor van naar uit over is zijn was waren heeft hebben wordt
            wat wie welke wanneer waar hoe hoeveel waarom dit dat deze die alle beide niet geen ik wij we u je mij ons
            samen twee drie vijf vat vergelijk maak toon geef schrijf vertaal""",
        "sv": """en ett den det de och eller i på till från med utan för av är var har vad vem vilka vilken vilket när
            hur mycket många varför detta denna dessa alla båda inte jag vi du ni två tre fem sammanfatta jämför skriv
            visa""",
        "da": """en et den det de og eller i på til fra med uden for af er var har hvad hvem hvilke hvilken hvornår hvor
            meget mange hvorfor dette denne disse alle begge ikke jeg vi du to tre fem sammenfat sammenlign skriv vis
            underskrevet""",
        "no": """en et den det de og eller i på til fra med uten for av er var har hva hvem hvilke hvilken når hvor mye
            mange hvorfor dette denne disse alle begge ikke jeg vi du to tre fem oppsummer sammenlign skriv vis""",
        "pl": """i lub w we na do od z ze bez dla przez o jest są był była było ma mają co kto jaki jaka jakie który
            która które kiedy gdzie jak ile dlaczego ten ta to te tych wszystkie wszystkich oba nie ja my proszę dwa
            trzy pięć podsumuj porównaj wymień napisz pokaż""",
    }.items()
}
_SCRIPTS: Final = {
    "ja": re.compile(r"[\u3040-\u30ff]"),
    "ko": re.compile(r"[\uac00-\ud7af]"),
    "el": re.compile(r"[\u0370-\u03ff]"),
    "he": re.compile(r"[\u0590-\u05ff]"),
    "zh": re.compile(r"[\u4e00-\u9fff]"),  # without kana
    "ar": re.compile(r"[\u0621-\u064a]"),
}
_OTHERS: Final = {"ar": re.compile(r"[\u067e\u0686\u0698\u06af\u0679\u0688\u06d2]")}
"""Letters of the script that occur only in other languages, such as Persian."""
_APART = re.compile(
    r"\"[^\"]*\"|\u201c[^\u201c\u201d]*\u201d|\u201e[^\u201c-\u201e]*[\u201c\u201d]|«[^«»]*»|`[^`]*`"
    r"|(?<!\w)'[^']*'(?!\w)|(?<!\S)\S*[\d@/\\_]\S*"
)
_PARTICLES = re.compile(
    r"(?<=\w)(?:\s(?:von|der|den|van|zu|de|la|le|les|du|des|della|di|da|do|dos|das|del|y|e|et|und|and|en|of|the))+(?=\s[A-ZÀ-Þ])"
)
_WORD = re.compile(r"[^\W\d_]+")
_MANY = 3  # letters of a script that only one language uses


def detect(text: str) -> str | None:
    """Return the two-letter code of the text's language, or None if it is in doubt."""
    plain = _APART.sub(" ", text[:MOST_READ])
    for language, letters in _SCRIPTS.items():
        if len(letters.findall(plain)) >= _MANY:
            others = _OTHERS.get(language)
            return None if others and others.search(plain) else language
    words = {word.casefold() for word in _WORD.findall(_without_particles(plain))}
    (second, _), (most, best) = sorted((len(words & small), language) for language, small in SMALL_WORDS.items())[-2:]
    return best if most >= ENOUGH and most > second else None


def _without_particles(text: str) -> str:
    """The text without the small words between two capitalised words: they may be part of a name."""
    return _PARTICLES.sub(lambda match: "" if _is_capital(text, match.start()) else match[0], text)


def _is_capital(text: str, end: int) -> bool:
    """Return whether the word that ends there begins with a capital letter."""
    begin = text.rfind(" ", 0, end) + 1
    return text[begin].isupper()
