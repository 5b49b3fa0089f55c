"""How `records` keeps the bytes of a record: compressed by Zstandard (RFC 8878), with a dictionary.

An event alone repeats little; nearly all that it says in the same words as every other event stands in the
dictionary. `projections/train_dictionary.py` made it; with another one, `migrations.VERSION` has to grow.
"""

from importlib import resources
from typing import Final

from zstandard import ZstdCompressionDict, ZstdCompressor, ZstdDecompressor, ZstdError

DICTIONARY_FILE: Final = "events.zstd-dictionary"
LEVEL: Final = 1  # of 22: higher ones take three times as long for a thirtieth less

_dictionary: Final = ZstdCompressionDict(resources.files(__package__).joinpath(DICTIONARY_FILE).read_bytes())
_dictionary.precompute_compress(level=LEVEL)
_compressor: Final = ZstdCompressor(level=LEVEL, dict_data=_dictionary)
_decompressor: Final = ZstdDecompressor(dict_data=_dictionary)


def compress(value: bytes) -> bytes:
    """The bytes, smaller; another version of Zstandard may make other bytes of the same value."""
    return _compressor.compress(value)


def decompress(compressed: bytes) -> bytes:
    """The bytes that were compressed; none where these were damaged, which their digest then shows."""
    try:
        return _decompressor.decompress(compressed)
    except ZstdError:
        return b""
