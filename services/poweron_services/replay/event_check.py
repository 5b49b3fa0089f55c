"""Compares two events field by field, except for fields that differ by nature."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import orjson

from poweron_events.stream import WorkflowEvent
from poweron_services.replay.replay_model import UNTOLD

BY_NATURE: Final = frozenset(
    {"durationMs", "tries", "promptRef", "answerRef", "template", "templateSha256", "failedCalls", "reservations"}
)
"""Durations, retries, reservations, references to stored bytes, and the template, which is compared with the prompt."""
LONGEST: Final = 80  # characters of a value to show


def differences(
    data: Mapping[str, Any], event: WorkflowEvent, *, only: Collection[str] | None = None, earlier: bool = False
) -> list[str]:
    """Return a sentence for each difference between the recorded data and the event.

    An event of an earlier release lacks fields that were added later: only those it has are compared. `only` names the
    fields to compare at all.
    """
    now = orjson.loads(orjson.dumps(event.model_dump(mode="json", by_alias=True)))
    only_given = only is not None or earlier
    then = data if only is None else {name: value for name, value in data.items() if name in only}
    return list(_parts(then, now, "", only_given=only_given))


def _parts(then: Any, now: Any, at: str, *, only_given: bool) -> Iterator[str]:
    if isinstance(then, dict) and isinstance(now, dict):
        names = then.keys() if only_given else then.keys() | now.keys()
        for name in sorted(names - BY_NATURE):
            inner = f"{at}.{name}" if at else name
            yield from _parts(then.get(name), now.get(name), inner, only_given=only_given)
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for number, (old, new) in enumerate(zip(then, now, strict=True)):
            yield from _parts(old, new, f"{at}[{number}]", only_given=only_given)
    elif then != now and not _is_untold(then, now):
        yield f"{at} was {_text(then)} and is {_text(now)}."


def _is_untold(then: Any, now: Any) -> bool:
    """Return whether the texts are the same except for a sentence that is no longer known."""
    if not isinstance(then, str) or not isinstance(now, str) or UNTOLD not in now:
        return False
    begin, _, end = now.partition(UNTOLD)
    return then.startswith(begin) and then.endswith(end)


def _text(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
