"""Standard streams that outlive their readers: that one goes away is no failure of the command, a full disk is."""

import io
import os
import sys
from typing import Any, Final

_GONE: Final = set[int]()
_LOST: Final = dict[int, str]()  # why something was not written, by stream


class _Outliving(io.FileIO):
    """A stream that takes everything, also where nobody reads it any more, or nothing can be written."""

    def write(self, data: Any, /) -> int:  # whatever holds bytes; its type has no name before Python 3.12
        try:
            return super().write(data)
        except BrokenPipeError:
            _GONE.add(self.fileno())
        except OSError as error:
            _LOST[self.fileno()] = error.strerror or str(error)
        return memoryview(data).nbytes


def outlive_readers() -> None:
    """Let stdout and stderr be such streams; a terminal that cannot show a letter stops nothing either."""
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
    """A stream that the caller has closed (`>&-`) is one that nobody reads; else the next file would become it."""
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            assert opened == descriptor  # the lowest that is free
            setattr(sys, name, os.fdopen(descriptor, mode, closefd=False))


def abandoned() -> bool:
    """Whether somebody who read what is printed has gone away."""
    return bool(_GONE)


def unwritten() -> str | None:
    """Why something that was printed is on no disk; None where all of it is, or nobody wants it."""
    sys.stdout.flush()
    return _LOST.get(sys.stdout.fileno())
