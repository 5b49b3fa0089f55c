"""The output of the command line: JSON lines or text on stdout, progress and errors on stderr.

A command does not fail if the reader of its output leaves, but it does if the disk is full. The module also advises
users whose Python was built without optimisations.
"""

import io
import json
import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from typing import Any, Final

import orjson
from rich.console import Console
from rich.text import Text

_CUT = "…"
MIN_COLUMNS = 40  # a narrower column is hard to read
MAX_LINES = 3

_UNSEEN: Final = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"  # control characters, line separators, lone surrogates
    "\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f"  # direction marks and zero-width characters
    "\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # the last are tags, which can hide text
    "]"
)
"""Characters that act on a terminal or are invisible: control characters, and Default_Ignorable_Code_Point of
Unicode 16 except the variation selectors of emoji."""

stdout = Console(highlight=False, markup=False, emoji=False, soft_wrap=not sys.stdout.isatty())
stderr = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=not sys.stderr.isatty())


def printable(text: str) -> str:
    """Escape invisible characters of untrusted text, so that none acts on the terminal or stays hidden (S23)."""
    return _UNSEEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def one_line(text: str, limit: int = 160) -> str:
    """Return untrusted text on one line, cut to a readable length."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= limit else line[: limit - 1] + _CUT


def counted(count: int, thing: str) -> str:
    """Format a number of things, such as “1 step” or “2 steps”."""
    return f"{count} {thing}{'' if count == 1 else 's'}"


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
    encoded = _UNSEEN.sub(lambda match: json.dumps(match[0])[1:-1], text)
    sys.stdout.buffer.write(encoded.encode() + b"\n")
    sys.stdout.flush()


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


_GONE: Final = set[int]()
_LOST: Final = dict[int, str]()  # the reason why something was not written, by stream


class _Outliving(io.FileIO):
    """A stream that accepts all data, even if the reader is gone or nothing can be written."""

    def write(self, data: Any, /) -> int:  # any buffer; the type has no name before Python 3.12
        try:
            return super().write(data)
        except BrokenPipeError:
            _GONE.add(self.fileno())
        except OSError as error:
            _LOST[self.fileno()] = error.strerror or str(error)
        return memoryview(data).nbytes


def outlive_readers() -> None:
    """Replace stdout and stderr with streams that outlive their readers and escape what a terminal cannot show."""
    _open_what_is_closed()
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            lasting = io.TextIOWrapper(
                io.BufferedWriter(_Outliving(stream.fileno(), "w", closefd=False)),
                encoding=stream.encoding,
                errors="backslashreplace",
                line_buffering=stream.line_buffering or stream.write_through,
            )
            setattr(sys, name, lasting)


def _open_what_is_closed() -> None:
    """Open streams that the caller has closed (`>&-`) on the null device; else the next file would take their place."""
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            null_device = os.open(os.devnull, os.O_RDWR)
            assert null_device == descriptor  # the lowest one that is free
            setattr(sys, name, os.fdopen(descriptor, mode, closefd=False))


def abandoned() -> bool:
    """Return whether a reader of the output is gone."""
    return bool(_GONE)


def unwritten() -> str | None:
    """Return why some output could not be written; None if all of it was, or if its reader is gone."""
    sys.stdout.flush()
    return _LOST.get(sys.stdout.fileno())


UNOPTIMISED = (
    "This Python ({where}) was built without optimisations: PowerOn takes about {cost} times the CPU time. "
    "`uv sync --python 3.13` fetches one that was built with them; so are those of Debian, Ubuntu and python.org."
)
COST = 1.4  # measured with two builds of 3.11, see docs/performance.md


def interpreter_advice() -> str:
    """Return a sentence about an interpreter that was built without optimisations, or ""."""
    return "" if is_optimised() else UNOPTIMISED.format(where=sys.executable, cost=COST)


def is_optimised() -> bool:
    """Return whether this Python was built with profile-guided optimisation, as a build from source must request.

    Debian runs the steps of such a build itself, and its Makefile names no flag for them.
    """
    arguments, flag = sysconfig.get_config_var("CONFIG_ARGS"), sysconfig.get_config_var("PGO_PROF_USE_FLAG")
    return arguments is None or "--enable-optimizations" in arguments or not flag
