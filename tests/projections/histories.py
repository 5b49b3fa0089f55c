"""Histories of every kind, for Hypothesis: honest workflows with whatever else can lie in a log."""

import orjson
from hypothesis import strategies as st

from builders import Told, cancellation, refused, requested, under_policy
from poweron_events import codec
from poweron_events.event import CATALOGUE
from poweron_events.log import Message

NOISE = ("honest",) * 12 + ("again", "rival", "refusal", "newer", "garbage", "stranger")


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """A log of up to three workflows, in the order in which it was written."""
    stories = [Told(str(number)) for number in range(draw(st.integers(1, 3)))]
    written: list[Message] = []
    for _ in range(draw(st.integers(1, 50))):
        told = draw(st.sampled_from(stories))
        before = len(told.values)
        written.append(_write(draw, told, draw(st.sampled_from(NOISE))))
        assert len(told.values) <= before + 1
    return written


def _write(draw: st.DrawFn, told: Told, kind: str) -> Message:
    key = told.id.encode()
    match kind:
        case "garbage":
            return Message(key, draw(st.sampled_from((b"", b"{}", b"\xff", b'{"type": 1}'))))
        case "stranger":  # an event of a workflow that nobody opens
            stranger = Told("stranger")
            return stranger.tell(cancellation()).messages[-1]
        case "again" if told.values:
            told.write(draw(st.sampled_from(told.values)))
        case "rival" if told.values:
            told.write(_rival(draw, told))
        case "newer" if told.values:
            told.write(of_newer_catalogue(told.values[-1]))
        case "refusal":
            told.tell(refused(str(len(told.values))))
        case _:
            first = [requested(), requested(**under_policy())]
            told.tell(draw(st.sampled_from(told.next_events() if told.values else first)))
    return told.messages[-1]


def _rival(draw: st.DrawFn, told: Told) -> bytes:
    """Another event for a slot that is taken: the same cause as the last event, from another writer."""
    attributes = orjson.loads(told.values[-1])
    attributes["source"] = f"/poweron/rival/{draw(st.integers(1, 2))}"
    return codec.dumps(attributes)


def of_newer_catalogue(value: bytes) -> bytes:
    """The same envelope around an event that only a newer release knows."""
    return codec.dumps({**orjson.loads(value), "type": "poweron.moon.landed.v1", "catalogue": CATALOGUE + 1})
