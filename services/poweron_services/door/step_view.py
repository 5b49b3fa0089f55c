"""What the page of an event shows: the event in parts, and what it changed in the state of the workflow."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, NamedTuple

import orjson
from markupsafe import Markup, escape
from pydantic import JsonValue

from poweron_events.client import Heard
from poweron_events.fold.objections import why_superseded
from poweron_events.fold.state import Workflow
from poweron_events.fold.state_json import as_json
from poweron_events.step_events import ParametersSet
from poweron_services.client.event_words import told_lines
from poweron_services.door.page_rendering import visible, words_of_type

MOST_CHANGES: Final = 60  # rows
MOST_STATE: Final = 60_000  # characters
_ALWAYS: Final = frozenset({"seq", "last", "head", "headMs"})
"""Fields that change with every event."""
_SHOWN_APART: Final = frozenset(
    {
        *("modelCall", "modelCalls", "failedCalls", "criteriaProgress", "round", "task", "attempt", "step"),
        *("given", "parameters", "defaulted", "dropped"),
    }
)
_MISSING: Final = object()


class Change(NamedTuple):
    """A part of the state that an event changed."""

    path: str
    before: str
    """Empty if it was not there."""
    after: str
    """Empty if it is gone."""


class Parameter(NamedTuple):
    """A parameter of an action: as the model gave it, and as the action got it."""

    name: str
    given: str
    used: str
    note: str


class StepView(NamedTuple):
    """One event, with the workflow before and after it."""

    seq: int
    heard: Heard
    before: Workflow
    data: Mapping[str, JsonValue]
    unplanned: int
    """The last event of the round before its tasks are planned, up to this one: where another request can begin."""

    @property
    def title(self) -> str:
        """The type of the event in words, such as “Action selected”."""
        return words_of_type(self.heard.recorded.envelope.type)

    @property
    def sentences(self) -> list[str]:
        return [sentence for _, _, sentence in told_lines(self.heard)]

    @property
    def objection(self) -> str:
        """Why a superseded event has no effect; empty if the fold does not say."""
        event = self.heard.event
        if self.heard.verdict != "superseded" or event is None:
            return ""
        return why_superseded(self.before, event) or ""

    @property
    def facts(self) -> list[tuple[str, str]]:
        """The fields of the event that have no part of the page of their own."""
        shown = [(name, value) for name, value in self.data.items() if name not in _SHOWN_APART or self._is_plain(name)]
        return [(_words(name), _value(value)) for name, value in shown if value not in (None, "", [], {})]

    def _is_plain(self, name: str) -> bool:
        return name in ("given", "parameters") and not isinstance(self.heard.event, ParametersSet)

    @property
    def criteria(self) -> list[dict[str, Any]]:
        progress = self.data.get("criteriaProgress", [])
        return [entry for entry in progress if isinstance(entry, dict)] if isinstance(progress, list) else []

    @property
    def parameters(self) -> list[Parameter]:
        event = self.heard.event
        if not isinstance(event, ParametersSet):
            return []
        names = dict.fromkeys((*event.given, *event.parameters))
        notes = {**dict.fromkeys(event.defaulted, "default"), **dict.fromkeys(event.dropped, "dropped")}
        return [
            Parameter(
                name,
                _value(event.given[name]) if name in event.given else "",
                _value(event.parameters[name]) if name in event.parameters else "",
                notes.get(name) or _note(event, name),
            )
            for name in names
        ]

    @property
    def changes(self) -> list[Change]:
        """What the event changed, without what every event changes."""
        old, new = as_json(self.before), as_json(self.heard.workflow)
        return [change for change in _changes(old, new, "") if change.path.partition(".")[0] not in _ALWAYS]

    @property
    def state(self) -> tuple[Markup, bool]:
        """The whole state after the event with the changed lines marked, and whether its end is left out."""
        old = set(_lines(as_json(self.before)))
        text, size = list[Markup](), 0
        for line in _lines(as_json(self.heard.workflow)):
            size += len(line) + 1
            if size > MOST_STATE:
                return Markup("\n").join(text), True
            shown = visible(line)
            text.append(escape(shown) if line in old else Markup("<mark>{}</mark>").format(shown))
        return Markup("\n").join(text), False


def _lines(value: Any) -> Sequence[str]:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode().split("\n")


def _changes(old: Any, new: Any, path: str) -> Iterator[Change]:
    """Yield the smallest parts that differ; a part that is new or gone is one change."""
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for name in dict.fromkeys((*new, *old)):
            yield from _changes(old.get(name, _MISSING), new.get(name, _MISSING), f"{path}.{name}" if path else name)
    elif isinstance(old, list) and isinstance(new, list):
        for number, (before, after) in enumerate(zip_longest(old, new, fillvalue=_MISSING)):
            yield from _changes(before, after, f"{path}[{number}]")
    else:
        yield Change(path, *("" if value is _MISSING else _value(value) for value in (old, new)))


def _note(event: ParametersSet, name: str) -> str:
    if name not in event.given:
        return "added"
    return "" if event.given[name] == event.parameters.get(name) else "changed"


def _value(value: JsonValue) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _words(name: str) -> str:
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).capitalize()
