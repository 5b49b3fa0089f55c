"""The page of each event shows the state that a fold of the events up to it gives, and prompts and answers as they are stored."""

import orjson
import pytest
from followed_door import written
from opened_door import Door, opened
from page_elements import parsed, region
from wandering_workflows import wandering

from builders import Told
from poweron_events import codec
from poweron_events.envelope import Recorded
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Workflow
from poweron_events.fold.state_json import as_json
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_services.door.page_rendering import visible
from poweron_services.settings.config import Settings

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]


def states(told: Told) -> list[object]:
    """The state after each record."""
    workflow, result = Workflow(told.id), list[object]()
    for seq, value in enumerate(told.values):
        workflow, _ = evolve(workflow, Recorded(codec.decode(value), 0, seq, seq, codec.sha256(value)))
        result.append(orjson.loads(orjson.dumps(as_json(workflow))))
    return result


def without_places(state: object) -> object:
    """Return the state without times of the broker."""
    assert isinstance(state, dict)
    return {name: without_times(value) for name, value in state.items() if name != "headMs"}


def without_times(value: object) -> object:
    if isinstance(value, dict):
        return {name: without_times(part) for name, part in value.items() if not name.endswith("Ms")}
    return [without_times(part) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("count", [4])
async def test_each_page_shows_the_fold_of_the_events_up_to_it(
    door_settings: Settings, kafka: KafkaSettings, dsn: str, count: int
) -> None:
    async with written(door_settings, kafka, dsn) as writer:
        stories = [wandering(number)[0] for number in range(count)]
        for told in stories:
            await writer.write(told)
        async with opened(door_settings, serving=False) as door:
            for told in stories:
                await expect_folds(door, told)


async def expect_folds(door: Door, told: Told) -> None:
    for seq, state in enumerate(states(told)):
        served = (await door.http.get(f"/api/v1/workflows/{told.id}/state", params={"at": seq})).json()
        assert without_places(served) == without_places(state), (told.id, seq)
        page = await parsed(door, f"/w/{told.id}/at/{seq}")
        shown = visible(orjson.dumps(served, option=orjson.OPT_INDENT_2).decode())
        assert region(page, "State") == shown, (told.id, seq)


async def test_each_page_shows_prompt_and_answer_as_they_are_stored(door: Door) -> None:
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
