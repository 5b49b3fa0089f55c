"""However appends, followers, failures and returns interleave, each follower gets each record once and in order."""

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import stream_world
from stream_world import WORKFLOWS, RowsInMemory, frames
from structlog.testing import capture_logs

from poweron_events.log.memory import MemoryProgress
from poweron_events.task_cancellation import cancel_task
from poweron_services.door import record_feed, record_rows
from poweron_services.door.record_feed import RecordFeed
from poweron_services.door.stream_follower import StreamFollower
from poweron_services.door.stream_views import PlainView, Shown

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_feed, "PERIOD", 0.0005)


@asynccontextmanager
async def fed(rows: RowsInMemory) -> AsyncGenerator[RecordFeed, None]:
    feed = RecordFeed(rows, MemoryProgress())
    try:
        yield feed
    finally:
        await feed.close()


class Reader:
    """A client that is cut off by chance, and comes back with the last id that arrived."""

    def __init__(self, feed: RecordFeed, workflow_id: str | None, show: Shown, chance: random.Random) -> None:
        self.received = list[dict[str, Any]]()
        self._feed, self._workflow, self._chance = feed, workflow_id, chance
        self._view = PlainView(frozenset({show}))
        self._last: Any = None

    async def read(self, start: Any) -> None:
        self._last = start
        while not self.received or self.received[-1]["event"] != "end":
            reading = asyncio.create_task(self._connect())
            try:
                await asyncio.wait({reading}, timeout=self._chance.random() / 50)
            finally:
                await cancel_task(reading)
            if not reading.cancelled():
                reading.result()

    async def _connect(self) -> None:
        follower: StreamFollower[Any] = StreamFollower(self._view, self._last, self._last)
        if self._workflow is None:
            with self._feed.everything() as followed:
                await follower.run(followed, self._take)
        else:
            with self._feed.workflow(self._workflow, progress=False) as workflow:
                await follower.run(workflow, self._take)

    async def _take(self, data: bytes) -> None:
        if self._chance.random() < 0.3:
            await asyncio.sleep(self._chance.random() / 500)
        got = frames(data)
        if got and self._chance.random() < 0.3:  # the rest is lost on the way
            got = got[: self._chance.randrange(len(got))]
        for frame in got:
            self.received.append(frame)
            if "id" in frame:
                self._last = tuple(map(int, frame["id"].split("."))) if self._workflow is None else int(frame["id"])
        if "end" not in {frame["event"] for frame in frames(data)} and len(got) < len(frames(data)):
            raise asyncio.CancelledError

    def seqs(self, workflow_id: str) -> list[int]:
        events = [frame["data"] for frame in self.received if frame["event"] == "event"]
        return [event["seq"] for event in events if event["workflowId"] == workflow_id]


@pytest.mark.parametrize("seed", range(100))
async def test_each_follower_gets_each_record_once_and_in_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(record_feed, "KEPT", chance.choice([1, 3, 10, 400]))
    page = chance.choice([1, 2, 5, 200])
    for module in (record_rows, record_feed, stream_world):
        monkeypatch.setattr(module, "PAGE", page)
    rows = RowsInMemory(chance, chance.choice([1, 3, 12]), unavailable=chance.choice([0, 0.2]))
    for _ in range(chance.randrange(20)):
        rows.append(chance.choice([*WORKFLOWS, None]))
    async with fed(rows) as feed, asyncio.timeout(30):
        of_one = [Reader(feed, name, "event", chance) for name in WORKFLOWS for _ in range(3)]
        of_all = [Reader(feed, None, "event", chance) for _ in range(3)]
        reading = [asyncio.create_task(reader.read(-1)) for reader in of_one]
        begin = (0,) * rows.partitions
        endless = [asyncio.create_task(reader.read(begin)) for reader in of_all]
        for _ in range(30):
            await asyncio.sleep(chance.random() / 200)
            for _ in range(chance.randrange(4)):
                rows.append(chance.choice([*WORKFLOWS, None]))
        for name in WORKFLOWS:
            rows.append(name)
            rows.ended.add(name)
        await asyncio.gather(*reading)
        expected = {name: [*range(len(rows.workflows[name]))] for name in WORKFLOWS}
        while any(reader.seqs(name) != expected[name] for reader in of_all for name in WORKFLOWS):
            assert all(
                expected[name][: len(reader.seqs(name))] == reader.seqs(name) for reader in of_all for name in WORKFLOWS
            )
            await asyncio.sleep(0.001)
        for task in endless:
            task.cancel()
        await asyncio.wait(endless)
    for number, name in enumerate(WORKFLOWS):
        for reader in of_one[3 * number : 3 * number + 3]:
            assert reader.seqs(name) == expected[name]
    assert feed.followers == 0


async def test_a_follower_that_claims_to_be_ahead_holds_up_no_other() -> None:
    rows = RowsInMemory(random.Random(1))
    rows.append("one")
    async with fed(rows) as feed, asyncio.timeout(10):
        ahead, behind = (Reader(feed, "one", "event", random.Random(n)) for n in range(2))
        reading = [asyncio.create_task(ahead.read(1_000)), asyncio.create_task(behind.read(-1))]
        for _ in range(20):
            await asyncio.sleep(0.005)
            rows.append("one")
        rows.ended.add("one")
        await asyncio.gather(*reading)
    assert (ahead.seqs("one"), behind.seqs("one")) == ([], [*range(21)])


async def test_an_unexpected_error_is_logged_once_until_the_rows_can_be_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, has_read_all = RowsInMemory(random.Random(1)), asyncio.Event()
    errors = [None, *[ValueError("a row that nothing can read")] * 20, None, ValueError("another one"), None, None]

    async def record_counts(workflow_ids: Sequence[str]) -> dict[str, int]:
        error = errors.pop(0) if errors else None
        if not errors:
            has_read_all.set()
        if error is not None:
            raise error
        return {}

    monkeypatch.setattr(rows, "record_counts", record_counts)
    with capture_logs() as lines:
        async with fed(rows) as feed, asyncio.timeout(10):
            with feed.workflow("one", progress=False):
                await has_read_all.wait()
    assert [(line["event"], line["log_level"]) for line in lines] == [("http_error", "error")] * 2
