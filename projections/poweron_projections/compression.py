"""Compression of the records in `records`: Zstandard (RFC 8878) with a dictionary.

A single event repeats little of itself; the dictionary holds nearly everything that it has in common with other
events. `projections/train_dictionary.py` created it; with another dictionary, `migrations.VERSION` must grow.
"""

from importlib import resources
from typing import Final

from zstandard import ZstdCompressionDict, ZstdCompressor, ZstdDecompressor, ZstdError, frame_content_size

from poweron_events.errors import Refused

DICTIONARY_FILE: Final = "events.zstd-dictionary"
LEVEL: Final = 1  # of 22: higher ones take three times as long to save a thirtieth
MAX_RECORD: Final = 2**31 - 1  # bytes that Kafka can count; a frame that claims more is damaged

_dictionary: Final = ZstdCompressionDict(resources.files(__package__).joinpath(DICTIONARY_FILE).read_bytes())
_dictionary.precompute_compress(level=LEVEL)
_compressor: Final = ZstdCompressor(level=LEVEL, dict_data=_dictionary)
_decompressor: Final = ZstdDecompressor(dict_data=_dictionary)


class DamagedRecord(Refused):
    """A row of `records` does not hold what was compressed into it."""

    def __init__(self) -> None:
        super().__init__(
            "The bytes of a record in Postgres are damaged; `poweron verify` names it, and `poweron rebuild` makes the "
            "rows anew from the log."
        )


def compress(value: bytes) -> bytes:
    """Compress the bytes; another version of Zstandard may produce different bytes."""
    return _compressor.compress(value)


def decompress(compressed: bytes) -> bytes:
    """Decompress the bytes.

    Raises:
        DamagedRecord: they are not the result of `compress`.
    """
    try:
        if frame_content_size(compressed) <= MAX_RECORD:
            return _decompressor.decompress(compressed, allow_extra_data=False)
    except ZstdError as error:
        raise DamagedRecord from error
    raise DamagedRecord
