"""The seal by which a door proves to intake that it verified the actor of a request (docs/decisions/0092).

Anyone who may write `poweron.requests` can claim any actor. A seal is a keyed hash over the whole request, with a key
that only doors and intake can read; so neither a claim nor a changed copy has one.
"""

import hashlib
import hmac
from typing import Any, Final

import orjson

SEAL: Final = "seal"
"""The CloudEvent attribute that holds the seal."""
_PURPOSE: Final = b"poweron request"


def sealed(value: bytes, key: bytes) -> bytes:
    """Return the encoded request with its seal."""
    attributes = orjson.loads(value)
    return orjson.dumps({**attributes, SEAL: _seal(attributes, attributes["data"], key)}, option=orjson.OPT_SORT_KEYS)


def holds(attributes: dict[str, Any], data: object, key: bytes) -> bool:
    """Return whether the seal among the attributes is that of this request."""
    given = attributes.get(SEAL)
    return isinstance(given, str) and hmac.compare_digest(given.encode(), _seal(attributes, data, key).encode())


def _seal(attributes: dict[str, Any], data: object, key: bytes) -> str:
    """Hash what identifies a request and what it says; a copy under the same identity is the same request."""
    content = [attributes["source"], attributes["id"], attributes["type"], data]
    written = orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
    return hmac.new(key, _PURPOSE + written, hashlib.sha256).hexdigest()
