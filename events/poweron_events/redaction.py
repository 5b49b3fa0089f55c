"""Redact addresses: show only scheme, host and path, since user info, query and fragment may be secrets.

A password may hold a character that ends the host, such as `/`; if an `@` follows it, all after `://` is hidden.
"""

import re
from typing import Final

HIDDEN: Final = "[hidden]"

_UNCLEAR: Final = re.compile(r"(?<=://)[^\s/?#'\"<>:]*:[^\s/?#'\"<>]*[/?#][^\s'\"<>]*@[^\s'\"<>]*")
_USER_INFO: Final = re.compile(r"(?<=://)[^\s/?#'\"<>]*@")
_QUERY: Final = re.compile(r"(://|(?<=\s)/)([^\s?#'\"<>]*)[?#][^\s'\"<>]*")


def redacted(text: str) -> str:
    """Return the text without user info, query and fragment in any URL, or path of a URL, within it."""
    if "/" not in text:  # as in most texts: every pattern needs one
        return text
    return _QUERY.sub(r"\1\2", _USER_INFO.sub("", _UNCLEAR.sub(HIDDEN, text)))
