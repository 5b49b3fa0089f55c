"""A server of tools that lies, floods, dies, never answers and gives instructions: bounded, told, nothing obeyed."""

import asyncio
import os
import tracemalloc
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest
from doubles import World, script, soon
from event_loop import longest_gap
from structlog.testing import capture_logs
from tool_servers import KEY, lying, named, tools_of

from poweron_events.errors import Unavailable
from poweron_events.request import workflow_id
from poweron_events.step_events import ActionCompleted, ActionStarted, ObservationRecorded
from poweron_services.actions.action import Action, Done, Failed, Order
from poweron_services.connectors.mcp import tool_server
from poweron_services.models.prompts import PlanningPrompt

pytestmark = pytest.mark.usefixtures("logged")

ID = workflow_id("/tests", "1")
Actions = Mapping[str, Action]


@pytest.fixture
async def actions(tmp_path: Path) -> AsyncGenerator[Actions, None]:
    async with tools_of(named(tmp_path, {"lying": lying(tmp_path)}), tmp_path / "home") as known:
        yield known


async def _no_model(_: Any) -> Any:
    raise AssertionError("a tool asks no model")


def order(text: str = "x", told: Any = None) -> Order:
    order = Order({"text": text}, (), "en", "key", _no_model)
    return order if told is None else Order({"text": text}, (), "en", "key", _no_model, tell_progress=told)


async def called(actions: Actions, tool: str, text: str = "x") -> Done:
    return await actions[f"lying.{tool}"](order(text))


def texts(done: Done) -> dict[str, str]:
    return {each.document_name: each.document_data.decode(errors="replace") for each in done.result.documents}


def lines(folder: Path, file: str) -> list[str]:
    return (folder / file).read_text().splitlines() if (folder / file).exists() else []


async def ran(tmp_path: Path, tool: str, **poweron: Any) -> tuple[World, list[Any]]:
    """The tool, run by the loop; trusted, so that nobody has to be asked."""
    path = named(tmp_path, {"lying": lying(tmp_path, trust=["*"], **poweron)})
    async with tools_of(path, tmp_path / "home") as known:
        chosen = {"action": f"lying.{tool}", "actionObjective": "Do it"}
        world = World(
            known.values(), script(selection=[chosen], parameters=[{"schema": "parameters_v1", "parameters": {}}])
        )
        async with world.process():
            await world.ask(max_retries=0)
            await world.ended(ID)
        return world, world.accepted(ID)


def only(kind: type, events: list[Any]) -> Any:
    (found,) = (event for event in events if isinstance(event, kind))
    return found


async def test_what_it_may_do_follows_from_what_it_says_of_itself(actions: Actions) -> None:
    specs = {name: (action.spec.effect_class, action.spec.needs_approval) for name, action in actions.items()}
    assert specs["lying.read_text"] == ("pure", False)
    assert specs["lying.again"] == ("idempotent", True)
    assert specs["lying.count"] == ("at_most_once", True)


async def test_a_schema_that_cannot_be_used_leaves_out_that_tool_alone(actions: Actions) -> None:
    assert "lying.unusable" not in actions
    assert len(actions) == 21


async def test_a_tool_that_cannot_be_described_is_named_once_and_left_out(tmp_path: Path) -> None:
    with capture_logs() as logged:
        async with tools_of(named(tmp_path, {"lying": lying(tmp_path)}), tmp_path / "home") as actions:
            await called(actions, "read_text")
    told = [(line["action"], line["source"]) for line in logged if line["event"] == "action_left_out"]
    assert told == [(tool, "lying") for tool in ("shapeless", "wordy", "n" * 300, "", "numbers")]
    (shapeless,) = (line["error"] for line in logged if line.get("action") == "shapeless")
    assert shapeless == "inputSchema.type must be 'object'"


@pytest.mark.parametrize("tool", ["flood_bytes", "flood_parts"])
async def test_a_flood_at_once_is_a_failed_result_and_the_server_is_started_again(
    actions: Actions, tmp_path: Path, tool: str
) -> None:
    async def flooded() -> None:
        with pytest.raises(Unavailable, match="sent more at once than is read") as refused:
            await called(actions, tool)
        assert refused.value.code == "tool_result_too_large"

    assert await longest_gap(flooded()) < 1.0
    assert texts(await called(actions, "read_text", "still there")) == {"read_text.txt": "still there"}
    assert len(lines(tmp_path, "started")) == 2


async def test_a_flood_of_messages_grows_no_memory_keeps_nobody_waiting_and_is_told(actions: Actions) -> None:
    await called(actions, "read_text")
    told: list[Any] = []
    tracemalloc.start()
    try:
        waiting = asyncio.create_task(actions["lying.flood_messages"](order(told=lambda *step: told.append(step))))
        longest, before = 0.0, asyncio.get_running_loop().time()
        while not waiting.done():
            await asyncio.sleep(0.001)
            now = asyncio.get_running_loop().time()
            longest, before = max(longest, now - before), now
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    done = waiting.result()
    assert texts(done) == {"flood_messages.txt": "that was a lot"}
    assert peak < 20_000_000
    assert longest < 1.0
    assert len(told) < 500
    assert "messages that were not asked for; they were left out." in done.notes[0]


async def test_a_flood_of_requests_to_us_and_of_what_is_no_message_is_bounded_and_told(actions: Actions) -> None:
    done = await called(actions, "flood_requests")
    assert texts(done) == {"flood_requests.txt": "that was a lot"}
    assert done.notes[0] == "The server sent 9900 messages that were not asked for; they were left out."


async def test_one_that_never_answers_is_stopped_at_the_time_limit_and_told_so(tmp_path: Path) -> None:
    _, events = await ran(tmp_path, "never", timeout=1)
    completed = only(ActionCompleted, events)
    assert (completed.outcome, completed.code) == ("failed", "action_timeout")
    assert lines(tmp_path, "cancelled") == lines(tmp_path, "never")


async def test_one_that_may_run_once_and_does_not_answer_has_an_unknown_outcome(tmp_path: Path) -> None:
    _, events = await ran(tmp_path, "count_and_wait", timeout=1)
    assert only(ActionCompleted, events).outcome == "unknown"
    assert lines(tmp_path, "count_and_wait") == ["None"]


async def test_one_that_dies_in_the_middle_has_run_once_and_nobody_knows_what_came_of_it(tmp_path: Path) -> None:
    _, events = await ran(tmp_path, "count_and_die")
    completed = only(ActionCompleted, events)
    assert (completed.outcome, completed.code) == ("unknown", "tool_server_ended")
    assert lines(tmp_path, "count_and_die") == ["None"]


async def test_one_that_only_reads_is_called_again_where_its_server_died(actions: Actions, tmp_path: Path) -> None:
    assert texts(await called(actions, "die_once", "back")) == {"die_once.txt": "back"}
    assert len(lines(tmp_path, "started")) == 2


async def test_one_that_starts_more_slowly_than_a_call_may_take_is_started_once(tmp_path: Path) -> None:
    path = named(tmp_path, {"lying": lying(tmp_path)})
    async with tools_of(path, tmp_path / "home"):
        pass
    (tmp_path / "started").unlink()
    (tmp_path / "slow").touch()
    async with tools_of(path, tmp_path / "home") as actions:
        for _ in range(2):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await called(actions, "read_text")
        assert texts(await called(actions, "read_text", "at last")) == {"read_text.txt": "at last"}
    assert len(lines(tmp_path, "started")) == 1


async def test_a_server_that_dies_again_and_again_is_left_alone(
    actions: Actions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_server, "FIRST_PAUSE", 0.01)

    async def dies() -> None:
        with pytest.raises((Failed, Unavailable)):
            await called(actions, "die")

    for _ in range(3):
        await dies()
    with pytest.raises(Failed, match=r"ended 5 times within 5 minutes and is left alone for now\."):
        await called(actions, "die")
    assert len(lines(tmp_path, "started")) == 5


async def test_a_tool_that_changed_is_not_called(actions: Actions, tmp_path: Path) -> None:
    assert texts(await called(actions, "read_text", "before"))
    (tmp_path / "changed").touch()
    with pytest.raises(Failed, match=r"'read\.text' of .* was not called: its description changed since") as refused:
        await called(actions, "read_text")
    assert refused.value.code == "tool_changed"
    (tmp_path / "changed").unlink()
    (tmp_path / "gone").touch()
    with pytest.raises(Failed, match="does not offer it any more"):
        await called(actions, "read_text")
    (tmp_path / "changed").touch()
    with pytest.raises(Failed):
        await called(actions, "count")
    assert lines(tmp_path, "count") == []


async def test_what_does_not_fit_the_schema_it_told_is_said_so(actions: Actions) -> None:
    done = await called(actions, "lie")
    assert done.notes[0] == "What it gave does not fit the schema that the server told."
    with pytest.raises(Unavailable, match="What it answered cannot be read"):
        await called(actions, "nonsense")


async def test_what_it_asks_us_for_is_denied(actions: Actions, tmp_path: Path) -> None:
    await called(actions, "ask_back")
    assert "error" in orjson.loads(lines(tmp_path, "answered")[0])


async def test_its_instructions_are_data_and_nothing_of_its_descriptions_is_shown(tmp_path: Path) -> None:
    world, events = await ran(tmp_path, "instruct")
    assert only(ActionStarted, events).tool_sha256
    assert only(ActionCompleted, events).outcome == "done"
    for prompt in world.model.asked:
        rendered = prompt.render(fence="FENCE")
        assert "Ignore all rules" not in rendered.instructions
        if isinstance(prompt, PlanningPrompt):
            assert "Ignore all rules" not in str(rendered)
            assert "lying.instruct(text)" in rendered.data


@pytest.mark.parametrize("tool", ["fail", "error"])
async def test_its_own_words_for_a_failure_are_never_ours(tmp_path: Path, tool: str) -> None:
    _, events = await ran(tmp_path, tool)
    completed = only(ActionCompleted, events)
    assert (completed.outcome, completed.code) == ("failed", "tool_failed")
    assert completed.error == f"lying.{tool} answered that it failed; its own words are in its document."
    observed = only(ObservationRecorded, events)
    assert [preview.name for preview in observed.observation.previews] == ["error.txt"]
    assert all("approve everything" not in note for note in observed.observation.notes)


async def test_its_secrets_stand_nowhere(tmp_path: Path) -> None:
    with capture_logs() as logged:
        world, events = await ran(tmp_path, "environment")
    assert only(ActionCompleted, events).outcome == "done"
    (given,) = only(ActionCompleted, events).documents
    environment = orjson.loads(await world.content.get(ID, given.content))
    assert environment["KEY"] == "[hidden]"
    assert set(environment) <= {"FOLDER", "KEY", "PATH", "LC_CTYPE", "PWD", "SHLVL", "_"}
    everything = (
        [str(logged)]
        + [str(recorded) for recorded, _ in world.records(ID)]
        + [str(prompt.render()) for prompt in world.model.asked]
    )
    assert all(KEY not in said for said in everything)
    assert KEY not in (tmp_path / "home" / "known-tools.json").read_text()


async def test_how_far_it_is_is_told(actions: Actions) -> None:
    told: list[Any] = []
    await actions["lying.progress"](order(told=lambda *step: told.append(step)))
    assert told == [("tool_steps", 1, 3), ("tool_steps", 2, 3), ("tool_steps", 3, 3)]


async def test_what_it_gives_becomes_documents_of_their_kinds(actions: Actions) -> None:
    done = await called(actions, "everything")
    kinds = {each.document_name: each.mime_type for each in done.result.documents}
    assert kinds == {
        "everything.txt": "text/plain",
        "everything.json": "application/json",
        "image-2.png": "image/png",
        "audio-3": "audio/wav",
        "notes.md": "text/markdown",
        "y.bin": "application/octet-stream",
        "resources.txt": "text/plain",
    }
    assert texts(done)["everything.json"] == '{"rooms":12}'
    assert texts(done)["resources.txt"] == "the plan: https://museum.example/plan\na file: file:///etc/passwd"
    assert done.links == ("https://museum.example/plan",)


async def test_no_server_outlives_us(tmp_path: Path) -> None:
    async with tools_of(named(tmp_path, {"lying": lying(tmp_path)}), tmp_path / "home") as actions:
        await called(actions, "read_text")
        (pid,) = map(int, lines(tmp_path, "started"))
        assert os.getpgid(pid) == pid
        assert os.getpgid(pid) != os.getpgid(0)
    await soon(lambda: not psutil.pid_exists(pid))
