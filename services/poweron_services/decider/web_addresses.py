"""Addresses of the web: which stand in a text, and which a workflow knows, so that none is fetched that was made up.

An address is known where it stands in a request of the workflow, or where a result gave it as a link or as the place
of a page (S4). Whatever a model wrote makes none known: it could put anything that it has read behind a `?`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final
from unicodedata import category

from pydantic import JsonValue

from poweron_events.fold.state import ChatMessage
from poweron_events.selection import ActionSelected
from poweron_services.decider.validation import NotAllowed

WEB: Final = frozenset({"web.search", "web.scrape", "web.crawl"})
"""The actions that reach the web."""

MAX_ADDRESS: Final = 2_048  # characters
MAX_BEHIND: Final = 200  # characters of punctuation behind an address
_ADDRESS: Final = re.compile(r"(?i)https?:[/\\](?:(?!\]\()[^\s<>\"'`\x00-\x1f])+")
_HOST: Final = re.compile(
    r"(?i)(?<![\w@/.:-])(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}[^\W\d_]{2,24}(?::\d{1,5})?(?:/[^\s<>\"'`]*)?(?![\w@])"
)
_BEHIND: Final = frozenset(".,;:!?*_~|")
_CLOSING: Final[Mapping[str, str]] = {")": "(", "]": "[", "}": "{"}


def addresses_in(text: str) -> tuple[str, ...]:
    """The addresses that stand in the text, each once, without the punctuation behind them."""
    found = _without_ends(_ADDRESS, text)
    return tuple(dict.fromkeys(address for address in found if len(address) <= MAX_ADDRESS))


def canonical(address: str) -> str | None:
    """The address as a browser would write it, without its fragment; None where it is none."""
    import ada_url  # noqa: PLC0415 - who never meets an address needs it not

    try:
        parsed = ada_url.URL(address)
    except ValueError:
        return None
    parsed.hash = ""
    href: str = parsed.href
    return href if parsed.protocol in ("http:", "https:") and len(href) <= MAX_ADDRESS else None


def known_addresses(messages: Iterable[ChatMessage]) -> frozenset[str]:
    """The addresses that the messages make known, as they stand there and as a browser would write them."""
    said = frozenset(address for message in messages for address in _given(message))
    return said | frozenset(filter(None, map(canonical, said)))


def is_known(address: str, known: AbstractSet[str]) -> bool:
    """Whether the address, as a whole and unchanged, is one of those known."""
    return address in known or canonical(address) in known


def check_addresses(texts: Iterable[str], known: AbstractSet[str]) -> None:
    """Refuse texts of a model that name an address which it made up.

    Raises:
        NotAllowed: says which host it names.
    """
    for address in (address for text in texts for address in addresses_in(text)):
        if not is_known(address, known):
            raise unknown_address(address)


def unknown_address(address: str) -> NotAllowed:
    """That an address was made up; it may say what was read, so that only its host is named."""
    return NotAllowed(
        f"An address at {_host(address)!r} stands neither in the request nor among the links of a result; "
        "use one that does, word for word, or search.",
        code="address_unknown",
    )


def selected_texts(selection: ActionSelected) -> tuple[str, ...]:
    """What of a selection stage 2 is told, so that an address in it may come into the parameters."""
    fields = selection.parameters_schema.fields if selection.parameters_schema else ()
    return (selection.action_objective, selection.parameters_context, *(field.description for field in fields))


def texts_of(value: JsonValue) -> Iterator[str]:
    """Every text in a value, however deep."""
    match value:
        case str():
            yield value
        case list():
            yield from (text for each in value for text in texts_of(each))
        case dict():
            yield from (text for each in value.values() for text in texts_of(each))


def _given(message: ChatMessage) -> Iterator[str]:
    if message.kind == "workflow_start":
        yield from addresses_in(message.message)
        yield from _named_by_host(message.message)
    yield from message.links
    yield from (document.page.url for document in message.documents if document.page is not None)


def _named_by_host(text: str) -> Iterator[str]:
    """What people write without its scheme, such as `example.org/prices`."""
    for named in _without_ends(_HOST, text):
        yield from (f"https://{named}", f"http://{named}")


def _without_ends(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """What the pattern finds that may be an address; what is far too long for one is not looked at."""
    found = (match[0] for match in pattern.finditer(text))
    return (_without_end(named) for named in found if len(named) <= MAX_ADDRESS + MAX_BEHIND)


def _without_end(address: str) -> str:
    while address and (address[-1] in _BEHIND or _is_foreign_punctuation(address[-1]) or _closes_nothing(address)):
        address = address[:-1]
    return address


def _is_foreign_punctuation(character: str) -> bool:
    return not character.isascii() and category(character).startswith("P")


def _closes_nothing(address: str) -> bool:
    opening = _CLOSING.get(address[-1])
    return opening is not None and address.count(opening) < address.count(address[-1])


def _host(address: str) -> str:
    import ada_url  # noqa: PLC0415 - likewise

    try:
        host: str = ada_url.URL(address).hostname
    except ValueError:
        return "no host"
    return host[:100]
