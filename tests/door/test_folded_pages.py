"""Each event and step is shown as a fold of the events gives it, with prompts and answers as they are stored."""

from collections import defaultdict
from collections.abc import Sequence

import orjson
import pytest
from followed_door import written
from opened_door import Door, opened
from page_elements import parsed, region
from wandering_workflows import wandering

from builders import Told
from poweron_events import codec
from poweron_events.envelope import Recorded, parse_time_ms
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Workflow
from poweron_events.fold.state_json import as_json
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_services.door.page_rendering import visible
from poweron_services.settings.config import Settings

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]


async def folded(door: Door, told: Told) -> list[Workflow]:
    """Fold the bytes that the test wrote, from where and when the log has them; return the state after each."""
    entries = (await door.http.get(f"/api/v1/workflows/{told.id}/events", params={"limit": 500})).json()["items"]
    workflow, states = Workflow(told.id), list[Workflow]()
    for entry, value in zip(entries, told.values, strict=True):
        place = entry["partition"], entry["offset"], parse_time_ms(entry["time"])
        workflow, _ = evolve(workflow, Recorded(codec.decode(value), *place, codec.sha256(value)))
        states.append(workflow)
    return states


@pytest.mark.parametrize("count", [4, pytest.param(50, marks=pytest.mark.soak)])
async def test_each_page_shows_the_fold_of_the_events_up_to_it(
    door_settings: Settings, kafka: KafkaSettings, dsn: str, count: int
) -> None:
    async with written(door_settings, kafka, dsn) as writer:
        stories = [wandering(number)[0] for number in range(count)]
        for told in stories:
            await writer.write(told)
        async with opened(door_settings, serving=False) as door:
            shown = 0
            for told in stories:
                states = await folded(door, told)
                await expect_folds(door, told, states)
                shown += await expect_steps(door, told, states)
            assert shown >= count


async def expect_folds(door: Door, told: Told, states: Sequence[Workflow]) -> None:
    for seq, state in enumerate(states):
        served = (await door.http.get(f"/api/v1/workflows/{told.id}/state", params={"at": seq})).json()
        assert served == orjson.loads(orjson.dumps(as_json(state))), (told.id, seq)
        page = await parsed(door, f"/w/{told.id}/at/{seq}")
        shown = visible(orjson.dumps(served, option=orjson.OPT_INDENT_2).decode())
        assert region(page, "State") == shown, (told.id, seq)


async def expect_steps(door: Door, told: Told, states: Sequence[Workflow]) -> int:
    """Compare each step with its last state in the fold, and its records with those that name it; return their number."""
    of_tasks = [state for state in states if state.round is not None and state.round.task is not None]
    steps = {state.place: state.step for state in of_tasks if state.step.selection}
    named = defaultdict[tuple[int, ...], list[int]](list)
    for seq, value in enumerate(told.values):
        data = orjson.loads(value)["data"]
        named[tuple(data.get(name, 0) for name in ("round", "task", "attempt", "step"))].append(seq)
    for place, step in steps.items():
        path = "r{}t{}a{}s{}".format(*place)
        served = (await door.http.get(f"/api/v1/workflows/{told.id}/steps/{path}")).json()
        assert [event["seq"] for event in served["events"]] == named[place], (told.id, path)
        assert [event["data"] for event in served["events"]] == [
            orjson.loads(told.values[seq])["data"] for seq in named[place]
        ]
        assert step.selection is not None
        expected = {
            "action": step.selection.action,
            "parameters": None if step.parameters is None else step.parameters.parameters,
            "approval": step.approval,
            "tries": len(step.starts),
            "outcome": None if step.completed is None else step.completed.outcome,
            "resultLabel": None if step.completed is None else step.completed.result_label,
        }
        assert {name: served["step"][name] for name in expected} == expected, (told.id, path)
    return len(steps)


async def test_pages_and_steps_show_prompt_and_answer_as_they_are_stored(door: Door) -> None:
    asked = await door.http.post(
        "/api/v1/workflows",
        files=[
            ("request", (None, b'{"prompt": "When </pre> \\u202e does it open?"}')),
            ("file", ("a.txt", b"On Monday.")),
        ],
        headers={"Prefer": "wait=60"},
    )
    workflow = asked.json()["workflowId"]
    calls = (await door.http.get(f"/api/v1/workflows/{workflow}/usage")).json()["items"]
    stored = 0
    events = (await door.http.get(f"/api/v1/workflows/{workflow}/events")).json()["items"]
    for event in events:
        call = (event["data"] or {}).get("modelCall")
        if call is None:
            continue
        page = await parsed(door, f"/w/{workflow}/at/{event['seq']}")
        for label, ref in (("Prompt", call["promptRef"]), ("Answer", call["answerRef"])):
            content = await door.http.get(f"/api/v1/workflows/{workflow}/content/{ref}")
            assert region(page, label) == visible(content.content.decode())
            stored += 1
    assert calls
    assert stored >= 6
    step = (await door.http.get(f"/api/v1/workflows/{workflow}/steps/r1t1a1s2")).json()
    assert len(step["calls"]) >= 2
    for call in step["calls"]:
        for name in ("prompt", "answer"):
            content = await door.http.get(f"/api/v1/workflows/{workflow}/content/{call[f'{name}Ref']}")
            assert call[name].encode() == content.content
