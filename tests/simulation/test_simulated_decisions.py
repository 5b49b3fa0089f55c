"""Decisions of simulated worlds: shown as the model saw them, and the same when they are taken again."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from simulation.lived import Lived, Shown, lived
from simulation.minds import SPECS

from poweron_events import topics
from poweron_events.content import ContentStore
from poweron_events.errors import MissingContent
from poweron_projections.reader import StoredRecord
from poweron_services.replay.action_specs import KnownActions
from poweron_services.replay.decision_view import accepted, as_object, view
from poweron_services.replay.replay_processes import replay

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

WORLDS = 70


class ShelfContent(ContentStore):
    """What a world has left on its shelf, without its troubles."""

    def __init__(self, kept: Mapping[str, bytes]) -> None:
        self._shelf = kept

    async def get(self, workflow_id: str, name: str) -> bytes:
        return await self.read_path(f"{workflow_id}/{name}")

    async def size(self, workflow_id: str, name: str) -> int:
        return len(await self.get(workflow_id, name))

    async def read_path(self, path: str) -> bytes:
        if path not in self._shelf:
            raise MissingContent(path)
        return self._shelf[path]


@pytest.fixture(scope="module")
def worlds() -> list[Lived]:
    return lived(WORLDS)


def each_workflow(
    worlds: list[Lived], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, list[StoredRecord], ContentStore, Mapping[str, Shown]]]:
    """The workflows of all worlds; while one is at hand, the log has as many partitions as that of its world."""
    for world in worlds:
        monkeypatch.setattr(topics, "PARTITIONS", world.partitions)
        for id_, rows in world.workflows.items():
            yield id_, rows, ShelfContent(world.shelf), world.asked


def test_every_decision_of_simulated_worlds_is_taken_again_as_it_was(
    worlds: list[Lived], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under crashes, late and doubled appends, cancellations, approvals, nonsense and outages."""
    types: Counter[str] = Counter()

    async def again(id_: str, rows: list[StoredRecord], content: ContentStore) -> None:
        async for found in replay(id_, rows, content, KnownActions(SPECS)):
            assert found.verdict == "same", found
            types[found.type] += 1

    for id_, rows, content, _ in each_workflow(worlds, monkeypatch):
        asyncio.run(again(id_, rows, content))
    assert types.total() > 1_000
    assert len(types) == 17


def test_what_is_shown_of_a_decision_is_what_the_model_saw_at_every_seq(
    worlds: list[Lived], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: Counter[str] = Counter()

    async def look(id_: str, rows: list[StoredRecord], content: ContentStore, asked: Mapping[str, Shown]) -> None:
        seen["workflows"] += 1
        for folded in accepted(id_, rows) if any(row.verdict == "accepted" for row in rows) else ():
            shown = as_object(await view(id_, rows, content, at=folded.seq))
            assert (shown["phase"], shown["seq"]) == (folded.after.phase, folded.seq)
            seen["shown"] += 1
            if shown["prompt"] is not None:
                _expect_seen(shown, asked[shown["prompt"]])
                seen["prompts"] += 1

    for workflow in each_workflow(worlds, monkeypatch):
        asyncio.run(look(*workflow))
    assert seen["workflows"] >= 50
    assert seen["prompts"] > 400


def _expect_seen(shown: dict[str, Any], asked: Shown) -> None:
    """The model saw this history, these documents; and answered for this stage."""
    assert asked.stage == {"closing": "message"}.get(shown["phase"], shown["phase"])
    assert asked.template == shown["template"]
    if asked.history is not None:
        assert asked.history == [
            {name: of[name] for name in of if name not in {"seq", "timeMs"}} for of in shown["history"]
        ]
        assert asked.documents == [each["reference"] for each in shown["documents"]]
