"""The fields of events in which people and models may write: none is forgotten, wherever it is."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from builders import At, document, requested
from poweron_events import RequestWorkflow
from poweron_events.event import FREE_TEXT, Model
from poweron_events.free_text import TextField, text_fields
from poweron_events.request import InlineDocument
from poweron_events.stream import REQUESTS, WORKFLOW_EVENTS

NOT_TEXT = {
    *("allowed_methods", "denied_methods", "allowed", "denied", "approve", "connections", "required_connection"),
    *("workflow_id", "workflow", "head", "restarted_from", "source", "id", "instance", "worker", "claim", "release"),
    *("provider", "model", "models", "next_model", "template", "template_sha256", "prompt", "answer", "settings"),
    *("roles", "to", "format", "documents", "label", "result_label", "defaulted", "normalised", "repaired"),
    *("user_language", "language", "name"),
}
"""Names of models, actions, labels, fields and languages, ids and hashes; `name` is that of a tool's field, `prompt` and
`answer` are prices, `documents` are ids."""


def leaves(hint: Any, marks: tuple[Any, ...] = ()) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    if get_origin(hint) is Annotated:
        kind, *more = get_args(hint)
        yield from leaves(kind, (*marks, *more))
    elif get_origin(hint) is not None and get_origin(hint) is not Literal:
        for part in get_args(hint):
            yield from leaves(part, marks)
    else:
        yield hint, marks


def models(kinds: Any, found: set[type[Model]]) -> set[type[Model]]:
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, Model) and kind not in found:
            found.add(kind)
            hints = get_type_hints(kind, include_extras=True)
            models([leaf for field in kind.model_fields for leaf, _ in leaves(hints[field])], found)
    return found


def is_closed(marks: tuple[Any, ...]) -> bool:
    """Whether a pattern says what may be written."""
    constraints = [each for mark in marks for each in (mark, *getattr(mark, "metadata", ()))]
    return any(getattr(each, "pattern", None) is not None for each in constraints)


def test_every_text_is_marked_or_known_to_be_none() -> None:
    unmarked = set[str]()
    for kind in models([*REQUESTS.values(), *WORKFLOW_EVENTS.values()], set()):
        hints = get_type_hints(kind, include_extras=True)
        for field in kind.model_fields:
            for leaf, marks in leaves(hints[field]):
                is_marked = any(getattr(mark, "json_schema_extra", None) == FREE_TEXT for mark in marks)
                if leaf is str and not is_marked and not is_closed(marks):
                    unmarked.add(field)
    assert unmarked == NOT_TEXT


def test_fields_are_named_by_their_place_with_the_characters_in_them() -> None:
    asked = RequestWorkflow(prompt="What?", documents=(InlineDocument.of("a.txt", b"canary", "text/plain"),))
    assert [*text_fields(asked)] == [
        TextField("prompt", 5),
        TextField("documents[0].documentName", 5),
        TextField("documents[0].mimeType", 10),
        TextField("documents[0].data", 6),
    ]
    opened = requested(prompt="What?", documents=(document("b.txt", mime_type="text/plain"),))
    assert TextField("documents[0].documentName", 5) in [*text_fields(opened)]
    parameters = At().parameters(parameters={"aiPrompt": "canary"}, given={})
    assert [*text_fields(parameters)] == [TextField("parameters", len('{"aiPrompt":"canary"}'))]
