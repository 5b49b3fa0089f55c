"""A long log: a few workflows under many ids, with what they kept.

Each decision of `runs()` comes to the same when it is taken again (`tests/services/replay/test_replay.py`), so a replay of all
of it must find nothing else. What a run kept is there once: the folder of each workflow is a link to that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import orjson
from replays import HISTORIES

from builders import Told
from poweron_events import topics
from poweron_events.codec import decode
from poweron_events.envelope import Envelope
from poweron_events.log import Message
from poweron_events.request import workflow_id
from poweron_projections.connection import LIVE, acquire
from poweron_projections.rebuild import rebuild
from poweron_services.client.connect import Connections
from poweron_services.experiments.bench.loop_speed import AT_ONCE, BENCH_SOURCE, with_request

RELEASE = max(HISTORIES.glob("v*"))


class Repeated(NamedTuple):
    """A workflow that is repeated: its events, and what it kept by its commitments."""

    events: Sequence[Envelope]
    kept: Mapping[str, str]


def runs() -> list[Repeated]:
    """What the roles of this release did: in both modes, with refusals, retries, approvals and a second round."""
    return [_run(path) for path in sorted(RELEASE.glob("run_*.jsonl"))]


def _run(path: Path) -> Repeated:
    values = [orjson.loads(line)["value"].encode() for line in path.read_bytes().splitlines()[:-1]]
    kept = orjson.loads((path.parent / "contents" / path.with_suffix(".json").name).read_bytes())
    return Repeated([decode(value) for value in values], kept)


def stories(*told: Told) -> list[Repeated]:
    """What `builders` tell, which keeps nothing."""
    return [Repeated([decode(value) for value in each.values], {}) for each in told]


@dataclass
class RepeatedWorkflows:
    """Workflows that are each one of a few, in turn; what those kept lies in `folder`."""

    connections: Connections
    folder: Path
    repeated: Sequence[Repeated]
    ids: list[str] = field(default_factory=list)
    events: int = 0

    def __post_init__(self) -> None:
        for number, each in enumerate(self.repeated):
            (self.folder / str(number)).mkdir(parents=True)
            for name, text in each.kept.items():
                (self.folder / str(number) / name).write_text(text)
        self._content.mkdir(parents=True, exist_ok=True)

    @property
    def _content(self) -> Path:
        return Path(self.connections.settings.content_place)

    async def grow(self, events: int) -> None:
        """Write workflows until there are so many events, some workflows at a time, and make all rows of the log."""
        while self.events < events:
            told = [self._one_more() for _ in range(AT_ONCE)]
            longest = max(map(len, told))
            mixed = [messages[place] for place in range(longest) for messages in told if place < len(messages)]
            await self.connections.log.append(topics.EVENTS.name, mixed)
            self.events += len(mixed)
        await self._make_rows()

    async def _make_rows(self) -> None:
        async with acquire(self.connections.pool) as connection:
            await connection.execute(f"DROP SCHEMA IF EXISTS {LIVE} CASCADE")
        assert (await rebuild(self.connections.log, self.connections.pool)).events == self.events

    def _one_more(self) -> list[Message]:
        number = len(self.ids)
        which = number % len(self.repeated)
        self.ids.append(workflow_id(BENCH_SOURCE, str(number)))
        (self._content / self.ids[-1]).symlink_to(self.folder / str(which))
        return with_request(self.repeated[which].events, str(number))
