"""Worlds that have ended, for tests of what was decided in them: workflows, contents, and what models were shown."""

import gc
import logging
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import replays
import structlog
from simulation.minds import Mind
from simulation.runner import spawned
from simulation.world import World

from poweron_events import topics
from poweron_events.log import Record
from poweron_projections.reader import StoredRecord
from poweron_services.models.chat_model import Completion
from poweron_services.models.prompts import Prompt, TaskPrompt


class Shown(NamedTuple):
    """What a prompt showed; no task has a history yet while it is planned."""

    stage: str
    template: str
    history: list[dict[str, Any]] | None
    documents: list[str] | None


class Lived(NamedTuple):
    """A world that has ended: the rows of its workflows, what is on its shelf, all prompts that models of the world
    were shown, by their text, and how many partitions its log has."""

    workflows: Mapping[str, list[StoredRecord]]
    shelf: Mapping[str, bytes]
    asked: Mapping[str, Shown]
    partitions: int


def lived(worlds: int) -> list[Lived]:
    """The worlds of the first seeds, whose hashes do not depend on chance."""
    with spawned(_prepare) as pool:
        return pool.map(_live, range(worlds), chunksize=1)


_asked: dict[str, Shown] = {}


def _prepare() -> None:
    gc.disable()
    logging.disable()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    complete = Mind.complete

    async def noted(mind: Mind, prompt: Prompt) -> Completion:
        _asked[str(prompt.render())] = _shown(prompt)
        return await complete(mind, prompt)

    Mind.complete = noted  # type: ignore[method-assign]


def _shown(prompt: Prompt) -> Shown:
    """A process that held only the open round counts its messages from there, and who thinks ahead does not know the
    broker's times yet: no prompt shows numbers or times."""
    if not isinstance(prompt, TaskPrompt):
        return Shown(prompt.stage, prompt.template.name, None, None)
    told = [message.model_dump(mode="json", by_alias=True, exclude={"seq", "time_ms"}) for message in prompt.history]
    return Shown(prompt.stage, prompt.template.name, told, [line.reference for line in prompt.documents])


def _live(seed: int) -> Lived:
    _asked.clear()
    world = World(seed)
    world.run()
    found = Lived(dict(_workflows(world)), world.shelf._kept, dict(_asked), topics.PARTITIONS)
    gc.collect()
    return found


def _workflows(world: World) -> Iterator[tuple[str, list[StoredRecord]]]:
    of: dict[str, list[tuple[int, int]]] = {}
    for place, recorded in world.full.records.items():
        if recorded is not None:
            of.setdefault(recorded.envelope.workflow_id, []).append(place)
    for id_, places in of.items():
        records: list[Record] = [world.log.record(*place) for place in sorted(places)]
        yield id_, replays.rows(records, [world.full.verdicts[place] for place in sorted(places)])
