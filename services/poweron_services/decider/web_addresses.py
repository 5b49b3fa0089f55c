"""Web addresses: which ones a text contains and which ones a workflow knows, so that no invented address is fetched.

An address is known if it appears in a request of the workflow, or if a result gave it as a link or as the address of a
page (S4). Text that a model wrote makes no address known: the model could put anything that it has read behind a `?`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final
from unicodedata import category

from pydantic import JsonValue

from poweron_events.fold.state import ChatMessage
from poweron_events.step_events import ActionSelected
from poweron_services.decider.validation import NotAllowed

MAX_ADDRESS: Final = 2_048  # characters
MAX_BEHIND: Final = 200  # characters of punctuation after an address
_ADDRESS: Final = re.compile(r"(?i)https?:[/\\](?:(?!\]\()[^\s<>\"'`\x00-\x1f])+")
_HOST: Final = re.compile(
    r"(?i)(?<![\w@/.:-])(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}[^\W\d_]{2,24}(?::\d{1,5})?(?:/[^\s<>\"'`]*)?(?![\w@])"
)
_BEHIND: Final = frozenset(".,;:!?*_~|")
_CLOSING: Final[Mapping[str, str]] = {")": "(", "]": "[", "}": "{"}


def addresses_in(text: str) -> tuple[str, ...]:
    """The addresses in the text, each once, without the punctuation after them."""
    matches = _without_ends(_ADDRESS, text)
    return tuple(dict.fromkeys(address for address in matches if len(address) <= MAX_ADDRESS))


def canonical(address: str) -> str | None:
    """Return the address as a browser would write it, without its fragment, or None if it is not a web address."""
    import ada_url  # noqa: PLC0415 - texts without an address do not need it

    try:
        url = ada_url.URL(address)
    except ValueError:
        return None
    url.hash = ""
    href: str = url.href
    return href if url.protocol in ("http:", "https:") and len(href) <= MAX_ADDRESS else None


def known_addresses(messages: Iterable[ChatMessage]) -> frozenset[str]:
    """The addresses that the messages make known, as they are written and in canonical form."""
    addresses = frozenset(address for message in messages for address in _addresses_of(message))
    return addresses | frozenset(filter(None, map(canonical, addresses)))


def is_known(address: str, known: AbstractSet[str]) -> bool:
    """Return whether the complete address is known, as it is written or in canonical form."""
    return address in known or canonical(address) in known


def check_addresses(texts: Iterable[str], known: AbstractSet[str]) -> None:
    """Refuse texts of a model that contain an invented address.

    Raises:
        NotAllowed: names the host of the address.
    """
    for address in (address for text in texts for address in addresses_in(text)):
        if not is_known(address, known):
            raise unknown_address(address)


def unknown_address(address: str) -> NotAllowed:
    """The error for an invented address; it names only the host, since the rest may contain text that was read."""
    return NotAllowed(
        f"An address at {_host(address)!r} stands neither in the request nor among the links of a result; "
        "use one that does, word for word, or search.",
        code="address_unknown",
    )


def selected_texts(selection: ActionSelected) -> tuple[str, ...]:
    """The texts of a selection that stage 2 sees, so that an address in them may appear in the parameters."""
    fields = selection.parameters_schema.fields if selection.parameters_schema else ()
    return (selection.action_objective, selection.parameters_context, *(field.description for field in fields))


def texts_of(value: JsonValue) -> Iterator[str]:
    """Yield every string in a value, at any depth."""
    match value:
        case str():
            yield value
        case list():
            yield from (text for item in value for text in texts_of(item))
        case dict():
            yield from (text for item in value.values() for text in texts_of(item))


def _addresses_of(message: ChatMessage) -> Iterator[str]:
    if message.kind == "workflow_start":
        yield from addresses_in(message.message)
        yield from _host_addresses(message.message)
    yield from message.links
    yield from (document.page.url for document in message.documents if document.page is not None)


def _host_addresses(text: str) -> Iterator[str]:
    """Yield the addresses that users write without a scheme, such as `example.org/prices`."""
    for address in _without_ends(_HOST, text):
        yield from (f"https://{address}", f"http://{address}")


def _without_ends(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """Yield the matches of the pattern that may be addresses; matches far too long for one are skipped."""
    matches = (match[0] for match in pattern.finditer(text))
    return (_without_end(address) for address in matches if len(address) <= MAX_ADDRESS + MAX_BEHIND)


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
    import ada_url  # noqa: PLC0415 - as above

    try:
        host: str = ada_url.URL(address).hostname
    except ValueError:
        return "no host"
    return host[:100]
