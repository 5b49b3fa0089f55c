"""Web lookups: whether a request needs one, which action comes next, and what to search for.

A request with documents is answered from them, unless it names an address or asks for the web itself. A request that
refers to what an earlier round read is answered from that.
"""

import re
from collections.abc import Collection
from typing import Final

from poweron_events.fold.state import is_request_label
from poweron_services.models.builtin.question import clauses, understand
from poweron_services.models.builtin.vocabulary import language_of
from poweron_services.models.prompts import KnownPrompt, SelectionPrompt

SEARCH, SCRAPE, CRAWL = "web.search", "web.scrape", "web.crawl"
LOOKING_UP: Final = (SCRAPE, SEARCH)  # in this order: whole pages, or else what the search engine shows of them
PAGES: Final = ("scrape", "search", "crawl")  # the endings of the labels of their results
MAX_QUERY = 400  # characters

_ADDRESS = re.compile(r"\bhttps?://[^\s<>\"'`]+", re.IGNORECASE)
_ASKS_FOR_WEB = re.compile(
    r"\b(?:search|browse|look\w* (?:\w+ ){0,3}up)\b[^.?!]{0,60}\b(?:web|internet|online)\b"
    r"|\b(?:on|in) the (?:web|internet)\b|\b(?:im|aus dem) (?:web|internet|netz)\b",
    re.IGNORECASE,
)
_ASKS_FOR_LINKS = re.compile(
    r"\b(?:linked|verlinkt\w*) (?:web ?|internet)?(?:pages?|sites?|seiten?)\b"
    r"|\b(?:follow|open|read|crawl|visit)\w*\b[^.?!]{0,40}\b(?:links?|urls?|web addresses)\b"
    r"|\b(?:folge|öffne|lies)\w*\b[^.?!]{0,40}\blinks?\b",
    re.IGNORECASE,
)
_ORDERS_TEXT = re.compile(
    r"\W*(?:please |bitte )?(?:write|give|create|generate|prepare|make|draft|return|answer|format|export|cite|name"
    r"|schreib\w*|erstell\w*|verfass\w*|gib|antworte|nenne)\b.*"
    r"\b(?:pages?|reports?|memos?|briefings?|summary|tables?|sentences?|words|sources?|links|json|csv|markdown"
    r"|seiten?|berichte?|tabellen?|sätze\w*|quellen?)\b",
    re.IGNORECASE,
)
_ORDER = re.compile(
    r"^\W*(?:please |bitte )?"
    r"(?:(?:write|give|create|generate|prepare|make|draft|schreib\w*|erstell\w*|verfass\w*)\b.{0,60}?"
    r"\b(?:pages?|reports?|memo|briefing|summary|overview|seiten?|bericht|überblick|zusammenfassung)"
    r"|summari[sz]e|sum up)\b"
    r"(?: (?:as|in|als) (?:an? )?(?:pdf|html|docx?|word|markdown|json|csv)\b(?: (?:file|document))?)?"
    r"(?: (?:on|about|of|over|über|zu|von))?\s+",
    re.IGNORECASE | re.DOTALL,
)
_WITH_SOURCES = re.compile(
    r",?\s+(?:with|and (?:cite|name)|mit)(?: \w+){0,2} (?:sources?|links|quotes|quellen)\b", re.IGNORECASE
)
_SENTENCE_END = re.compile(r"(?<=[.?!])\s+|\n+")
_FORMS = re.compile(
    r"\b(?:write|give|make|put|show|tell|convert|turn|summari[sz]e|translate|schreib\w*|gib|mach\w*|zeig\w*"
    r"|pages?|reports?|summary|tables?|lists?|answers?|json|csv|markdown|english|german|detail\w*|short\w*|long\w*"
    r"|bericht|tabelle|liste|antwort|kurz|deutsch|englisch)\b",
    re.IGNORECASE,
)
_GOES_BACK = re.compile(
    r"^\W*(?:and|und|what about|how about|was ist mit)\b|\b(?:it|its|they|them|their|ihnen|ihm|davon|dazu)\b"
    r"|\b(?:that|this|those|these|das|dies)\b(?=\W*$|\W* (?:as|in|into|to|als)\b)",
    re.IGNORECASE,
)


def wants_web(prompt: KnownPrompt, actions: Collection[str]) -> bool:
    """Return whether to look up the request on the web; never if no action can."""
    if not any(action in actions for action in LOOKING_UP):
        return False
    if names_address(prompt.user_prompt) or _ASKS_FOR_WEB.search(prompt.user_prompt):
        return True
    return not has_documents(prompt) and not (_goes_back(prompt.user_prompt) and _has_pages(prompt))


def names_address(text: str) -> bool:
    """Return whether a text contains the address of a page: then only that page is wanted, not a search result."""
    return _ADDRESS.search(text) is not None


def without_addresses(text: str) -> str:
    """Remove the addresses from a text: they say where to look, not what for."""
    return _ADDRESS.sub("", text)


def asks_for_all(request: str, language: str) -> bool:
    """Return whether a request names pages, but nothing to look for on them."""
    terms = understand(without_addresses(request), language).terms
    return names_address(request) and not any(term.weight == 1 for term in terms)


def has_documents(prompt: KnownPrompt) -> bool:
    """Return whether documents came with a request of the workflow."""
    return any(map(is_request_label, _labels(prompt)))


def next_lookup(prompt: SelectionPrompt) -> str | None:
    """Return the next web action; None if the request needs none, or this round has already done or tried it."""
    actions = {line.name for line in prompt.catalog}
    attempts = {message.action for message in prompt.history}
    if CRAWL in actions - attempts and _ASKS_FOR_LINKS.search(prompt.user_prompt) and _labels(prompt):
        return CRAWL
    successes = {message.action for message in prompt.history if message.success}
    if successes.intersection(LOOKING_UP) or not wants_web(prompt, actions):
        return None
    ways = LOOKING_UP[:1] if names_address(prompt.user_prompt) else LOOKING_UP
    return next((action for action in ways if action in actions - attempts), None)


def query(request: str) -> str:
    """Return the search query: the request without instructions about the text to write; addresses stay whole."""
    sentences = [segment for segment in map(str.strip, _SENTENCE_END.split(request)) if segment]
    text = " ".join([segment for segment in sentences if not _ORDERS_TEXT.match(segment)] or sentences)
    topic = _ORDER.sub("", _WITH_SOURCES.sub("", text)) or text
    if 0 < len(topic) <= MAX_QUERY:
        return topic
    words: list[str] = []
    for word in [*_ADDRESS.findall(request), *without_addresses(topic).split()]:
        if len(" ".join([*words, word])) > MAX_QUERY:
            break
        words.append(word)
    return " ".join(words) or request[:MAX_QUERY]


def _goes_back(request: str) -> bool:
    """Return whether the first question refers to earlier text and names nothing to search for."""
    first = (clauses(request) or [request])[0]
    terms = understand(_FORMS.sub("", first), language_of(request)).terms
    return _GOES_BACK.search(first) is not None and not any(term.weight == 1 for term in terms)


def _has_pages(prompt: KnownPrompt) -> bool:
    return any(label.endswith(tuple(f"_{name}" for name in PAGES)) for label in _labels(prompt))


def _labels(prompt: KnownPrompt) -> list[str]:
    return [line.label for line in prompt.documents] + [line.label for line in prompt.lists]
