"""A workflow whose texts are hostile in every field that takes them, and the same with harmless texts."""

from collections.abc import Callable, Iterator
from typing import Any

import orjson
from pydantic import ValidationError

from builders import At, Told, completed, document, planned, refused, requested, reviewed, step
from poweron_events.errors import Refused
from poweron_events.stream import WorkflowEvent

Path = tuple[str | int, ...]
Texts = Callable[[int], str]
_IDENTIFYING = {"resultLabel", "documentId", "type"}
"""Fields that events refer to."""


def events(number: str) -> list[WorkflowEvent]:
    """One of each kind that carries texts, in the order in which a round needs them."""
    place, again = At(), At(2)
    first = step(1, decision="continue")
    return [
        requested(number, documents=(document(), document("letter.txt", mime_type="text/plain"))),
        planned(),
        place.selection_rejected(),
        *first[:1],
        place.parameters_rejected(),
        place.parameters(given={"query": "x", "y": ["z"]}, parameters={"query": "x", "documentList": ["a"]}),
        *first[2:4],
        *first[4:],
        refused(f"{number}-refused"),
        again.selected(),
        again.parameters(),
        again.started(),
        again.done(success=False, outcome="failed", documents=(), error="It failed."),
        again.observed(),
        again.refined(),
        reviewed(reason="Enough."),
        completed(),
    ]


def filled(number: str, texts: Texts, other: Texts) -> tuple[Told, Told, set[str]]:
    """Return the story with these texts, the same with others, and the fields that take both."""
    told, twin, names, count = Told(number), Told(f"{number}-twin"), set[str](), 0
    pairs = zip(events(number), events(f"{number}-twin"), strict=True)
    for event, twin_event in pairs:
        for path in list(_paths(event.model_dump(mode="json", by_alias=True))):
            text, harmless = texts(count), other(count)
            if (changed := _taken(told, event, path, text)) and (same := _taken(twin, twin_event, path, harmless)):
                event, twin_event = changed, same  # noqa: PLW2901 - one field after the other
                names.add(str(path[-1] if isinstance(path[-1], str) else path[-2]))
            count += 1
        told.tell(event)
        twin.tell(twin_event)
    assert told.verdicts == twin.verdicts
    return told, twin, names


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the place of each text."""
    if isinstance(value, str) and not _IDENTIFYING.intersection(path):
        yield path
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if (*path, key) not in {("request", "id"), ("request", "source")} or value.get("id", "").endswith("-refused"):
            yield from _paths(part, (*path, key))


def _taken(told: Told, event: WorkflowEvent, path: Path, text: str) -> WorkflowEvent | None:
    """Return the event with a text in one field; None if the field does not take it, or the event would have no effect."""
    data = event.model_dump(mode="json", by_alias=True)
    part: Any = data
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = text
    try:
        changed = type(event).model_validate_json(orjson.dumps(data))
        trial = Told()
        trial.id, trial.workflow = told.id, told.workflow
        trial.tell(changed)
        before = Told()
        before.id, before.workflow = told.id, told.workflow
        before.tell(event)
    except (ValidationError, Refused):
        return None
    return changed if trial.verdicts == before.verdicts else None
