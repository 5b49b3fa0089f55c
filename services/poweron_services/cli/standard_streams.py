"""Standard streams that outlive their readers: that one goes away is no failure of the command."""

import io
import sys
from typing import Any, Final

_GONE: Final = set[int]()


class _Outliving(io.FileIO):
    """A stream that takes everything, also where nobody reads it any more."""

    def write(self, data: Any, /) -> int:  # whatever holds bytes; its type has no name before Python 3.12
        try:
            return super().write(data)
        except BrokenPipeError:
            _GONE.add(self.fileno())
            return memoryview(data).nbytes


def outlive_readers() -> None:
    """Let stdout and stderr be such streams; a terminal that cannot show a letter stops nothing either."""
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


def abandoned() -> bool:
    """Whether somebody who read what is printed has gone away."""
    return bool(_GONE)
