"""What may be shown of addresses: the place alone. Who asks there, and the query, may be secrets."""

import re
from typing import Final

_USER_INFO: Final = re.compile(r"(?<=://)[^\s/?#'\"<>]*@")
_QUERY: Final = re.compile(r"(://|(?<=\s)/)([^\s?'\"<>]*)\?[^\s'\"<>]*")


def redacted(text: str) -> str:
    """The text with neither user info nor a query in any URL, or path of one, within it."""
    return _QUERY.sub(r"\1\2", _USER_INFO.sub("", text))
