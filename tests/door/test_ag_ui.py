"""A workflow as AG-UI events: as that protocol's own models and rules have them, from the start or from any record."""

from collections.abc import Iterable
from typing import Any

import orjson
import pytest
from ag_ui import core
from followed_door import whole, written
from opened_door import opened
from pydantic import TypeAdapter
from stream_world import frames, summary
from wandering_workflows import wandering

from builders import At, Told, paused, planned, requested, resumed, typical
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_events.progress import StepProgress
from poweron_projections.entries import EventEntry
from poweron_services.door.ag_ui_events import AgUiView
from poweron_services.door.record_rows import ProgressBatch, RecordBatch, StreamRecord
from poweron_services.settings.config import Settings

EVENT: TypeAdapter[core.Event] = TypeAdapter(core.Event)


def entries(told: Told) -> list[EventEntry]:
    return [
        EventEntry(
            seq=seq, type=orjson.loads(value)["type"], verdict=verdict, partition=0, offset=seq, time="", id="",
            source="", causationid=None, sha256="", data=orjson.loads(value)["data"],
        )
        for seq, (value, verdict) in enumerate(zip(told.values, told.verdicts, strict=True))
    ]  # fmt: skip


def sent(told: Told, after: int = -1, page: int = 7) -> list[dict[str, Any]]:
    """The frames that a follower gets, in batches."""
    view, records, data = AgUiView(told.id, after), [StreamRecord(str(e.seq), e) for e in entries(told)], b""
    for begin in range(0, len(records), page):
        some = records[begin : begin + page]
        is_last = begin + page >= len(records)
        state = summary(told.id, len(records), "running") if is_last else None
        data += view.encoded(RecordBatch(begin - 1, begin + len(some) - 1, some, state))
    return frames(data + view.end())


def checked(told: Iterable[dict[str, Any]]) -> list[core.Event]:
    events = [EVENT.validate_python(frame["data"]) for frame in told]
    assert [event.model_extra for event in events] == [{}] * len(events)  # no field that the protocol does not have
    return events


OPENED = (core.StepStartedEvent, core.TextMessageStartEvent, core.ToolCallStartEvent)
CLOSED = (core.StepFinishedEvent, core.TextMessageEndEvent, core.ToolCallEndEvent)
WITHIN = (core.TextMessageContentEvent, core.ToolCallArgsEvent)
ELSE = (core.ToolCallResultEvent, core.StateSnapshotEvent, core.CustomEvent)


def name(event: Any) -> str:
    """The step, message or call that the event is about."""
    names = ("step_name", "message_id", "tool_call_id")
    return next(f"{name} {getattr(event, name)}" for name in names if hasattr(event, name))


def expect_order(events: Iterable[core.Event]) -> None:
    """The rules with which the protocol's own client verifies a stream."""
    open_, is_running = set[str](), False
    for event in events:
        if isinstance(event, core.RunStartedEvent):
            assert not is_running
            is_running = True
            continue
        assert is_running
        if isinstance(event, (core.RunFinishedEvent, core.RunErrorEvent)):
            assert not open_
            is_running = False
        elif isinstance(event, OPENED):
            assert name(event) not in open_
            open_.add(name(event))
        elif isinstance(event, CLOSED):
            open_.remove(name(event))
        elif isinstance(event, WITHIN):
            assert name(event) in open_
            assert event.delta
        else:
            assert isinstance(event, ELSE)


@pytest.mark.parametrize("number", range(50))
def test_whatever_happens_is_told_in_the_order_that_the_protocol_wants(number: int) -> None:
    told, _ = wandering(number)
    expect_order(checked(sent(told)))


@pytest.mark.parametrize("number", range(10))
def test_the_events_resume_after_every_record(number: int) -> None:
    told, _ = wandering(number)
    all_frames = sent(told)
    for after in range(len(told.values)):
        ids = [int(frame["id"]) for frame in all_frames if "id" in frame and int(frame["id"]) <= after]
        begin = next((n + 1 for n, frame in enumerate(all_frames) if ids and frame.get("id") == str(ids[-1])), 0)
        assert sent(told, after) == all_frames[begin:]


def test_a_typical_workflow_is_told_as_a_run_with_its_steps_calls_and_answer() -> None:
    events = checked(sent(typical(steps=1)))
    assert [event.type.value for event in events] == [
        *("RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"),
        *("STEP_STARTED", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT", "STEP_FINISHED"),
        *("TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "STATE_SNAPSHOT", "RUN_FINISHED"),
    ]
    assert [event.delta for event in events if isinstance(event, core.TextMessageContentEvent)] == [
        "What is the grand total?",
        "The grand total is 42.",
    ]
    assert [event.content for event in events if isinstance(event, core.ToolCallResultEvent)] == ["Read one document."]


def test_questions_to_people_and_their_answers_are_custom_events() -> None:
    at = At()
    told = Told().tell(requested("1"), planned(), at.selected(), at.parameters(), at.approval_requested(), paused())
    told.tell(resumed(), at.approval_denied("6", reason="Not today."))
    custom = [event for event in checked(sent(told)) if isinstance(event, core.CustomEvent)]
    assert [(event.name, event.value["type"]) for event in custom] == [
        ("poweron.approval", "poweron.approval.requested.v1"),
        ("poweron.pause", "poweron.round.paused.v1"),
        ("poweron.pause", "poweron.round.resumed.v1"),
        ("poweron.approval", "poweron.approval.denied.v1"),
    ]
    assert custom[-1].value["reason"] == "Not today."


def test_the_progress_of_a_step_is_a_custom_event_while_a_run_goes_on() -> None:
    place = {"round": 1, "task": 1, "attempt": 1, "step": 1, "try": 1}
    progress = ProgressBatch(
        [StepProgress(workflow_id=Told().id, action="ai.process", unit="pages_read", done=2, total=3, time="", **place)]
    )
    view, (opening, *_) = AgUiView(Told().id, -1), entries(typical())
    assert view.progress(progress) == b""
    view.encoded(RecordBatch(-1, 0, [StreamRecord("0", opening)], None))
    (event,) = checked(frames(view.progress(progress)))
    assert isinstance(event, core.CustomEvent)
    assert (event.name, event.value["done"], event.value["total"]) == ("poweron.progress", 2, 3)


@pytest.mark.system
async def test_a_front_end_of_the_protocol_follows_a_workflow_and_resumes(
    door_settings: Settings, kafka: KafkaSettings, dsn: str
) -> None:
    told = typical()
    async with written(door_settings, kafka, dsn) as writer:
        path = f"/workflows/{await writer.write(told)}/stream"
        async with opened(door_settings, serving=False) as door:
            all_frames = await whole(door, path, format="ag-ui")
            expect_order(checked(all_frames))
            assert all_frames[-1]["data"]["type"] == "RUN_FINISHED"
            ids = [frame["id"] for frame in all_frames if "id" in frame]
            assert ids == sorted(set(ids), key=int)
            for number, frame in enumerate(all_frames):
                if "id" in frame:
                    assert await whole(door, path, frame["id"], format="ag-ui") == all_frames[number + 1 :]
