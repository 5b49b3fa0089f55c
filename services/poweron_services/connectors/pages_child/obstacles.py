"""Obstacles that hide a page's text from a reader without a browser, detected by short text and by markup."""

import re
from typing import Any

from poweron_services.connectors.documents_child.webpage import AGREE, BUTTONS, COOKIES, label
from poweron_services.connectors.pages_child.page_answers import Obstacle

LITTLE = 600  # characters; a page with at least this much text has no obstacle
VERY_LITTLE, NEXT_TO_NOTHING = 200, 12

_SCRIPT_WANTED = re.compile(
    r"(?:enable|requires?|needs?|turn on|activate|without|allow|aktivier\w*|activez|activer|active|habilit\w*)"
    r"[^.!?]{0,60}\bjava ?script|\bjava ?script\b[^.!?]{0,60}"
    r"(?:enabled?|required|disabled|turned on|necessary|aktivier\w*|deaktiviert|activé\w*|désactivé\w*|habilitad\w*)"
    r"|checking your browser|verify(?:ing)? (?:that )?you are (?:a )?human",
    re.IGNORECASE,
)
_PROGRAMS = ".//script[not(@type) or contains(@type, 'javascript') or @type='module']"
_EMPTY = "./body/*[contains(name(), '-') or self::div[@id] or self::main[@id]][not(*)][not(normalize-space())]"
_UNSEEN = "self::script or self::style or self::noscript or self::template or self::head"


def obstacle_of(root: Any, text: str) -> Obstacle | None:
    """Return the obstacle of a page, if any; `text` is its main text."""
    if len(text) >= LITTLE:
        return None
    seen = " ".join(" ".join(root.xpath(f".//text()[not(ancestor::*[{_UNSEEN}])]")).split())
    if root.xpath(".//input[@type='password']"):
        return "login"
    if COOKIES.search(text or seen) and any(map(AGREE.search, map(label, root.xpath(BUTTONS)))):
        return "consent"
    return "javascript" if _needs_script(root, seen) else None


def _needs_script(root: Any, seen: str) -> bool:
    if not root.xpath(_PROGRAMS):
        return False
    without = " ".join(part.text_content() for part in root.iter("noscript"))
    is_empty = len(seen) < NEXT_TO_NOTHING or (len(seen) < VERY_LITTLE and bool(root.xpath(_EMPTY)))
    return is_empty or bool(_SCRIPT_WANTED.search(f"{without} {seen}"))
