"""The addresses and paths that a workflow knows: those that users, results and settings gave, never a model (X-01, S4).

A path is known if it appears as a whole, or if it is a known folder followed by names that appear in results of the
same server. So a model can go from a listing to the files in it, and nowhere else.

The action's schema says which parameters are addresses or paths. Any third party may have written it, so lists, objects
and alternatives are searched, too. If the schema says nothing, the parameter's name decides, word by word: `path`,
`source_file`, `outputDir`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

from pydantic import JsonValue

from poweron_events.catalog import ActionSpec
from poweron_events.fold.state import ChatMessage
from poweron_services.decider.validation import NotAllowed
from poweron_services.decider.web_addresses import canonical, is_known, known_addresses, unknown_address

Kind = Literal["address", "path"]


class Place(NamedTuple):
    """An address or a path that a parameter names."""

    kind: Kind
    parameter: str
    value: str


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


_ADDRESS_FORMATS: Final = frozenset({"uri", "uri-reference", "iri", "iri-reference", "url", "uri-template"})


_ADDRESSES: Final = frozenset({"url", "uri", "iri", "href", "link", "address", "endpoint", "webpage"})


_PATHS: Final = frozenset(
    {"path", "file", "filename", "filepath", "pathname", "directory", "dir", "dirname", "folder", "cwd", "glob"}
)


_MAYBE: Final = frozenset(
    {"source", "src", "destination", "dest", "dst", "target", "root", "location", "input", "output", "from", "to"}
)
"""Words that name a path if the value looks like one."""


_OF_PATHS: Final = frozenset({"name"})  # `fileName` is a path, as `file` is; `fileType` is not


_ALTERNATIVES: Final = ("anyOf", "oneOf", "allOf")


_CONDITIONS: Final = ("if", "then", "else")


_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


_SCHEME: Final = re.compile(r"(?i)[a-z][a-z0-9+.-]{1,30}://")


_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")


_MAY_HOLD_PLACES: Final = (str, list, dict)


def places(parameters: Mapping[str, JsonValue], spec: ActionSpec) -> tuple[Place, ...]:
    """The addresses and paths in the parameters, each once, except values that the schema itself offers."""
    result = (
        Place(kind, name, text)
        for name, value in parameters.items()
        if value and isinstance(value, _MAY_HOLD_PLACES)
        for kind, text in _find(spec.properties.get(name, True), value, name)
    )
    return tuple(dict.fromkeys(result))


@lru_cache(maxsize=256)
def takes_addresses(spec: ActionSpec) -> bool:
    """Return whether a parameter of the action is a web address by its schema or by its name."""
    return any(_is_address(schema) or _last_word(name) in _ADDRESSES for name, schema in spec.properties.items())


def _is_address(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    inner = [alternative for keyword in _ALTERNATIVES for alternative in schema.get(keyword, ())]
    return schema.get("format") in _ADDRESS_FORMATS or any(map(_is_address, [*inner, schema.get("items")]))


def _find(schema: Any, value: JsonValue, name: str) -> Iterator[tuple[Kind, str]]:
    own_schema = schema if isinstance(schema, dict) else {}
    if _offers(own_schema, value):
        return
    for inner in _alternatives(own_schema):
        yield from _find(inner, value, name)
    match value:
        case str() if value.strip():
            kind = _kind(own_schema, name, value)
            if kind is not None:
                yield kind, value
        case list():
            for number, item in enumerate(value):
                yield from _find(_of_entry(own_schema, number), item, name)
        case dict():
            members = own_schema.get("properties", {})
            for key, item in value.items():
                if key not in members and _by_name(name, key) is not None and "/" in key:
                    yield "path", key
                yield from _find(members.get(key, own_schema.get("additionalProperties", True)), item, key)


def _alternatives(schema: Mapping[str, Any]) -> Iterator[Any]:
    for keyword in _ALTERNATIVES:
        yield from schema.get(keyword, ())
    yield from (schema[keyword] for keyword in _CONDITIONS if keyword in schema)


def _offers(schema: Mapping[str, Any], value: JsonValue) -> bool:
    """Return whether the schema names exactly this value."""
    values = [schema[keyword] for keyword in ("default", "const") if keyword in schema]
    return value in values or value in schema.get("enum", ())


def _of_entry(schema: Mapping[str, Any], number: int) -> Any:
    first = schema.get("prefixItems", ())
    return first[number] if number < len(first) else schema.get("items", True)


def _kind(schema: Mapping[str, Any], name: str, value: str) -> Kind | None:
    if schema.get("format") in _ADDRESS_FORMATS:
        return "address"
    kind = _by_name(name, value)
    return "address" if kind == "path" and _SCHEME.match(value) else kind


def _by_name(name: str, value: str) -> Kind | None:
    words = _words(name)
    last = _last_word(name)
    if last in _ADDRESSES:
        return "address"
    if last in _PATHS or (last in _OF_PATHS and any(word in _PATHS for word in words)):
        return "path"
    is_maybe = any(word in _PATHS | _MAYBE for word in words)
    return "path" if is_maybe and _looks_like_a_path(value) else None


def _last_word(name: str) -> str:
    words = _words(name)
    return words[-1] if words else ""


@lru_cache(maxsize=1_024)
def _words(name: str) -> tuple[str, ...]:
    """The words of a name in camelCase, in snake_case or with hyphens, each in the singular."""
    return tuple(_singular(word.lower()) for word in _WORD.findall(name))


def _singular(word: str) -> str:
    return {"directories": "directory"}.get(word, word.removesuffix("s"))


def _looks_like_a_path(value: str) -> bool:
    return value.startswith(("/", "~", "./", "../", "\\")) or bool(
        _DRIVE.match(value) or re.search(r"\w[\\/]\w", value)
    )
