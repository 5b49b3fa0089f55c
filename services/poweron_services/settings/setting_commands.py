"""Programs in settings, with their arguments, split as a shell would."""

import os
import shlex
import shutil


def command_of(line: str, *, like: str) -> tuple[str, ...]:
    """Return the program, with its absolute path, and its arguments.

    Raises:
        ValueError: it cannot be run on this machine; the message says why, and shows the example `like`.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise ValueError(f"{line!r} has a quote that is not closed; write it like `{like}`") from error
    program = shutil.which(words[0]) if words else None
    if program is None:
        raise ValueError(f"{line!r} begins with no program of this machine; write it like `{like}`")
    return (os.path.abspath(program), *words[1:])  # noqa: PTH100 - a link is kept: some programs look at their name
