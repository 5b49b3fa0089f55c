"""The addresses and paths that a workflow knows: those that users, results and settings gave, never a model (X-01, S4).

A path is known if it appears as a whole, or if it is a known folder followed by names that appear in results of the
same server. So a model can go from a listing to the files in it, and nowhere else.
"""

import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from poweron_events.fold.state import ChatMessage
from poweron_services.decider.parameter_places import Place
from poweron_services.decider.validation import NotAllowed
from poweron_services.decider.web_addresses import canonical, is_known, known_addresses, unknown_address

MAX_PLACES: Final = 500  # in the parameters of one step
MAX_DEPTH: Final = 100  # folders of a path, each of which is looked up
_AROUND: Final = " \t\r\n\"'`()[]{}<>«»„“”|=,;"
_AFTER: Final = ".,;:!?"  # the end of a sentence if only whitespace follows


@dataclass(frozen=True, slots=True)
class KnownPlaces:
    """The addresses and paths that a workflow knows for the actions of one server."""

    requests: tuple[str, ...]
    addresses: frozenset[str]
    names: frozenset[str]
    """The names of documents, and the links of results."""
    configured_places: AbstractSet[str] = frozenset()
    """The places that the settings give to the server."""
    results: tuple[str, ...] = ()
    """The texts of the server's results."""

    @classmethod
    def of(cls, messages: Iterable[ChatMessage], configured_places: AbstractSet[str] = frozenset()) -> "KnownPlaces":
        """Collect what messages make known, without the texts of results."""
        all_messages = tuple(messages)
        documents = (document.document_name for message in all_messages for document in message.documents)
        links = (link for message in all_messages for link in message.links)
        return cls(
            requests=tuple(message.message for message in all_messages if message.kind == "workflow_start"),
            addresses=known_addresses(all_messages) | _addresses(configured_places),
            names=frozenset((*documents, *links)),
            configured_places=configured_places,
        )

    def holds(self, place: Place) -> bool:
        """Return whether the place is known."""
        scheme, separator, rest = place.value.partition("://")
        if separator and scheme.casefold() == "file":
            return self._is_whole(place.value) or self._path(rest)
        if canonical(place.value) is not None:
            return is_known(place.value, self.addresses)
        if place.kind == "address" and not separator and is_known(f"https://{place.value}", self.addresses):
            return True
        return self._is_whole(place.value) if separator else self._path(place.value)

    def _path(self, path: str) -> bool:
        if self._is_whole(path) or self._is_whole(path.rstrip("/\\")):
            return True
        parts = path.replace("\\", "/").rstrip("/").split("/")
        if ".." in parts or parts[0] == "~" or len(parts) > MAX_DEPTH:
            return False
        folders = ("/".join(parts[:end]) for end in range(len(parts) - 1, 0, -1) if any(parts[:end]))
        folder = next(filter(self._is_whole, folders), None)
        return folder is not None and all(map(self._name, parts[folder.count("/") + 1 :]))

    def _is_whole(self, value: str) -> bool:
        """Return whether the value appears anywhere as a whole."""
        if not any(map(str.isalnum, value)):
            return False
        is_name = value in self.names or any(value == place.rstrip("/") for place in self.configured_places)
        return is_name or any(stands(value, text) for text in (*self.requests, *self.results))

    def _name(self, name: str) -> bool:
        """Return whether a file or folder of this name is known."""
        return (
            name in (".", "")
            or name in self.names
            or any(stands(name, text, "/\\") for text in (*self.requests, *self.results))
        )


def check_places(places: Iterable[Place], known: KnownPlaces) -> None:
    """Refuse an address or a path that a model invented.

    Raises:
        NotAllowed: names the parameter or the host, never the whole value, which may contain text that was read.
    """
    for place in places:
        if not known.holds(place):
            raise unknown_place(place)


def unknown_place(place: Place) -> NotAllowed:
    """The error for an invented address or path."""
    if place.kind == "address" and canonical(place.value) is not None:
        return unknown_address(place.value)
    return NotAllowed(
        f"What {place.parameter!r} names stands neither in the request nor in a result of these actions; "
        "use what does, word for word, or list or search first.",
        code="path_unknown",
    )


def stands(value: str, text: str, more: str = "") -> bool:
    """Return whether the text contains the value as a whole: between spaces, quotes, brackets or any of `more`."""
    if value not in text:
        return False
    border = f"[{re.escape(_AROUND + more)}]"
    pattern = rf"(?:\A|(?<={border})){re.escape(value)}(?=\Z|{border}|[{_AFTER}](?:\s|\Z))"
    return re.search(pattern, text) is not None


def _addresses(configured_places: AbstractSet[str]) -> frozenset[str]:
    canonical_places = (canonical(place) for place in configured_places)
    return frozenset(configured_places) | frozenset(filter(None, canonical_places))
