"""The output of the command line: JSON lines or text on stdout, progress and errors on stderr."""

import json
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from typing import Final

import orjson
import typer
from rich.console import Console
from rich.text import Text

from poweron_services.text import count_words
from poweron_services.text.invisible_characters import INVISIBLE

_CUT = "…"
MIN_COLUMNS = 40  # a narrower column is hard to read
MAX_LINES = 3

counted: Final = count_words.counted

stdout = Console(highlight=False, markup=False, emoji=False, soft_wrap=not sys.stdout.isatty())
stderr = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=not sys.stderr.isatty())


def printable(text: str) -> str:
    """Escape invisible characters of untrusted text, so that none acts on the terminal or stays hidden (S23)."""
    return INVISIBLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def one_line(text: str, limit: int = 160) -> str:
    """Return untrusted text on one line, cut to a readable length."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= limit else line[: limit - 1] + _CUT


def and_joined(names: Sequence[str]) -> str:
    """Join names as a sentence lists them: “a, b and c”."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def utc(moment: str) -> str:
    """Format a moment for users, to the second."""
    return moment[:19].replace("T", " ")


def print_json(value: object) -> None:
    """Print one JSON object on one line of stdout, always in UTF-8; invisible characters are escaped (S23)."""
    print_json_text(orjson.dumps(value).decode())


def print_json_text(text: str) -> None:
    """Print JSON that is already encoded, in the same way."""
    encoded = INVISIBLE.sub(lambda match: json.dumps(match[0])[1:-1], text)
    sys.stdout.buffer.write(encoded.encode() + b"\n")
    sys.stdout.flush()


def print_keys(keys: Sequence[str], option: str, *, as_json: bool) -> None:
    """Print public keys, of Ed25519 and of ML-DSA-44, and for which option they are."""
    if as_json:
        print_json({"keys": keys})
        return
    tell(f"The first line is the Ed25519 key, for {option}. The second is for those who check ML-DSA-44, too.")
    for key in keys:
        typer.echo(key)


def tell(text: str, style: str = "") -> None:
    """Print a line of progress on stderr."""
    stderr.print(Text(printable(text), style=style))


def print_row(console: Console, margin: Text, text: str) -> None:
    """Print a row of a table that ends in untrusted text: cut to the width of a terminal, else complete."""
    row = margin + Text(printable(" ".join(text.split())))
    if console.is_terminal:
        row.truncate(console.width, overflow="ellipsis")
    console.print(row)


def print_beside(console: Console, margin: Text, text: str) -> None:
    """Print untrusted text beside a margin: wrapped to a few lines on a terminal, else as one long line."""
    width = console.width - margin.cell_len
    if not console.is_terminal or width < MIN_COLUMNS:
        console.print(margin + Text(one_line(text, 400)))
        return
    for number, line in enumerate(_wrap(console, one_line(text, 2_000), width)):
        console.print((Text(" " * margin.cell_len) if number else margin) + line)


def _wrap(console: Console, text: str, width: int) -> Iterable[Text]:
    lines = Text(text).wrap(console, width)
    first_lines = list(lines[:MAX_LINES]) or [Text()]
    if len(lines) > MAX_LINES:
        first_lines[-1].truncate(width - 1)
        first_lines[-1].append(_CUT)
    return first_lines


UNOPTIMISED = (
    "This Python ({where}) was built without optimisations: PowerOn takes about {cost} times the CPU time. "
    "`uv sync --python 3.13` fetches one that was built with them; so are those of Debian, Ubuntu and python.org."
)
COST = 1.4  # measured with two builds of 3.11, see docs/performance.md


def interpreter_advice() -> str:
    """Return a sentence about an interpreter that was built without optimisations, or ""."""
    return "" if is_optimised() else UNOPTIMISED.format(where=sys.executable, cost=COST)


def is_optimised() -> bool:
    """Return whether the build was guided by a profile, which a build from source is only if it is configured so.

    Debian runs the steps of such a build itself, and its Makefile names no flag for them.
    """
    arguments, flag = sysconfig.get_config_var("CONFIG_ARGS"), sysconfig.get_config_var("PGO_PROF_USE_FLAG")
    return arguments is None or "--enable-optimizations" in arguments or not flag
