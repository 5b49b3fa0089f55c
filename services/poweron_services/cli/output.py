"""How the command line speaks: JSON lines or text on stdout, progress and errors on stderr."""

import sys
import unicodedata
from collections.abc import Iterable

import orjson
from rich.console import Console
from rich.text import Text

_HARMLESS = frozenset("\n\t")
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_CUT = "…"
MIN_COLUMNS = 40  # a column narrower than this does not read well
MAX_LINES = 3

stdout = Console(highlight=False, markup=False, emoji=False, soft_wrap=not sys.stdout.isatty())
stderr = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=not sys.stderr.isatty())


def printable(text: str) -> str:
    """Untrusted text with control and bidi characters made visible, so that none acts on the terminal (S23)."""
    return "".join(character if _safe(character) else _escaped(character) for character in text)


def _safe(character: str) -> bool:
    if character in _HARMLESS:
        return True
    return character not in _BIDI and unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp")


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def one_line(text: str, limit: int = 160) -> str:
    """Untrusted text on one line, cut to a length that reads well."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= limit else line[: limit - 1] + _CUT


def counted(count: int, thing: str) -> str:
    """A number of things, such as “1 step” or “2 steps”."""
    return f"{count} {thing}{'' if count == 1 else 's'}"


def utc(moment: str) -> str:
    """A moment as a person reads it, to the second."""
    return moment[:19].replace("T", " ")


def print_json(value: object) -> None:
    """One JSON object on one line of stdout, in UTF-8 whatever the terminal speaks."""
    sys.stdout.buffer.write(orjson.dumps(value) + b"\n")
    sys.stdout.flush()


def tell(text: str, style: str = "") -> None:
    """A line of progress on stderr."""
    stderr.print(Text(printable(text), style=style))


def print_row(console: Console, margin: Text, text: str) -> None:
    """A row of a table that ends in untrusted text: in a terminal cut to its width, else whole."""
    row = margin + Text(printable(" ".join(text.split())))
    if console.is_terminal:
        row.truncate(console.width, overflow="ellipsis")
    console.print(row)


def print_beside(console: Console, margin: Text, text: str) -> None:
    """A margin and untrusted text beside it: in a terminal wrapped to a few lines, else one long line."""
    width = console.width - margin.cell_len
    if not console.is_terminal or width < MIN_COLUMNS:
        console.print(margin + Text(one_line(text, 400)))
        return
    for number, line in enumerate(_wrapped(console, one_line(text, 2_000), width)):
        console.print((Text(" " * margin.cell_len) if number else margin) + line)


def _wrapped(console: Console, text: str, width: int) -> Iterable[Text]:
    wrapped = Text(text).wrap(console, width)
    kept = list(wrapped[:MAX_LINES]) or [Text()]
    if len(wrapped) > MAX_LINES:
        kept[-1].truncate(width - 1)
        kept[-1].append(_CUT)
    return kept
