"""Words as the built-in model compares them: stems, names and numbers, and synonyms.

The lists hold general vocabulary of English and German business language; none is about a particular document.
"""

import re
import unicodedata
from functools import cache, lru_cache
from typing import Any, Final

from poweron_services.text.language_detection import SMALL_WORDS, detect

MAX_TEXT = 5_000  # characters used to detect the language
MAX_WORD = 100  # characters; the rest of a longer word is ignored
STEMMERS: Final = {
    "ar": "arabic",
    "da": "danish",
    "de": "german",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "it": "italian",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ru": "russian",
    "sv": "swedish",
}
"""The languages that have a stemmer, and the names of the stemmers."""

_TOKEN = re.compile(r"\w+(?:[-./@'\u2019,:&+]\w+)*")
_PART = re.compile(r"[^\W_]+")
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)t(\d\d:\d\d)")
_E_MAIL = re.compile(r"\be-mail", re.IGNORECASE)


def words_in(text: str) -> frozenset[str]:
    """Split a list of words into a set, in lower case."""
    return frozenset(text.casefold().split())


STOP_WORDS: Final = {
    "en": words_in(
        """a about above according after again all also am an and any are as at be been being below between both but by
        called can could did do does doing done down during each either every exactly few find for found from
        further get give given got had has have having he her here hers him his how i if in into is it its
        itself just kindly know least let list ll long many may me mention mentioned might more most much must
        my named no nor not now of off old on once one only or other our out over own per please respectively
        s said same say says shall she should show so some state stated such t tell than that the their them
        then there these they this those through to too under up upon us using very via want was we were what
        when where whether which while who whom whose why will with within would you your"""
    ),
    "de": words_in(
        """aber alle allem allen aller alles als also am an auch auf aus bei beim bin bis bist bitte da damit dann das
        dass dein deine dem den der deren des dessen dich die dies diese diesem diesen dieser dieses dir doch
        dort du durch ein eine einem einen einer eines er es etwas euch euer für gegen gibt habe haben hat
        hatte heißt ich ihm ihn ihnen ihr ihre im in ist ja jede jeder jedes kann kein keine können lange laut
        lautet man mein mich mir mit muss nach nenne nennen nicht noch nun nur ob oder ohne sag sage sehr sein
        seine ihrem ihren ihrer ihres seinem seinen seiner unsere unserer
        sich sie sind so soll sowie steht um und uns unser unter viel viele vom von vor wann war waren
        warum was weil welche welchem welchen welcher welches wem wen wenn wer werden wessen wie wieviel wir
        wird wo woher wohin wurde wurden zeige zu zum zur zwischen über müssen darf dürfen sollen"""
    ),
    **{language: words for language, words in SMALL_WORDS.items() if language not in ("en", "de")},
}

KEPT_APART: Final = words_in("insurer insured employer employee payer payee lessor lessee founder organ organization")
"""Words of different meaning that a stemmer would merge."""

SAME_MEANING: Final = """
    total sum altogether owed gesamt summe gesamtbetrag gesamtsumme endbetrag rechnungsbetrag; subtotal zwischensumme;
    cost costs price charge betrag preis kosten kostet amount; fee gebühr charge cost;
    tax vat steuer mehrwertsteuer mwst umsatzsteuer; discount rabatt nachlass skonto rebate; invoice bill rechnung;
    due fällig payable; paid pay payment zahlung bezahlt zahlen bezahlen; revenue turnover umsatz erlös;
    salary wage gehalt lohn; rent miete mietzins; value worth wert;
    customer client buyer member guest kunde kundin auftraggeber käufer insured;
    insured versicherungsnehmer versicherte; insurer insurance versicherer versicherung;
    supplier vendor seller lieferant verkäufer;
    employee employees staff worker personnel mitarbeiter angestellte headcount workforce belegschaft people persons;
    author writer verfasser autor autorin written wrote geschrieben prepared erstellt verfasst;
    founder founded gründer gegründet established started gründung; company firm organisation unternehmen firma;
    manager managed leiter leitung leitet; contact ansprechpartner kontakt;
    responsible verantwortlich zuständig owner own owned prepared; name namen 名前 氏名; age alter old 年齢;
    address adresse anschrift 住所; lives wohnt wohnen residence 住所; phone telephone tel telefon telefonnummer mobile;
    email mail emailadresse; website url webseite homepage site;
    present attend attended attendee participants anwesend teilnehmer; date dated issued printed published datum 日付;
    start begin beginning beginn anfang began; expire expired end ending finish finished until till bis;
    deadline frist stichtag due; time uhrzeit zeit showtime hour stunde; year jahr baujahr; month monat;
    duration runtime laufzeit dauer dauert lasts period; valid validity gültig gültigkeit;
    vacation holiday leave urlaub urlaubstage; advance ahead beforehand vorher voraus;
    delivery lieferung liefertermin lieferdatum shipping shipped; meeting besprechung sitzung;
    color colour farbe; license licence; plate kennzeichen; tire tyre; gray grey; center centre; meter metre;
    program programme; check cheque; aluminum aluminium; labor labour; neighbor neighbour; catalog catalogue;
    vehicle car auto fahrzeug wagen automobile;
    mileage odometer kilometerstand kilometers kilometer km; plate kennzeichen;
    manufacturer maker make hersteller marke brand; ready finished done complete completed fertig abgeschlossen;
    repair repariert reparatur reparieren fixed; replace replaced ersetzt ausgetauscht; damage schaden damaged;
    product item article artikel produkt position goods; quantity qty menge stück anzahl count stock bestand units;
    number no nummer nr id; identifier id kennung; transaction txn transaktion; reference ref referenz;
    authorization auth autorisierung; department dept abteilung; percent percentage pct prozent; share anteil quote;
    maximum max upper high highest höchst; minimum min lower low lowest; limit allowance cap grenze;
    category kategorie type art; note remark comment bemerkung hinweis;
    location place ort standort site position headquarters headquartered;
    warehouse storage stored store lager gelagert; warranty guarantee guaranteed garantie; return rückgabe refund;
    contract agreement vertrag vereinbarung;
    terminate termination cancel cancellation kündigung kündigen kündigungsfrist notice; order bestellung auftrag;
    estimate quote quotation kostenvoranschlag angebot offer; temperature temp; labor labour arbeit; points pts;
    buy bought acquire acquired acquisition purchase purchased kauf gekauft erworben übernahme;
    update updated change changed modified revised amended geändert aktualisiert; accept accepted take;
    tell inform talk notify informieren; signed signature unterschrieben unterschrift; go goes went gone;
    choose chose chosen select selected selection gewählt; decision decided beschluss entscheidung;
    sell sold seller verkauft; grow grew grown growth wachstum; open opened opening eröffnung eröffnet;
    close closed closing geschlossen
"""
"""Words that mean the same in the labels of documents, in groups separated by semicolons."""

GENERIC: Final = words_in(
    """accepted acht actually aktuell allow already amount angabe angaben anything appear apply approximately article
    artikel ask attachment available became become befindet begin belong benutzt betragen beträgt big billion blog
    bring business came cell charge code column come company complete concern consist contain content count cover
    current data datei dateien deal derzeit describe detail different digit directory document dokument drei early eight
    eleven employed enthalten enthält entire entry erste erwartet ever exact exist expected explain fact far field
    figure file final firm first five folder folie following form four full function fünf gave gehören gehört gemacht
    geplant go goes grand great groß half happen held high hoch hold hundred important include info information
    informationen installed institution item job keep kept key kind kommt large last latest left letter letzte
    level liegt line listed live locate look macht made main make mean method million mounted name necessary need
    neun next nine number nächste observed occur offer oft often one option organisation organization overall page paper
    pdf people permitted person piece placed planned possible post presentation previous product produkt provide put
    qty quantity question raise reach reading receive recent recorded refer relate required role row run scheduled sechs
    second seen seite set seven sheet shop shown shows sieben situated six slide somebody someone something soon sort
    spalte spreadsheet stand still stored stück supported tabelle table take taken ten text thing third thousand
    three title today told took twelve two type units usage use value version verwendet vier vorgesehen way went
    wert whole work workbook written years zehn zeile zwei absatz footnote fußnote paragraph satz sentence"""
)
"""Words that carry little meaning, in any form."""


def language_of(text: str, beside: str = "") -> str:
    """Return the language whose stop words a text uses; in doubt that of the text beside it, or English."""
    if (language := detect(text[:MAX_TEXT])) in STEMMERS and language not in STOP_WORDS:
        return str(language)
    words = [word.casefold() for word in _PART.findall(text[:MAX_TEXT])]
    counts = {language: sum(word in small for word in words) for language, small in STOP_WORDS.items()}
    best = max(counts, key=lambda language: counts[language])
    if (
        language is None
        and (other_language := detect(beside[:MAX_TEXT]))
        and counts.get(other_language, 0) >= counts[best]
    ):
        return other_language
    return best if counts[best] > counts["en"] + 1 or (counts[best] and not counts["en"]) else "en"


def known_language(language: str | None, text: str) -> str:
    """Return the given language, in two letters, or else that of the text."""
    return (language or detect(text) or language_of(text)).casefold()[:2]


def tokens(text: str) -> list[str]:
    """Split a text into its words; `SKU-9201`, `12/20/24` and `a@b.example` are one word each."""
    return [token[:MAX_WORD] for token in _TOKEN.findall(_E_MAIL.sub("email", unicodedata.normalize("NFKC", text)))]


def terms(text: str, language: str) -> list[str]:
    """Return the terms by which a text is compared: stems without stop words; a compound also by its parts."""
    return [term for token in tokens(text) for term in token_terms(token, language)]


@lru_cache(maxsize=100_000)
def token_terms(token: str, language: str) -> tuple[str, ...]:
    """Return the terms of a word, the whole word first; none for a stop word."""
    if is_small(token, language):
        return ()
    plain = token.casefold()
    if moment := _MOMENT.match(plain):
        return (plain, *moment.groups())
    parts = _PART.findall(plain)
    if len(parts) < 2:
        return (stem(plain, language),) if plain else ()
    whole = (plain,) if any(map(str.isdigit, plain)) else ()
    significant = (part for part in parts if len(part) > 1 and not is_small(part, language))
    return (*whole, *(stem(part, language) for part in significant))


def is_small(token: str, language: str) -> bool:
    """Return whether a word is a stop word, without a meaning of its own."""
    word = token.casefold()
    known = word in STOP_WORDS["en"] or word in STOP_WORDS.get(language, frozenset())
    return known or not _without_small(language).analyze(token.lower())


@lru_cache(maxsize=50_000)
def stem(word: str, language: str) -> str:
    """Return a word without its endings."""
    if word in KEPT_APART:
        return word
    stems: list[str] = _analyzer(language).analyze(word)
    return stems[0] if stems else word


@cache
def meanings(language: str) -> dict[str, frozenset[str]]:
    """Return the synonyms of each stem, as stems."""
    groups: dict[str, set[str]] = {}
    for group in SAME_MEANING.split(";"):
        stems = {stem(word, language) for word in group.split()}
        for word in stems:
            groups.setdefault(word, set()).update(stems)
    return {word: frozenset(synonyms - {word}) for word, synonyms in groups.items()}


@cache
def _without_small(language: str) -> Any:
    """Return an analyzer that drops the stop words of a language, if they are known."""
    import tantivy  # noqa: PLC0415 - other models never need it

    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.raw())
    name = STEMMERS.get(language, "english")
    return (builder if language in ("ar", "en") else builder.filter(tantivy.Filter.stopword(name))).build()


@cache
def _analyzer(language: str) -> Any:
    import tantivy  # noqa: PLC0415 - other models never need it

    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.raw()).filter(tantivy.Filter.lowercase())
    return builder.filter(tantivy.Filter.stemmer(STEMMERS.get(language, "english"))).build()
