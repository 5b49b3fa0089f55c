"""Figures of tables: bar charts for categories and line charts for changes over time, as self-contained SVG.

Only a table whose first column names the rows and whose other columns are numbers of one unit gets a figure. The fixed
words of a report are here, too; languages without them get English.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from html import escape
from typing import Final

from poweron_services.connectors.reports_child.report import RIGHT_TO_LEFT, Figure, ReportTable, text_of
from poweron_services.text.numbers import Number, column_numbers, decimal_mark

MOST_BARS, MOST_POINTS, MOST_SERIES = 12, 60, 6


MOST_APART: Final = 200  # times as large as the smallest; beyond that, small bars are invisible


COLOURS: Final = ("#1d5b79", "#c8553d", "#588157", "#8a6fb0", "#b8860b", "#4a4e69")


FONT: Final = "Noto Sans, Noto Sans Arabic, Segoe UI, Helvetica, Arial, sans-serif"


WIDTH: Final = 660


LABEL_WIDTH, VALUE_WIDTH = 220, 90


BAR, GAP, TOP = 16, 12, 34


HEIGHT: Final = 240  # of a line chart


MOST_LABEL: Final = 30  # characters


_TOTAL: Final = re.compile(
    r"(?:(?:grand |sub)?|(?:montant|prix|importe|valor) )total\b|totale\b|totaal|razem\b|suma\b|sum\b|summe\b"
    r"|gesamt|zwischensumme|somme\b|difference\b|differenz\b|différence\b|diferencia\b|differenza\b"
    r"|الإجمالي|المجموع|الفرق",
    re.IGNORECASE,
)


_CHARGE: Final = re.compile(
    r"\b(?:tax|vat|discount|rebate|shipping|postage|deposit|mwst|ust|steuer|rabatt|nachlass|versand|skonto|tva|iva|remise)\b"
    r"|\w+steuer\b",
    re.IGNORECASE,
)
"""Row labels that mark a table as a bill, which gets no figure."""


_MONTH: Final = (
    r"(?:jan|feb|mar|mär|apr|may|mai|jun|jul|aug|sep|oct|okt|nov|dec|dez|janv|févr|mars|avr|juin|juil|août|déc)\w*\.?"
)


_TIME: Final = re.compile(
    rf"(?:(?:19|20)\d\d|(?:q|quarter |quartal |t)[1-4](?:[ /-]*(?:19|20)?\d\d)?|{_MONTH}(?:[ -]*(?:19|20)\d\d)?"
    r"|\d{4}-\d\d(?:-\d\d)?|\d{1,2}[./]\d{1,2}[./](?:19|20)?\d\d|(?:week|woche|kw|day|tag|month|monat) ?\d{1,3}"
    r"|\d\d:\d\d(?::\d\d)?)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Series:
    name: str
    values: tuple[Decimal | None, ...]
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Chart:
    labels: tuple[str, ...]
    series: tuple[_Series, ...]
    is_time: bool

    @property
    def known(self) -> list[Decimal]:
        return [value for series in self.series for value in series.values if value is not None]


def figure_of(table: ReportTable, under: str, language: str, number: int) -> Figure | None:
    """Draw the figure of a table, or return None if its numbers cannot be compared in a chart."""
    chart = _chart(table)
    if chart is None:
        return None
    kind = word("line" if chart.is_time else "bars", language)
    data = "; ".join(f"{series.name}: {_values_text(chart.labels, series)}" for series in chart.series)
    caption = f"{word('figure', language)} {number}: {under}" if under else f"{word('figure', language)} {number}"
    svg = _lines(chart) if chart.is_time else _bars(chart, mirrored=language.partition("-")[0] in RIGHT_TO_LEFT)
    return Figure(svg, word("of", language, what=kind, data=data), caption)


def _values_text(labels: Sequence[str], series: _Series) -> str:
    return ", ".join(f"{label} {cell}" for label, cell in zip(labels, series.cells, strict=True) if cell)


def _chart(table: ReportTable) -> _Chart | None:
    if not table.header or table.columns < 2 or len(table.rows) < 2:
        return None
    header = [text_of(cell).strip() for cell in table.header]
    cells = [[text_of(cell).strip() for cell in row] for row in table.rows]
    rows = [row for row in cells if not _TOTAL.match(row[0])]
    columns = [column for column in range(1, table.columns) if not _TOTAL.match(header[column])]
    labels = tuple(row[0] for row in rows)
    if any(map(_CHARGE.search, labels)):
        return None
    if not columns or not all(labels) or len(set(labels)) < len(labels):
        return None
    columns_of_numbers = _comparable(rows, columns)
    if columns_of_numbers is None:
        return None
    names = [header[column] for column in columns]
    if all(map(_TIME.fullmatch, names)) and len(columns) > 2 and not all(map(_TIME.fullmatch, labels)):
        series = [[numbers[row] for numbers in columns_of_numbers] for row in range(len(rows))]
        texts = [[row[column] for column in columns] for row in rows]
        return _readable_chart(tuple(names), labels, series, texts, is_time=True)
    texts = [[row[column] for row in rows] for column in columns]
    return _readable_chart(
        labels, names, columns_of_numbers, texts, is_time=all(map(_TIME.fullmatch, labels)) and len(labels) > 2
    )


def _comparable(rows: Sequence[Sequence[str]], columns: Sequence[int]) -> list[list[Number | None]] | None:
    """The numbers of the columns; None if they have several units or a cell holds anything else."""
    hint = decimal_mark([row[column] for row in rows for column in columns])
    series = [column_numbers([row[column] for row in rows], hint) for column in columns]
    units = {number.unit for numbers in series for number in numbers if number is not None}
    texts = [row[column] for column in columns for row in rows if row[column] not in ("", "-", "\u2013", "\u2014")]
    known = sum(number is not None for numbers in series for number in numbers)
    complete = all(any(number is not None for number in numbers) for numbers in series)
    return series if len(units) == 1 and known == len(texts) and complete else None


def _readable_chart(
    labels: tuple[str, ...],
    names: Sequence[str],
    columns: Sequence[Sequence[Number | None]],
    texts: Sequence[Sequence[str]],
    *,
    is_time: bool,
) -> _Chart | None:
    """The chart, or None if it would be too full or too uneven to read."""
    series = tuple(
        _Series(name, tuple(number.value if number else None for number in numbers), tuple(cells))
        for name, numbers, cells in zip(names, columns, texts, strict=True)
    )
    chart = _Chart(labels, series, is_time)
    sizes = [abs(value) for value in chart.known if value]
    most = MOST_POINTS if is_time else MOST_BARS
    if len(labels) > most or len(series) > MOST_SERIES or len(chart.known) < 2 or not sizes:
        return None
    return chart if is_time or max(sizes) <= MOST_APART * min(sizes) else None


def _bars(chart: _Chart, *, mirrored: bool) -> str:
    low, high = min(*chart.known, Decimal(0)), max(*chart.known, Decimal(0))
    room = WIDTH - LABEL_WIDTH - VALUE_WIDTH * (2 if low else 1)
    zero = LABEL_WIDTH + (VALUE_WIDTH if low else 0) + float(-low / (high - low)) * room
    block = BAR * len(chart.series) + GAP
    top = TOP if len(chart.series) > 1 else 8
    elements = _legend(chart) if len(chart.series) > 1 else []
    for place, label in enumerate(chart.labels):
        y = top + place * block
        middle = y + BAR * len(chart.series) / 2 + 4
        elements.append(_text(LABEL_WIDTH - 10, middle, _short(label), "end", mirrored=mirrored))
        for index, series in enumerate(chart.series):
            value = series.values[place]
            if value is None:
                continue
            length = float(value / (high - low)) * room
            x, row = min(zero, zero + length), y + index * BAR
            elements.append(_rect(x, row, abs(length), BAR - 3, index, mirrored=mirrored))
            end, anchor = (zero + length + 6, "start") if value >= 0 else (zero + length - 6, "end")
            elements.append(_text(end, row + 11, series.cells[place], anchor, mirrored=mirrored))
    height = top + len(chart.labels) * block
    across = f"{_at(zero, mirrored):.1f}"
    axis = f'<line x1="{across}" y1="{top - 4}" x2="{across}" y2="{height - GAP + 2}" stroke="#52606d"/>'
    return _svg(height, [*elements, axis])


def _lines(chart: _Chart) -> str:
    low, high = min(*chart.known, Decimal(0)), max(*chart.known, Decimal(0))
    left, right, bottom = 34.0, WIDTH - 90.0, TOP + 16.0 + HEIGHT
    step = (right - left) / max(1, len(chart.labels) - 1)

    def at(place: int, value: Decimal) -> tuple[float, float]:
        return left + place * step, bottom - float((value - low) / ((high - low) or 1)) * HEIGHT

    base = at(0, Decimal(0))[1]
    elements = [*_legend(chart), f'<line x1="{left}" y1="{base:.1f}" x2="{right}" y2="{base:.1f}" stroke="#52606d"/>']
    step_size = -(-len(chart.labels) // 8)
    places = range(0, len(chart.labels), step_size)
    elements += [_text(left + place * step, bottom + 20, _short(chart.labels[place]), "middle") for place in places]
    ends: list[float] = []
    for index, series in enumerate(chart.series):
        points = [at(place, value) for place, value in enumerate(series.values) if value is not None]
        colour = COLOURS[index]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        elements.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        elements += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
        x, y = points[-1]
        last = [cell for cell, value in zip(series.cells, series.values, strict=True) if value is not None][-1]
        if all(abs(y - other) >= 12 for other in ends):
            elements.append(_text(x + 8, y + 4, last, "start"))
            ends.append(y)
    return _svg(bottom + 30, elements)


def _legend(chart: _Chart) -> list[str]:
    """The legend above the figure, which says what each colour means."""
    elements: list[str] = []
    widths = [26 + 7 * len(_short(series.name)) for series in chart.series]
    starts = [sum(widths[:index]) for index in range(len(widths))]
    squeeze = min(1.0, (WIDTH - 10) / (sum(widths) or 1))
    for index, (series, start) in enumerate(zip(chart.series, starts, strict=True)):
        elements.append(f'<rect x="{start * squeeze:.1f}" y="4" width="11" height="11" fill="{COLOURS[index]}"/>')
        elements.append(_text(start * squeeze + 16, 14, _short(series.name), "start"))
    return elements


def _at(x: float, mirrored: bool) -> float:
    return WIDTH - x if mirrored else x


def _rect(x: float, y: float, width: float, height: float, index: int, *, mirrored: bool) -> str:
    left = WIDTH - x - width if mirrored else x
    return f'<rect x="{left:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" fill="{COLOURS[index]}"/>'


def _text(x: float, y: float, text: str, anchor: str, *, mirrored: bool = False) -> str:
    side = {"start": "end", "end": "start"}.get(anchor, anchor) if mirrored else anchor
    return f'<text x="{_at(x, mirrored):.1f}" y="{y:.1f}" text-anchor="{side}">{escape(text)}</text>'


def _short(text: str) -> str:
    return text if len(text) <= MOST_LABEL else f"{text[: MOST_LABEL - 1].rstrip()}…"


def _svg(height: float, elements: Sequence[str]) -> str:
    box = f'viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}"'
    style = f'font-family="{FONT}" font-size="12" fill="#1f2933"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box} {style}>{"".join(elements)}</svg>'


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
