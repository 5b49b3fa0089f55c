"""Redirects in HTML: a page that contains nothing but a refresh to another page."""

import re
from typing import Final

from poweron_events.errors import Refused
from poweron_services.connectors.web.web_address import WebAddress
from poweron_services.connectors.web.web_client import WebResponse

LONGEST: Final = 8_192  # bytes of a page that contains nothing else
SAYS_NOTHING: Final = 200  # characters of text, such as "Click here if you are not redirected."
SOON: Final = 10  # seconds

_REFRESH: Final = re.compile(
    rb"<meta\b(?=[^>]*\bhttp-equiv\s*=\s*[\"']?refresh\b)[^>]*\bcontent\s*=\s*"
    rb"[\"']?\s*(?P<seconds>\d{1,9})[\d.]*\s*[;,]\s*(?:url\s*=\s*)?[\"']?(?P<address>[^\"'>\s]+)",
    re.IGNORECASE,
)
_UNSEEN: Final = re.compile(
    rb"<(script|style|title|noscript)\b.*?</\1\s*>|<!--.*?-->|<[^>]*>", re.IGNORECASE | re.DOTALL
)


def refreshed(response: WebResponse) -> WebAddress | None:
    """Return the address on the same host to which the page refreshes, or None if it has content or stays in place."""
    found = _REFRESH.search(response.body) if len(response.body) <= LONGEST else None
    if found is None or int(found["seconds"]) > SOON or not response.headers.get("content-type", "html").count("html"):
        return None
    if len(b" ".join(_UNSEEN.sub(b" ", response.body).split())) > SAYS_NOTHING:
        return None
    address = WebAddress.of(response.url)
    try:
        following = address.joined(found["address"].decode("utf-8", "replace").replace("&amp;", "&"))
    except Refused:
        return None
    is_same = (following.host, following.scheme) == (address.host, address.scheme)
    return following if is_same and following.url != address.url else None
