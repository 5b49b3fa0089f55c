"""What tests of replays work with: runs of doubles, simulated worlds and recorded histories, as rows hold them.

replayed = await replays.of_world(world, ID)
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast

import orjson
from doubles import World

from poweron_events.catalog import ActionSpec
from poweron_events.codec import decode
from poweron_events.content import ContentStore
from poweron_events.errors import MissingContent
from poweron_events.fold.state import Verdict
from poweron_events.log import Record
from poweron_events.topics import PARTITIONS, partition_of
from poweron_projections.reader import StoredRecord
from poweron_services.replay.action_specs import OURS, KnownActions
from poweron_services.replay.decision_replay import Replayed
from poweron_services.replay.replay_processes import replay

HISTORIES = Path(__file__).parent / "histories"
RUNS = sorted(HISTORIES.glob("*/run_*.jsonl"))
FIRST_RUN = HISTORIES / "v0.1.0" / "contents" / "run_two_steps.json"
"""A round of two steps by the code of 0.1.0, which recorded no run with its histories."""


class KeptContent(ContentStore):
    """What is kept under each commitment, and nothing can be added; the workflow's key is gone."""

    def __init__(self, kept: Mapping[str, bytes]) -> None:
        self.kept = kept

    async def get(self, workflow_id: str, name: str) -> bytes:
        if name not in self.kept:
            raise MissingContent(f"Workflow {workflow_id} has no content {name!r}")
        return self.kept[name]

    async def size(self, workflow_id: str, name: str) -> int:
        return len(await self.get(workflow_id, name))

    async def read_path(self, path: str) -> bytes:
        raise MissingContent(path)


def rows(records: Iterable[Record], verdicts: Iterable[Verdict]) -> list[StoredRecord]:
    """The records as the rows hold them."""
    return [
        StoredRecord(
            seq,
            verdict,
            record.partition,
            record.offset,
            record.time_ms,
            hashlib.sha256(record.value or b"").digest(),
            record.value or b"",
        )
        for seq, (record, verdict) in enumerate(zip(records, verdicts, strict=True))
    ]


def rows_of(world: World, id_: str) -> list[StoredRecord]:
    """The rows of one workflow of a world."""
    key = id_.encode()
    written = world.log._topics["poweron.events"][world.log.partition_of("poweron.events", key)]
    records = [record for record in written if record.key == key]
    return rows(records, (verdict for _, verdict in world.records(id_)))


def known_to(specs: Mapping[str, ActionSpec]) -> KnownActions:
    """PowerOn's own actions and these."""
    return KnownActions({**OURS.specs, **specs})


async def of_world(world: World, id_: str) -> list[Replayed]:
    """Every decision of a workflow of a world, taken again."""
    known = known_to({name: action.spec for name, action in world.actions.items()})
    return [each async for each in replay(id_, rows_of(world, id_), world.content, known)]


def history(path: Path) -> tuple[str, Sequence[StoredRecord]]:
    """A recorded history: the workflow's id and its rows."""
    return judged([orjson.loads(line) for line in path.read_bytes().splitlines()[:-1]])


def judged(lines: Sequence[Mapping[str, str]]) -> tuple[str, Sequence[StoredRecord]]:
    """Records with their verdicts: the workflow's id and its rows."""
    values = [line["value"].encode() for line in lines]
    id_ = decode(values[0]).workflow_id
    home = partition_of(id_.encode(), PARTITIONS)
    records = [
        Record("poweron.events", home, offset, offset * 1_000, id_.encode(), value, {})
        for offset, value in enumerate(values)
    ]
    return id_, rows(records, (cast("Verdict", line["verdict"]) for line in lines))


def contents(path: Path) -> KeptContent:
    """What the contents of a recorded history were, where they were kept."""
    kept = path.parent / "contents" / f"{path.stem}.json"
    found = orjson.loads(kept.read_bytes()) if kept.is_file() else {}
    return KeptContent({name: text.encode() for name, text in found.items() if text is not None})


def others(replayed: Iterable[Replayed]) -> list[Replayed]:
    """Those that are not the same."""
    return [each for each in replayed if each.verdict != "same"]


def run(path: Path) -> tuple[str, Sequence[StoredRecord], KeptContent]:
    """One of the runs, which roles wrote: the workflow's id, its rows and its contents."""
    if path != FIRST_RUN:
        return *history(path), contents(path)
    found = orjson.loads(path.read_bytes())
    return *judged(found["values"]), KeptContent({name: text.encode() for name, text in found["contents"].items()})
