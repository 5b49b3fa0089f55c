"""How `records` keeps the bytes of a record: compressed by Zstandard (RFC 8878), with a dictionary.

An event alone repeats little; nearly all that it says in the same words as every other event stands in the
dictionary. `projections/train_dictionary.py` made it; with another one, `migrations.VERSION` has to grow.
"""

from importlib import resources
from typing import Final

from zstandard import ZstdCompressionDict, ZstdCompressor, ZstdDecompressor, ZstdError, frame_content_size

from poweron_events.errors import Refused

DICTIONARY_FILE: Final = "events.zstd-dictionary"
LEVEL: Final = 1  # of 22: higher ones take three times as long for a thirtieth less
MAX_RECORD: Final = 2**31 - 1  # bytes that Kafka can count; a frame that says more is damaged

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
    """The bytes, smaller; another version of Zstandard may make other bytes of the same value."""
    return _compressor.compress(value)


def decompress(compressed: bytes) -> bytes:
    """The bytes that were compressed.

    Raises:
        DamagedRecord: there are none such.
    """
    try:
        if frame_content_size(compressed) <= MAX_RECORD:
            return _decompressor.decompress(compressed, allow_extra_data=False)
    except ZstdError as error:
        raise DamagedRecord from error
    raise DamagedRecord
