"""The fixed words of a report in the supported languages; English is used for all others."""

from typing import Final

_MONTHS: Final = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "ar": "يناير فبراير مارس أبريل مايو يونيو يوليو أغسطس سبتمبر أكتوبر نوفمبر ديسمبر",
}
_DATES: Final = {
    "en": "{month} {day}, {year}",
    "de": "{day}. {month} {year}",
    "fr": "{day} {month} {year}",
    "ar": "{day} {month} {year}",
}
_WORDS: Final[dict[str, dict[str, str]]] = {
    "en": {
        "contents": "Contents", "by": "Prepared by PowerOn", "for": "Prepared by PowerOn for {name}",
        "source": "1 source", "sources": "{count} sources", "result": "Result", "notes": "Notes on the reading",
        "page": "Page {number}", "sheet": "Sheet {number}", "slide": "Slide {number}", "figure": "Figure",
        "bars": "Bar chart", "line": "Line chart", "of": "{what}: {data}.",
    },
    "de": {
        "contents": "Inhalt", "by": "Erstellt von PowerOn", "for": "Erstellt von PowerOn für {name}",
        "source": "1 Quelle", "sources": "{count} Quellen", "result": "Ergebnis", "notes": "Hinweise zum Lesen",
        "page": "Seite {number}", "sheet": "Tabelle {number}", "slide": "Folie {number}", "figure": "Abbildung",
        "bars": "Balkendiagramm", "line": "Liniendiagramm", "of": "{what}: {data}.",
    },
    "fr": {
        "contents": "Sommaire", "by": "Établi par PowerOn", "for": "Établi par PowerOn pour {name}",
        "source": "1 source", "sources": "{count} sources", "result": "Résultat", "notes": "Remarques de lecture",
        "page": "Page {number}", "sheet": "Feuille {number}", "slide": "Diapositive {number}", "figure": "Figure",
        "bars": "Diagramme à barres", "line": "Courbe", "of": "{what} : {data}.",
    },
    "ar": {
        "contents": "المحتويات", "by": "أعدّه PowerOn", "for": "أعدّه PowerOn لأجل {name}",
        "source": "مصدر واحد", "sources": "عدد المصادر: {count}", "result": "النتيجة", "notes": "ملاحظات القراءة",
        "page": "صفحة {number}", "sheet": "ورقة {number}", "slide": "شريحة {number}", "figure": "شكل",
        "bars": "مخطط أعمدة", "line": "مخطط خطي", "of": "{what}: {data}.",
    },
}  # fmt: skip


def word(name: str, language: str, /, **values: object) -> str:
    """Return a fixed word or phrase in a language."""
    code = language.partition("-")[0].casefold()
    return _WORDS.get(code, _WORDS["en"])[name].format(**values)


def date(day: str, language: str) -> str:
    """Format a day such as `2025-03-14` for a language; it stays unchanged if the language is not supported."""
    code = language.partition("-")[0].casefold()
    if code not in _MONTHS or not day:
        return day
    year, month, number = day.split("-")
    name = _MONTHS[code].split()[int(month) - 1]
    return _DATES[code].format(day=int(number), month=name, year=year)
