"""Decisions taken again: of fresh runs of every kind, of the histories of releases, of erased and damaged ones."""

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
import pytest
import recorded
import replays
from doubles import Counting, World, our_actions, script
from minds import Honest
from providers import MODELS, Playing, opened, saying
from pytest_httpserver import HTTPServer
from recorded import ID, RUNS, limited
from registry_servers import FILESYSTEM, node_server
from tool_servers import named, tools_of

from builders import cancellation, requested
from poweron_events import codec
from poweron_events.errors import Refused, Unavailable
from poweron_services.client.client_errors import NewerRelease
from poweron_services.decider.approval import Approval
from poweron_services.models.builtin import BuiltinModel
from poweron_services.models.chat_model import Completion
from poweron_services.models.prompts import ActionsPrompt, ProcessPrompt, Prompt, Template
from poweron_services.replay.action_specs import OURS, KnownActions
from poweron_services.replay.decision_replay import Replayed
from poweron_services.replay.replay_processes import Counted, replay
from poweron_services.roles import refiner
from poweron_services.settings.config import Provider

pytestmark = pytest.mark.usefixtures("logged")

EVERY = [*MODELS]
MADE_UP = {
    "actionplan": {3, 4, 8, 9},  # an action that reads documents, of which none is named
    "approval": {4, 9},  # the hash of other parameters
    "cancelled_while_an_action_runs": {10},  # the message and the totals of the end
    "deadline": {4},  # the same
    "refusals": {7, 8},  # a model's review, though no step ran, and the end
    "rejected_answers": {11, 14},  # decisions without a model
    "retries": {18, 22},  # the label of the result, and the end
    "stage_failed": {2, 3},  # a failure without a code, and the end
}
"""The events of the histories told by hand that no role would have written so."""
CLUB = Path(__file__).parents[3] / "docs" / "examples" / "club"


def expect_same(replayed: list[Replayed], *types: str) -> None:
    """Every decision is the same, and these were among them."""
    assert replays.others(replayed) == []
    assert {f"poweron.{name}.v1" for name in types} <= {each.type for each in replayed}


@pytest.mark.parametrize("name", RUNS)
async def test_a_fresh_run_is_decided_again_as_it_was(name: str) -> None:
    """React and Actionplan, a second attempt, refused answers, a further round, an approval granted and one denied."""
    world = await RUNS[name]()
    replayed = await replays.of_world(world, ID)
    expect_same(replayed, "tasks.planned", "action.selected", "parameters.set", "observation.recorded", "task.reviewed")
    assert Counted.of(replayed).decisions >= 16


@pytest.mark.parametrize("path", replays.RUNS, ids=lambda path: f"{path.parent.name}-{path.stem}")
async def test_what_a_release_decided_is_the_same_by_its_templates_and_actions(path: Path) -> None:
    """The prompts of 0.2.0 and 0.3.0, as their own code wrote them, byte for byte."""
    id_, records, content = replays.run(path)
    known = replays.known_to({"web.read": Counting("web.read").spec})
    replayed = [each async for each in replay(id_, records, content, known)]
    expect_same(replayed, "tasks.planned", "action.selected")
    earlier = any("where planner.v4.md is used now" in each.detail for each in replayed)
    assert earlier == (path.parent.name in ("v0.2.0", "v0.3.0"))


async def test_what_the_first_release_decided_is_the_same_by_its_templates() -> None:
    id_, records, content = replays.run(replays.FIRST_RUN)
    known = replays.known_to({"test.pure": Counting().spec})
    replayed = [each async for each in replay(id_, records, content, known)]
    expect_same(replayed, "tasks.planned", "action.selected", "parameters.set", "task.reviewed", "round.completed")


@pytest.mark.parametrize("path", sorted(replays.HISTORIES.glob("*/*.jsonl")), ids=lambda p: f"{p.parent.name}-{p.stem}")
async def test_every_recorded_history_can_be_replayed(path: Path) -> None:
    """Also those that were told by hand: only what was made up there differs, and nothing stops it."""
    id_, records = replays.history(path)
    replayed = [each async for each in replay(id_, records, replays.contents(path), OURS)]
    assert len(replayed) == len({each.seq for each in replayed}) >= 2
    assert {each.seq for each in replayed if each.verdict == "differs"} <= MADE_UP.get(path.stem, set())


async def test_a_cancelled_round_is_decided_again_as_it_was() -> None:
    world = World([Counting(gate=asyncio.Event())])
    async with world.process():
        id_ = await world.ask()
        await world.phase(id_, "started")
        await world.tell(id_, cancellation())
        await world.ended(id_)
    expect_same(await replays.of_world(world, id_), "round.cancelled", "parameters.set")


@pytest.mark.parametrize("tokens", [0, 700, 1_200, 2_500, 3_200, 4_000])
async def test_a_round_with_a_budget_is_decided_again_as_it_was(tokens: int) -> None:
    world = await limited(tokens)
    expect_same(await replays.of_world(world, ID), "round.failed")
    assert world.accepted(ID)[-1].code == "token_budget"


async def test_where_a_model_wrote_no_final_message_the_rest_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poweron_services.roles.round_end.MESSAGE_TIMEOUT", 0.2)
    world = World([Counting()], script(message=[Unavailable("the model is too busy")]))
    async with world.process():
        id_ = await world.ask()
        await world.ended(id_)
    replayed = await replays.of_world(world, id_)
    expect_same(replayed, "round.completed")
    assert "too busy" in world.accepted(id_)[-1].message


async def test_an_action_that_is_denied_by_nobody_but_code_is_denied_again() -> None:
    world = World([Counting()])
    async with world.process(approval=Approval({"*"}, expires_ms=1)):
        id_ = await world.ask()
        await world.ended(id_)
    replayed = await replays.of_world(world, id_)
    outcomes = (event.outcome for event in world.accepted(id_) if type(event).__name__ == "ActionCompleted")
    assert next(outcomes) == "denied"
    expect_same(replayed, "approval.requested", "action.completed")


async def test_a_workflow_with_tools_of_a_server_is_decided_again_with_and_without_its_settings(tmp_path: Path) -> None:
    asked = "Which files in the folder mention the exhibition?"
    async with tools_of(named(tmp_path, {"files": node_server(FILESYSTEM, str(CLUB))}), tmp_path / "home") as tools:
        world = World([*await our_actions(), *tools.values()], model=BuiltinModel())
        async with world.process():
            await world.tell(ID, requested(prompt=asked, documents=()))
            await world.ended(ID)
    expect_same(await replays.of_world(world, ID), "action.selected")
    without = [each async for each in replay(ID, replays.rows_of(world, ID), world.content, OURS)]
    assert [each for each in without if each.verdict == "differs"] == []


async def test_what_was_erased_is_inconclusive_and_says_so() -> None:
    world = await RUNS["react"]()
    rows = replays.rows_of(world, ID)
    known = replays.known_to({"web.read": Counting("web.read").spec})
    replayed = [each async for each in replay(ID, rows, replays.KeptContent({}), known)]
    assert Counted.of(replayed).differs == 0
    asked = [each for each in replayed if each.type == "poweron.action.selected.v1"]
    assert {(each.decision, each.prompt) for each in asked} == {("inconclusive", "inconclusive")}
    assert {each.detail for each in asked} == {"The answer was erased, or never kept. The prompt was erased."}


async def test_a_row_that_was_changed_is_found() -> None:
    world = await RUNS["react"]()
    rows = replays.rows_of(world, ID)
    rows[5] = rows[5]._replace(value=rows[5].value.replace(b"a", b"b", 1))
    known = replays.known_to({"web.read": Counting("web.read").spec})
    *_, last = [each async for each in replay(ID, rows, world.content, known)]
    assert (last.seq, last.decision) == (5, "differs")
    assert "SHA-256" in last.detail


async def test_a_verdict_that_was_changed_is_found() -> None:
    world = await RUNS["react"]()
    rows = replays.rows_of(world, ID)
    rows[5] = rows[5]._replace(verdict="superseded")
    known = replays.known_to({"web.read": Counting("web.read").spec})
    (found,) = replays.others([each async for each in replay(ID, rows, world.content, known)])
    assert (found.seq, found.detail) == (5, "The rows call it superseded, and the rules accepted.")


async def test_an_answer_that_was_changed_in_the_store_is_found() -> None:
    world = await RUNS["react"]()
    planned = next(event for event in world.accepted(ID) if type(event).__name__ == "TasksPlanned")
    kept: dict[str, bytes] = {}
    for event in world.accepted(ID):
        for call in (getattr(event, "model_call", None), *getattr(event, "model_calls", ())):
            for ref in (call.prompt_ref, call.answer_ref) if call else ():
                kept[ref] = await world.content.get(ID, ref)
        for document in getattr(event, "documents", ()):
            kept[document.content] = await world.content.get(ID, document.content)
    kept[planned.model_call.answer_ref] = kept[planned.model_call.answer_ref].replace(b"Find the day", b"Find the sum")
    known = replays.known_to({"web.read": Counting("web.read").spec})
    rows = replays.rows_of(world, ID)
    (found,) = replays.others([each async for each in replay(ID, rows, replays.KeptContent(kept), known)])
    assert (found.seq, found.decision) == (1, "differs")
    assert found.detail == 'tasks[0].objective was "Find the day" and is "Find the sum".'


async def test_an_answer_that_is_not_what_the_event_commits_to_is_found() -> None:
    world = await RUNS["react"]()
    planned = next(event for event in world.accepted(ID) if type(event).__name__ == "TasksPlanned")
    path = f"{ID}/{planned.model_call.answer_ref}"
    await world.content._place.replace(path, await world.content.read_path(path) + b" ")
    (found,) = replays.others(await replays.of_world(world, ID))
    assert (found.seq, found.decision, found.prompt) == (1, "differs", "differs")
    assert found.detail == "The stored prompt or answer is not the one that the event commits to."


@pytest.mark.parametrize("provider", EVERY)
async def test_what_was_sent_to_a_provider_is_compared_in_the_body_of_its_request(
    provider: Provider, httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = [lines[0] for kind, lines in script().items() if kind not in (ActionsPrompt, ProcessPrompt)]
    playing = Playing(httpserver, provider, [saying(provider, each) for each in said])
    async with aclosing(opened(httpserver, provider)) as model:
        world = World([Counting()], model=model)
        async with world.process():
            id_ = await world.ask()
            await world.ended(id_)
    expect_same(await replays.of_world(world, id_), "round.completed")
    assert playing.broken == []
    monkeypatch.setattr(refiner, "TEMPLATE", Template(refiner.TEMPLATE.name, f"Hurry. {refiner.TEMPLATE.text}"))
    (found,) = replays.others(await replays.of_world(world, id_))
    assert (found.type, found.decision, found.prompt) == ("poweron.refinement.decided.v1", "same", "differs")


@dataclass
class CutOff(Honest):
    """Breaks its first answer to each stage off, and its final message."""

    seen: set[str] = field(default_factory=set)

    async def complete(self, prompt: Prompt) -> Completion:
        whole = await super().complete(prompt)
        if prompt.stage in self.seen or prompt.stage == "process":
            return whole
        self.seen.add(prompt.stage)
        why = Refused("The answer of test:mind was cut off after 3 tokens.", code="answer_cut_off")
        return replace(whole, text=whole.text[:9], refusal=why, finish_reason="length")


@pytest.mark.parametrize("mode", ["React", "Actionplan"])
async def test_answers_that_a_provider_calls_none_are_refused_again(mode: str) -> None:
    world = await recorded._world(CutOff(), workflow_mode=mode)
    async with world.process():
        await world.ended(ID)
    expect_same(await replays.of_world(world, ID), "answer.rejected", "round.completed")
    assert "cut off" in "".join(event.reason for event in world.accepted(ID) if hasattr(event, "reason"))


async def test_a_workflow_of_a_newer_release_is_refused_by_name() -> None:
    world = await RUNS["react"]()
    rows = replays.rows_of(world, ID)
    for change in ({"catalogue": 99, "type": "poweron.task.split.v1"}, {"laws": 99}):
        changed = _changed(rows[0 if "laws" in change else 1].value, change)
        place = 0 if "laws" in change else 1
        newer = [*rows]
        newer[place] = rows[place]._replace(value=changed, sha256=bytes.fromhex(codec.sha256(changed)))
        with pytest.raises(NewerRelease, match="newer release"):
            _ = [each async for each in replay(ID, newer, world.content, KnownActions(OURS.specs))]


def _changed(value: bytes, change: dict[str, Any]) -> bytes:
    attributes = orjson.loads(value)
    data = {name: new for name, new in change.items() if name == "laws"}
    attributes["data"] |= data
    attributes |= {name: new for name, new in change.items() if name != "laws"}
    return codec.dumps(attributes)


async def test_nothing_is_written_and_no_action_runs() -> None:
    world = await RUNS["react"]()
    (reading,) = [action for name, action in world.actions.items() if name == "web.read"]
    runs, ends = len(reading.runs), await world.log.ends("poweron.events")
    before = {page.path async for found in world.content.stored(ID) for page in found}
    await replays.of_world(world, ID)
    assert len(reading.runs) == runs
    assert await world.log.ends("poweron.events") == ends
    assert {page.path async for found in world.content.stored(ID) for page in found} == before
