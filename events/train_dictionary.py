"""Train the dictionary by which small contents are compressed: uv run python events/train_dictionary.py FOLDER.

The folder is a content store with workflows of every kind over documents of our own, such as those of docs/examples.
"""

import asyncio
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from zstandard import ZstdCompressionDict, ZstdCompressor, train_dictionary

from poweron_events import content_packs
from poweron_events.content import ContentStore
from poweron_events.content_place import is_content

SIZE: Final = 65_536  # bytes; with a quarter of them contents take a tenth more, with twice as many a seventh less
DICTIONARY: Final = Path(content_packs.__file__).with_name(content_packs.DICTIONARY_FILE)


async def main(folder: str) -> None:
    samples = await _contents(ContentStore.at(folder))
    random.Random(1).shuffle(samples)  # noqa: S311 - no secret
    half = len(samples) // 2
    _report(train_dictionary(SIZE, samples[:half]), samples[half:])
    with DICTIONARY.open("xb") as file:  # what was compressed by an earlier one needs that one for ever
        file.write(train_dictionary(SIZE, samples).as_bytes())


async def _contents(store: ContentStore) -> list[bytes]:
    """Return the small contents; prompts also as providers are sent them, as texts within JSON."""
    samples = list[bytes]()
    async for page in store.stored():
        for each in page:
            if is_content(each.path) and 0 < each.size < content_packs.SMALL:
                content = await store.read_path(each.path)
                samples.append(content)
                if content.startswith(b"You "):
                    samples.append(json.dumps({"role": "system", "content": content.decode()}).encode())
    return samples


def _report(trained: ZstdCompressionDict, samples: Sequence[bytes]) -> None:
    compress = ZstdCompressor(level=content_packs.LEVEL, dict_data=trained).compress
    compressed = sum(len(compress(sample)) for sample in samples)
    print(f"{len(samples)} contents it was not trained on: {sum(map(len, samples))} bytes, compressed {compressed}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
