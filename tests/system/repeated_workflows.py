"""A long log: the recorded runs of this release under many ids, with what they kept.

Each of their decisions comes to the same when it is taken again (`tests/services/test_replay.py`), so a replay of all
of it must find nothing else. What a run kept is there once: the folder of each workflow is a link to that.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import orjson
from replays import HISTORIES

from poweron_events import topics
from poweron_events.codec import decode
from poweron_events.envelope import Envelope
from poweron_events.request import workflow_id
from poweron_projections.rebuild import rebuild
from poweron_services.bench.loop_speed import BENCH_SOURCE
from poweron_services.bench.rebuild_speed import AT_ONCE, with_request
from poweron_services.client.connect import Connections

RELEASE = max(HISTORIES.glob("v*"))


class Run(NamedTuple):
    """The events of one run, and the folder of what it kept."""

    events: Sequence[Envelope]
    kept: Path


@dataclass
class RepeatedWorkflows:
    """Workflows that all are one of a few runs, in turn; `folder` is where the contents of the runs lie."""

    connections: Connections
    folder: Path
    ids: list[str] = field(default_factory=list)
    events: int = 0

    async def grow(self, events: int) -> None:
        """Write workflows until there are so many events, some workflows at a time, and make their rows."""
        runs = self._runs()
        while self.events < events:
            chosen = [runs[(len(self.ids) + place) % len(runs)] for place in range(AT_ONCE)]
            told = [with_request(run.events, self._added(run)) for run in chosen]
            mixed = [messages[place] for place in range(max(map(len, told))) for messages in told if place < len(messages)]
            await self.connections.log.append(topics.EVENTS.name, mixed)
            self.events += len(mixed)
        await rebuild(self.connections.log, self.connections.pool)

    def _added(self, run: Run) -> str:
        """The request's id of one more workflow, which has the contents of this run."""
        request_id = str(len(self.ids))
        self.ids.append(workflow_id(BENCH_SOURCE, request_id))
        Path(self.connections.settings.content_place, self.ids[-1]).symlink_to(run.kept)
        return request_id

    def _runs(self) -> Sequence[Run]:
        Path(self.connections.settings.content_place).mkdir(parents=True, exist_ok=True)
        return [*self._read()]

    def _read(self) -> Iterator[Run]:
        for path in sorted(RELEASE.glob("run_*.jsonl")):
            values = [orjson.loads(line)["value"].encode() for line in path.read_bytes().splitlines()[:-1]]
            kept = self.folder / path.stem
            kept.mkdir(parents=True, exist_ok=True)
            for name, text in orjson.loads((path.parent / "contents" / f"{path.stem}.json").read_bytes()).items():
                if text is not None:  # it was erased
                    (kept / name).write_text(text)
            yield Run([decode(value) for value in values], kept)
