"""The relative widths of a table's columns, and how many of them fit side by side."""

from collections.abc import Iterator
from typing import Final

from poweron_services.connectors.reports_child.report import ReportTable, text_of

MOST_WIDTH: Final = 40  # characters of a column next to others
WIDE_LETTERS: Final = 1.15  # extra width for words with wide letters, such as initial capitals


def least_widths(table: ReportTable) -> list[int]:
    """The minimum width of each column in characters, including padding."""
    rows = [row for row in (table.header, *table.rows) if row]
    longest = (max((_longest_word(text_of(row[column])) for row in rows), default=1) for column in range(table.columns))
    return [min(max(4, word) + 3, MOST_WIDTH) for word in longest]


def _longest_word(text: str) -> int:
    return max(map(len, text.split()), default=0)


def good_widths(table: ReportTable, most: int) -> list[float]:
    """The relative widths of the columns in a line of `most` characters.

    Each column first gets room for its longest word; the rest goes to the columns with longer texts.
    """
    rows = [row for row in (table.header, *table.rows) if row]
    texts = [max((len(text_of(row[column])) for row in rows), default=1) for column in range(table.columns)]
    minimums = [min(WIDE_LETTERS * least, MOST_WIDTH) for least in least_widths(table)]
    wishes = [max(0.0, min(text, MOST_WIDTH) - least) for text, least in zip(texts, minimums, strict=True)]
    left = max(0.0, most - sum(minimums))
    share = min(1.0, left / sum(wishes)) if any(wishes) else 0.0
    return [least + wish * share for least, wish in zip(minimums, wishes, strict=True)]


def beside(table: ReportTable, most: int) -> Iterator[ReportTable]:
    """Split the table into pieces of at most `most` characters; each repeats the column that names the rows."""
    minimums = least_widths(table)
    pieces: list[list[int]] = [[]]
    room = most - minimums[0]
    for column in range(1, table.columns):
        if pieces[-1] and sum(minimums[index] for index in pieces[-1]) + minimums[column] > room:
            pieces.append([])
        pieces[-1].append(column)
    if len(pieces) == 1:
        yield table
        return
    for piece in pieces:
        columns = [0, *piece]
        header = tuple(table.header[column] for column in columns) if table.header else ()
        rows = tuple(tuple(row[column] for column in columns) for row in table.rows)
        yield ReportTable(header, rows, tuple(table.aligned[column] for column in columns))
