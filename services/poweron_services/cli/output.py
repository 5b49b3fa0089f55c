"""How the command line speaks: JSON lines or text on stdout, progress and errors on stderr."""

import json
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Final

import orjson
from rich.console import Console
from rich.text import Text

_CUT = "…"
MIN_COLUMNS = 40  # a column narrower than this does not read well
MAX_LINES = 3

_UNSEEN: Final = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"  # control characters, ends of lines, halves of characters
    "\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f"  # changes of direction, and what has no width
    "\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # the last are tags, in which text can hide
    "]"
)
"""What acts on a terminal or is not seen: control characters, and Default_Ignorable_Code_Point of Unicode 16 without
the selectors of emoji."""

stdout = Console(highlight=False, markup=False, emoji=False, soft_wrap=not sys.stdout.isatty())
stderr = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=not sys.stderr.isatty())


def printable(text: str) -> str:
    """Untrusted text with all that is not seen made visible, so that none acts on the terminal or hides (S23)."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def one_line(text: str, limit: int = 160) -> str:
    """Untrusted text on one line, cut to a length that reads well."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= limit else line[: limit - 1] + _CUT


def counted(count: int, thing: str) -> str:
    """A number of things, such as “1 step” or “2 steps”."""
    return f"{count} {thing}{'' if count == 1 else 's'}"


def and_joined(names: Sequence[str]) -> str:
    """Names as a sentence lists them: “a, b and c”."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def utc(moment: str) -> str:
    """A moment as a person reads it, to the second."""
    return moment[:19].replace("T", " ")


def print_json(value: object) -> None:
    """One JSON object on one line of stdout, in UTF-8 whatever the terminal speaks; what is unseen is escaped (S23)."""
    print_json_text(orjson.dumps(value).decode())


def print_json_text(text: str) -> None:
    """The same of JSON that is written already."""
    written = _UNSEEN.sub(lambda found: json.dumps(found[0])[1:-1], text)
    sys.stdout.buffer.write(written.encode() + b"\n")
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
