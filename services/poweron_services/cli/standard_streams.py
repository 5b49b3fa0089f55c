"""Standard streams that outlive their readers: a reader that leaves is not a failure of the command, a full disk is."""

import io
import os
import sys
from typing import Any, Final

_GONE: Final = set[int]()
_LOST: Final = dict[int, str]()  # the reason why something was not written, by stream


class _LastingStream(io.FileIO):
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
    """Replace stdout and stderr with such streams; characters that a terminal cannot show are escaped."""
    _open_what_is_closed()
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            lasting = io.TextIOWrapper(
                io.BufferedWriter(_LastingStream(stream.fileno(), "w", closefd=False)),
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
