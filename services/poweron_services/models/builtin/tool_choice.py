"""The choice of external tools by their names: list what is available, read what may matter, then answer from it.

Only the name of a tool and the names of its parameters are known, so a tool is chosen only if its name says that it
reads. File names come from the results of tools, of which the history shows the beginning.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from pydantic import JsonValue

from poweron_events.catalog import CATALOG
from poweron_events.fold.state import ChatMessage, action_label
from poweron_services.models.builtin.vocabulary import terms
from poweron_services.models.builtin.web_choice import has_documents, query
from poweron_services.models.prompts import CatalogLine, KnownPrompt, SelectionPrompt

MAX_FILES: Final = 40  # files that are read at once
OURS: Final = frozenset(name.partition(".")[0] for name in CATALOG)

_LISTING: Final = frozenset({"list", "ls", "tree", "browse"})
_SEARCHING: Final = frozenset({"search", "find", "query", "lookup"})
_READING: Final = frozenset({"read", "get", "fetch", "open", "load", "show", "cat"})
_SEVERAL: Final = frozenset({"paths", "files", "filenames", "filepaths"})
_SINGLE_FILE: Final = frozenset({"path", "file", "filename", "filepath"})
_FOLDER: Final = frozenset({"path", "folder", "directory", "dir", "root"})
_QUERY: Final = frozenset({"query", "q", "question", "text", "search", "keywords", "term"})
_TEXTS: Final = frozenset({"text", "multiple", "content", "contents"})  # words in the name of the best tool for reading
_SIZES: Final = frozenset({"media", "info", "size", "sizes", "metadata", "stat"})  # of files, not content
_SYNONYMS: Final = {"folder": "directory", "dir": "directory", "document": "file", "directories": "directory"}

_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_MARK: Final = re.compile(r"^\s*(?:[-*•]\s+)?(?:\[(?P<kind>FILE|DIR)\]\s+)?(?P<name>\S.*?)\s*$", re.IGNORECASE)
_ABSOLUTE: Final = re.compile(r"(?:/|~/|[A-Za-z]:[\\/])[^\s\"'`<>|]*[^\s\"'`<>|.,;:!?)]")
_ABOVE: Final = re.compile(r"#|<!--")  # lines above the text of a document
_FILE: Final = re.compile(r"[^/\\:]+\.[A-Za-z0-9]{1,8}")


class ToolStep(NamedTuple):
    """A tool, the reason to use it, and its arguments."""

    action: str
    objective: str
    values: dict[str, JsonValue]


class _Places(NamedTuple):
    """The folders and files that the request and the results name, without duplicates."""

    folders: tuple[str, ...]
    files: tuple[str, ...]


def wanted_tools(prompt: KnownPrompt, catalog: Iterable[CatalogLine]) -> tuple[CatalogLine, ...]:
    """Return the reading tools of the server that the request mentions; none if documents came with the request."""
    if has_documents(prompt):
        return ()
    reading = [line for line in catalog if _method(line) not in OURS and _verb(line)]
    meanings = _meanings(prompt.user_prompt.casefold())
    best = max(reading, key=lambda line: _overlap(line, meanings), default=None)
    if best is None or not _overlap(best, meanings):
        return ()
    return tuple(line for line in reading if _method(line) == _method(best))


def next_tool(prompt: SelectionPrompt) -> ToolStep | None:
    """Choose the next tool; None if no tool is needed, or if the content was already read."""
    tools = wanted_tools(prompt, prompt.catalog)
    actions = {message.action for message in prompt.history}
    left = [line for line in tools if line.name not in actions]
    if prompt.steps_left == 1 or _was_read(tools, prompt.history):
        return None
    places = _places(prompt)
    listing = () if _was_listed(tools, prompt.history) else left
    return _read(left, places) or _list(listing, places) or _search(left, prompt)


def result_labels(tools: Iterable[CatalogLine]) -> frozenset[str]:
    """Return the endings of the labels of those results that an answer is written from."""
    return frozenset(action_label(line.name) for line in tools if _answers(line))


def lists(action: str) -> bool:
    """Return whether an action is an external tool that only lists; its result names what to read next."""
    return action.partition(".")[0] not in OURS and _verb(CatalogLine(action, ())) == "list"


def only_names_places(text: str) -> bool:
    """Return whether a text is a list of files and folders, without any of their content."""
    lines = [line for line in text.splitlines() if line.strip() and not _ABOVE.match(line)]
    places = [line for line in lines if _names_place(line)]
    return bool(places) and len(lines) - len(places) == sum(line.rstrip().endswith(":") for line in lines)


def _names_place(line: str) -> bool:
    match = _MARK.match(line)
    is_name = match is not None and bool(match["kind"] or _FILE.fullmatch(match["name"].strip('",')))
    return is_name or _ABSOLUTE.fullmatch(line.strip()) is not None


def _was_read(tools: Iterable[CatalogLine], history: Iterable[ChatMessage]) -> bool:
    reading = {line.name for line in tools if _answers(line)}
    return any(message.success and message.action in reading for message in history)


def _was_listed(tools: Iterable[CatalogLine], history: Iterable[ChatMessage]) -> bool:
    """Return whether a folder was already listed; other tools would list it again in another form."""
    listing = {line.name for line in tools if _verb(line) == "list" and _parameter(line, _FOLDER)}
    return any(message.success and message.action in listing for message in history)


def _answers(line: CatalogLine) -> bool:
    """Return whether the result of a tool is the content itself, not only where it is."""
    return bool(_file_parameter(line)) or (_verb(line) != "list" and not _parameter(line, _FOLDER))


def _read(tools: Sequence[CatalogLine], places: _Places) -> ToolStep | None:
    """Read all files at once if a tool takes several, or else the first file."""
    readers = [line for line in tools if _file_parameter(line) and _verb(line) == "read"]
    if not readers or not places.files:
        return None
    best = max(readers, key=lambda line: (_takes_several(line), len(_TEXTS & _words(line)), -len(line.name)))
    parameter = _file_parameter(best)
    files = places.files[:MAX_FILES]
    value: JsonValue = list[JsonValue](files) if _takes_several(best) else files[0]
    return ToolStep(best.name, "Read the files that were found.", {parameter: value})


def _list(tools: Sequence[CatalogLine], places: _Places) -> ToolStep | None:
    """List the first known folder, or else the available folders."""
    listing = sorted(
        (line for line in tools if _verb(line) == "list"), key=lambda line: (len(line.parameters), line.name)
    )
    if places.folders:
        of_folder = next((line for line in listing if _parameter(line, _FOLDER)), None)
        if of_folder is not None:
            values: dict[str, JsonValue] = {_parameter(of_folder, _FOLDER): places.folders[0]}
            return ToolStep(of_folder.name, "List what is in the folder.", values)
    roots = next((line for line in listing if not line.parameters), None)
    return ToolStep(roots.name, "List what there is.", {}) if roots is not None else None


def _search(tools: Sequence[CatalogLine], prompt: SelectionPrompt) -> ToolStep | None:
    """Choose a tool that takes the question itself, or one without parameters."""
    meanings = _meanings(prompt.user_prompt.casefold())
    asking = [line for line in tools if _parameter(line, _QUERY) and not _parameter(line, _FOLDER)]
    plain = [line for line in tools if not line.parameters and _verb(line) == "read"]
    best = max((*asking, *plain), key=lambda line: _overlap(line, meanings), default=None)
    if best is None:
        return None
    parameter = _parameter(best, _QUERY)
    return ToolStep(
        best.name, "Look up what was asked for.", {parameter: query(prompt.user_prompt)} if parameter else {}
    )


def _places(prompt: SelectionPrompt) -> _Places:
    """Collect places from the request, then from results, oldest first; a bare name is in the last folder."""
    folders = [place for place in _absolute(prompt.user_prompt) if not _is_file(place)]
    files = [place for place in _absolute(prompt.user_prompt) if _is_file(place)]
    for message in reversed(prompt.history):
        if (
            message.kind == "step"
            and message.success
            and message.action
            and message.action.partition(".")[0] not in OURS
        ):
            for is_file, place in _listing_places("\n".join(message.findings), folders[-1] if folders else ""):
                (files if is_file else folders).append(place)
    return _Places(tuple(dict.fromkeys(folders)), tuple(dict.fromkeys(files)))


def _listing_places(text: str, folder: str) -> Iterator[tuple[bool, str]]:
    """Yield the places that a listing names, and whether each is a file."""
    for line in text.splitlines():
        match = _MARK.match(line)
        absolute = _absolute(line)
        if absolute:
            yield from ((_is_file(place), place) for place in absolute)
        elif match is not None and folder and match["kind"] != "DIR":
            name = match["name"].strip('",')
            if match["kind"] or _FILE.fullmatch(name):
                yield True, f"{folder.rstrip('/')}/{name}"


def _absolute(text: str) -> list[str]:
    return _ABSOLUTE.findall(text)


def _is_file(place: str) -> bool:
    return _FILE.fullmatch(re.split(r"[/\\]", place)[-1]) is not None


def _method(line: CatalogLine) -> str:
    return line.name.partition(".")[0]


def _verb(line: CatalogLine) -> str:
    """Return what a tool does by its name: "list", "search" or "read"; "" if it may do something else."""
    words = _words_in_order(line)
    first = words[0] if words else ""
    if first in _SEARCHING or _SIZES & set(words):
        return "search" if first in _SEARCHING else ""
    if first in _LISTING or "tree" in words:
        return "list"
    return "read" if first in _READING else ""


def _words_in_order(line: CatalogLine) -> list[str]:
    return [word.lower() for word in _WORD.findall(line.name.partition(".")[2])]


def _words(line: CatalogLine) -> frozenset[str]:
    return frozenset(_words_in_order(line))


def _overlap(line: CatalogLine, meanings: frozenset[str]) -> int:
    """Count the words of the request that match the subject of the tool."""
    verbs = _LISTING | _SEARCHING | _READING
    about = _meanings(" ".join([_method(line), *(_words(line) - verbs)]))
    return len(about & meanings)


def _meanings(text: str) -> frozenset[str]:
    stems = [
        stem for word in re.findall(r"[a-zäöüß]+", text) for stem in terms(_SYNONYMS.get(word.rstrip("s"), word), "en")
    ]
    return frozenset(_SYNONYMS.get(stem, stem) for stem in stems)


def _parameter(line: CatalogLine, names: frozenset[str]) -> str:
    return next((name for name in line.parameters if name.lower().replace("_", "") in names), "")


def _file_parameter(line: CatalogLine) -> str:
    several = _parameter(line, _SEVERAL)
    is_of_files = _verb(line) == "read" and not _SIZES & _words(line)
    return several or (_parameter(line, _SINGLE_FILE) if is_of_files else "")


def _takes_several(line: CatalogLine) -> bool:
    return bool(_parameter(line, _SEVERAL))
