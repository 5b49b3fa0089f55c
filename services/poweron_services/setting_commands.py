"""Programs in settings, with their arguments, as a shell takes them apart."""

import os
import shlex
import shutil


def command_of(line: str) -> tuple[str, ...]:
    """The program, by its whole path, and its arguments; raises `ValueError` where this machine has no such program."""
    words = shlex.split(line)
    program = shutil.which(words[0]) if words else None
    if program is None:
        raise ValueError(f"{line!r} begins with no program of this machine; write it like `tesseract - - -l eng`")
    return (os.path.abspath(program), *words[1:])  # noqa: PTH100 - a link is kept: some programs look at their name
