"""What may be shown of addresses: the place alone. Who asks there, query and fragment may be secrets.

A password may hold what else ends the place: where an `@` comes later, nobody can tell one from the other.
"""

import re
from typing import Final

HIDDEN: Final = "[hidden]"

_UNCLEAR: Final = re.compile(r"(?<=://)[^\s/?#'\"<>:]*:[^\s/?#'\"<>]*[/?#][^\s'\"<>]*@[^\s'\"<>]*")
_USER_INFO: Final = re.compile(r"(?<=://)[^\s/?#'\"<>]*@")
_QUERY: Final = re.compile(r"(://|(?<=\s)/)([^\s?#'\"<>]*)[?#][^\s'\"<>]*")


def redacted(text: str) -> str:
    """The text with neither user info nor a query or fragment in any URL, or path of one, within it."""
    return _QUERY.sub(r"\1\2", _USER_INFO.sub("", _UNCLEAR.sub(HIDDEN, text)))
