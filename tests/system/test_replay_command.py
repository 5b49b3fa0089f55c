"""`poweron show` and `poweron replay` on the real servers: what was decided is shown, taken again, and asked again."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import replays
from commands import NOBODY, Ended, Shell
from processes import ONE_STEP, script

from builders import At, Told, requested
from poweron_events import topics
from poweron_events.content import ContentStore
from poweron_events.log import Message
from poweron_projections.verify import catch_up, verify
from poweron_services.client.connect import Connections
from poweron_services.models.chat_model import ChatModel
from poweron_services.models.prompts import Template
from poweron_services.replay import replay_processes
from poweron_services.replay.action_specs import known_actions
from poweron_services.roles import selector
from poweron_services.settings.config import Settings
from poweron_services.wiring import build_model

pytestmark = [pytest.mark.system]

ID = Told().id
SELECTED = 2  # the seq of the first selection


@pytest.fixture
async def model(tmp_path: Path) -> ChatModel:
    """One task, one step."""
    return build_model(Settings(model=script(tmp_path, ONE_STEP)), AsyncExitStack())


@pytest.fixture
async def asked(service: Connections, shell: Shell) -> str:
    """A workflow that has come to its end, and an event of it that changes nothing."""
    told = Told().tell(requested(documents=()))
    await service.log.append(topics.EVENTS.name, told.messages)
    watched = await shell("watch", ID)
    assert watched.code == 0, watched.err
    late = Told().tell(requested(documents=()), At().selected())
    await service.log.append(topics.EVENTS.name, [Message(ID.encode(), late.values[-1])])
    return ID


def of(found: Ended, seq: int) -> dict[str, Any]:
    return next(line for line in found.lines if line.get("seq") == seq)


async def test_a_workflow_is_replayed_line_by_line_and_counted(shell: Shell, asked: str) -> None:
    found = await shell("replay", asked, "--json")
    plain = await shell("replay", asked)
    *decisions, total = found.lines
    assert found.code == plain.code == 0
    assert total == {"decisions": len(decisions), "same": len(decisions), "differs": 0, "inconclusive": 0}
    assert len(decisions) >= 8
    selected = {
        "seq": SELECTED,
        "type": "poweron.action.selected.v1",
        "decision": "same",
        "prompt": "same",
        "detail": "",
    }
    assert decisions[1] == selected
    assert f"{len(decisions)} decisions: {len(decisions)} same, 0 different, 0 inconclusive." in plain.out
    assert "   2  action.selected.v1      same          prompt same" in plain.out


async def test_everything_is_replayed_side_by_side_and_a_change_ends_with_one(
    shell: Shell, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_processes, "WORKFLOWS_PER_PROCESS", 1)
    assert (await shell("replay", "--all")).code == 0
    changed = Template(selector.TEMPLATE.name, f"Hurry.\n{selector.TEMPLATE.text}")
    monkeypatch.setattr(selector, "TEMPLATE", changed)
    found = await shell("replay", "--all", "--json")
    plain = await shell("replay", "--all")
    assert found.code == plain.code == 1
    assert [line["seq"] for line in found.lines if line.get("prompt") == "differs"] == [SELECTED]
    assert of(found, SELECTED)["workflowId"] == asked
    assert of(found, SELECTED)["detail"] == f"The template {changed.name} has changed."
    assert found.lines[-1]["workflows"] == 1
    assert f"{asked}\n   2  action.selected.v1      same          prompt differs" in plain.out


@pytest.mark.parametrize(
    "path",
    [replays.FIRST_RUN, *(pytest.param(path, marks=pytest.mark.soak) for path in replays.RUNS)],
    ids=lambda path: f"{path.relative_to(replays.HISTORIES).parts[0]}-{path.stem}",
)
async def test_what_a_release_decided_is_the_same_by_log_rows_and_contents(
    path: Path, shell: Shell, connections: Connections
) -> None:
    id_, records, content = replays.run(path)
    await connections.log.append(topics.EVENTS.name, [Message(id_.encode(), record.value) for record in records])
    for name, kept in content.kept.items():
        await connections.content._place.replace(f"{id_}/{name}", kept)
    replayed = await shell("replay", "--all", "--json")
    assert replayed.code == 0
    assert replayed.lines[-1]["same"] == replayed.lines[-1]["decisions"] >= 13
    assert (await verify(connections.log, connections.pool)).differences == []


async def twice(id_: str) -> AsyncIterator[Sequence[str]]:
    """A share for each of two processes."""
    for _ in range(2):
        yield [id_]


async def test_children_that_replay_find_the_same(service: Connections, asked: str) -> None:
    """Two processes beside this one, which get the records and read the contents themselves."""
    await catch_up(service.log, service.pool)
    places = service.settings.content_places
    async with (
        known_actions(service.settings) as known,
        replay_processes._processes(2, replay_processes._Context(places, known)) as executor,
    ):
        side_by_side = replay_processes._side_by_side(service.pool, twice(asked), executor, 2)
        found = [each async for each in side_by_side]
    assert [each.workflow_id for each in found] == [asked, asked]
    assert {replayed.verdict for each in found for replayed in each.replayed} == {"same"}


async def test_what_a_decision_saw_is_shown_byte_for_byte(shell: Shell, service: Connections, asked: str) -> None:
    (shown,) = (await shell("show", asked, "--at", str(SELECTED - 1), "--json")).lines
    plain = await shell("show", asked, "--at", str(SELECTED - 1))
    (last,) = (await shell("show", asked, "--json")).lines
    assert [*shown][:8] == ["seq", "type", "phase", "round", "task", "attempt", "step", "history"]
    assert [*shown][8:15] == ["documents", "budgets", "model", "template", "prompt", "answer", "decision"]
    assert (shown["seq"], shown["phase"], shown["decision"]["seq"]) == (SELECTED - 1, "select", SELECTED)
    call = shown["decision"]["data"]["modelCall"]
    content = ContentStore.at(service.settings.content_place)
    assert (await content.get(asked, call["promptRef"])).decode() == shown["prompt"]
    assert (await content.get(asked, call["answerRef"])).decode() == shown["answer"]
    assert shown["prompt"] in plain.out
    assert last["decision"]["type"] == "poweron.round.completed.v1"


async def test_what_was_erased_is_said(shell: Shell, service: Connections, asked: str) -> None:
    (before,) = (await shell("show", asked, "--at", str(SELECTED - 1), "--json")).lines
    call = before["decision"]["data"]["modelCall"]
    content = ContentStore.at(service.settings.content_place)
    await content.remove([f"{asked}/{call['promptRef']}", f"{asked}/{call['answerRef']}"])
    (shown,) = (await shell("show", asked, "--at", str(SELECTED - 1), "--json")).lines
    found = await shell("replay", asked, "--json")
    assert (shown["prompt"], shown["answer"]) == (None, None)
    assert shown["missing"] == "The prompt was erased. The answer was erased."
    assert found.code == 0
    assert (of(found, SELECTED)["decision"], of(found, SELECTED)["prompt"]) == ("inconclusive", "inconclusive")
    assert "erased" in of(found, SELECTED)["detail"]


async def test_a_decision_is_asked_of_models_again_and_nothing_is_kept(
    shell: Shell, service: Connections, asked: str, tmp_path: Path
) -> None:
    ends = await service.log.ends(topics.EVENTS.name)
    kept = {each.path async for page in service_content(service).stored(asked) for each in page}
    (tmp_path / "other").mkdir()
    report = {"action": "document.generateReport", "actionObjective": "Write it.", "parametersContext": "Write it."}
    other = script(tmp_path / "other", ONE_STEP | {"SelectionPrompt": [report]})
    asking = ("replay", asked, "--at", str(SELECTED), "--model", "builtin", "--model", other, "-n", "2")
    found = await shell(*asking, "--json")
    plain = await shell(*asking)
    assert [line["model"] for line in found.lines] == ["builtin", "builtin", other, other]
    assert {"decision", "answer", "inputTokens", "outputTokens", "costNanoUsd", "durationMs"} <= found.lines[0].keys()
    selected, rejected = "poweron.action.selected.v1", "poweron.selection.rejected.v1"  # for want of documents
    assert [line["type"] for line in found.lines] == [selected, selected, rejected, rejected]
    assert [line["same"] for line in found.lines] == [True, True, False, False]
    summary = "4 answers, 2 of them as event 2 decided; $0.000000 together. None of them was kept."
    assert summary in " ".join(plain.out.split())
    assert [plain.out.count(f" {told} ") for told in ("same", "otherwise")] == [2, 2]
    assert await service.log.ends(topics.EVENTS.name) == ends
    assert {each.path async for page in service_content(service).stored(asked) for each in page} == kept


def service_content(service: Connections) -> ContentStore:
    return ContentStore.at(service.settings.content_place)


async def test_what_cannot_be_shown_or_replayed_is_said_with_what_can(shell: Shell, asked: str) -> None:
    events = (await shell("events", asked, "--json")).lines
    (superseded,) = [line["seq"] for line in events if line["verdict"] == "superseded"]
    last = events[-2]["seq"]
    for command in ("show", "replay"):
        large = await shell(command, asked, "--at", "999", "--json")
        moot = await shell(command, asked, "--at", str(superseded), "--json")
        unknown = await shell(command, NOBODY, "--json")
        assert [each.code for each in (large, moot, unknown)] == [1, 1, 1]
        assert [each.lines[-1]["code"] for each in (large, moot)] == ["unknown_seq"] * 2
        assert f"The nearest accepted one is {last}." in large.err
        assert "was superseded: it changed nothing." in moot.err
        assert unknown.lines[-1]["code"] == "unknown_workflow"
    unset = await shell("replay", asked, "--at", "2", "--model", "openai:gpt-5", OPENAI_API_KEY="")
    assert (unset.code, "set OPENAI_API_KEY to your key" in unset.err) == (2, True)
    none = await shell("replay", asked, "--at", "0", "--model", "builtin")
    assert (none.code, "no model was asked for it" in none.err) == (1, True)
