"""Train the dictionary by which `records` is compressed: uv run python projections/train_dictionary.py FILE...

Each file holds events as JSON Lines, as `poweron export WORKFLOW --format events` writes them. Take some dozens of
workflows of every kind. What belongs to one of them alone is replaced by chance, so that no dictionary keeps it.
"""

import random
import re
import sys
from pathlib import Path
from typing import Final

from zstandard import ZstdCompressor, train_dictionary

from poweron_projections import records

DICTIONARY: Final = Path(records.__file__).with_name(records.DICTIONARY_FILE)
SIZE: Final = 16_384  # bytes; with four times as many, events get no smaller
WORKER: Final = re.compile(rb"[\w.-]+-[0-9]+-[0-9a-f]{8}(?=\")")
"""Machine, process and number of who wrote an event."""
IDENTITY: Final = re.compile(rb"[0-9a-f]{32,64}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d\d:\d\d:\d\d\.\d{3}")
"""A digest, an id, a time of day."""


def main(paths: list[str]) -> None:
    events = [_of_nobody(line) for path in paths for line in Path(path).read_bytes().splitlines()]
    trained = train_dictionary(SIZE, events)
    DICTIONARY.write_bytes(trained.as_bytes())
    compressed = map(ZstdCompressor(level=records.LEVEL, dict_data=trained).compress, events)
    print(f"{len(events)} events of {sum(map(len, events))} bytes, compressed {sum(map(len, compressed))}")


def _of_nobody(event: bytes) -> bytes:
    return IDENTITY.sub(_chance, WORKER.sub(_chance, event))


def _chance(found: re.Match[bytes]) -> bytes:
    return bytes(random.choice(b"0123456789abcdef") if chr(sign).isalnum() else sign for sign in found[0])  # noqa: S311 - no secret


if __name__ == "__main__":
    main(sys.argv[1:])
