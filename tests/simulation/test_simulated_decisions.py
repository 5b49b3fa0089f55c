"""Decisions of simulated worlds: shown as the model saw them, and the same when they are taken again."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import replays
from simulation.minds import SPECS, Mind, Shelf
from simulation.world import World
from structlog.testing import capture_logs

from poweron_events import topics
from poweron_events.content import ContentStore
from poweron_events.errors import MissingContent
from poweron_events.log import Record
from poweron_projections.reader import StoredRecord
from poweron_services.models.chat_model import Completion
from poweron_services.models.prompts import Prompt, TaskPrompt
from poweron_services.replay.action_specs import KnownActions
from poweron_services.replay.decision_view import accepted, as_object, view
from poweron_services.replay.replay_processes import replay

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

WORLDS = 70


class ShelfContent(ContentStore):
    """What a world has left on its shelf, without its troubles."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf._kept

    async def get(self, workflow_id: str, name: str) -> bytes:
        return await self.read_path(f"{workflow_id}/{name}")

    async def size(self, workflow_id: str, name: str) -> int:
        return len(await self.get(workflow_id, name))

    async def read_path(self, path: str) -> bytes:
        if path not in self._shelf:
            raise MissingContent(path)
        return self._shelf[path]


class Lived(NamedTuple):
    """A workflow of a world that has ended, all prompts that models of the world were shown, by their text, and how
    many partitions its log has."""

    id: str
    rows: list[StoredRecord]
    content: ContentStore
    asked: dict[str, Prompt]
    partitions: int


@pytest.fixture(scope="module")
def lived() -> list[Lived]:
    asked: dict[str, Prompt] = {}
    complete = Mind.complete

    async def noted(mind: Mind, prompt: Prompt) -> Completion:
        asked[str(prompt.render())] = prompt
        return await complete(mind, prompt)

    found: list[Lived] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Mind, "complete", noted)
        patched.setattr(topics, "PARTITIONS", topics.PARTITIONS)  # a world sets it; the tests after these do not
        for seed in range(WORLDS):
            world, prompts = World(seed), dict[str, Prompt]()
            asked = prompts
            with capture_logs():
                world.run()
            content = ShelfContent(world.shelf)
            found += [Lived(id_, rows, content, prompts, topics.PARTITIONS) for id_, rows in _workflows(world)]
    return found


def _workflows(world: World) -> Iterator[tuple[str, list[StoredRecord]]]:
    of: dict[str, list[tuple[int, int]]] = {}
    for place, recorded in world.full.records.items():
        if recorded is not None:
            of.setdefault(recorded.envelope.workflow_id, []).append(place)
    for id_, places in of.items():
        records: list[Record] = [world.log.record(*place) for place in sorted(places)]
        yield id_, replays.rows(records, [world.full.verdicts[place] for place in sorted(places)])


def test_every_decision_of_simulated_worlds_is_taken_again_as_it_was(
    lived: list[Lived], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under crashes, late and doubled appends, cancellations, approvals, nonsense and outages."""
    types: Counter[str] = Counter()

    async def again(each: Lived) -> None:
        async for found in replay(each.id, each.rows, each.content, KnownActions(SPECS)):
            assert found.verdict == "same", found
            types[found.type] += 1

    for each in lived:
        monkeypatch.setattr(topics, "PARTITIONS", each.partitions)
        asyncio.run(again(each))
    assert types.total() > 1_000
    assert len(types) == 17


def test_what_is_shown_of_a_decision_is_what_the_model_saw_at_every_seq(
    lived: list[Lived], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: Counter[str] = Counter()

    async def look(each: Lived) -> None:
        for folded in accepted(each.id, each.rows) if any(row.verdict == "accepted" for row in each.rows) else ():
            shown = as_object(await view(each.id, each.rows, each.content, at=folded.seq))
            assert (shown["phase"], shown["seq"]) == (folded.after.phase, folded.seq)
            seen["shown"] += 1
            if shown["prompt"] is not None:
                _expect_seen(shown, each.asked[shown["prompt"]])
                seen["prompts"] += 1

    for each in lived:
        monkeypatch.setattr(topics, "PARTITIONS", each.partitions)
        asyncio.run(look(each))
    assert len(lived) >= 50
    assert seen["prompts"] > 400


def _expect_seen(shown: dict[str, Any], prompt: Prompt) -> None:
    """The model saw this history, these documents; and answered for this stage.

    A process that held only the open round counts its messages from there, and who thinks ahead does not know the
    broker's times yet: no prompt shows numbers or times.
    """
    assert prompt.stage == {"closing": "message"}.get(shown["phase"], shown["phase"])
    assert prompt.template.name == shown["template"]
    if isinstance(prompt, TaskPrompt):
        told = [
            message.model_dump(mode="json", by_alias=True, exclude={"seq", "time_ms"}) for message in prompt.history
        ]
        assert told == [{name: of[name] for name in of if name not in {"seq", "timeMs"}} for of in shown["history"]]
        assert [line.reference for line in prompt.documents] == [each["reference"] for each in shown["documents"]]
