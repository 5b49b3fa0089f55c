"""Train the dictionary by which `records` is compressed: uv run python projections/train_dictionary.py FILE...

Each file holds events as JSON Lines, byte for byte, as `poweron export WORKFLOW --format events` writes them. Take
some dozens of workflows of every kind, each under an id of its own: an id or a time that stands in all of them would
look like something that every event says.
"""

import sys
from pathlib import Path
from typing import Final

from zstandard import ZstdCompressor, train_dictionary

DICTIONARY: Final = Path(__file__).parent / "poweron_projections" / "events.zstd-dictionary"
SIZE: Final = 16_384  # bytes; with four times as many, events get no smaller


def main(paths: list[str]) -> None:
    events = [line for path in paths for line in Path(path).read_bytes().splitlines()]
    trained = train_dictionary(SIZE, events)
    DICTIONARY.write_bytes(trained.as_bytes())
    compressed = map(ZstdCompressor(dict_data=trained).compress, events)
    print(f"{len(events)} events of {sum(map(len, events))} bytes, compressed {sum(map(len, compressed))}")


if __name__ == "__main__":
    main(sys.argv[1:])
