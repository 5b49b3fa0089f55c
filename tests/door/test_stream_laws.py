"""However appends, followers, failures and returns interleave, each follower gets each record once and in order."""

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

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

    def __init__(self, feed: RecordFeed, workflow_id: str | None, chance: random.Random, *show: Shown) -> None:
        self.received = list[dict[str, Any]]()
        self._feed, self._workflow, self._chance = feed, workflow_id, chance
        self.show = show or ("event",)
        self._view = PlainView(frozenset(self.show))
        self._last: Any = None

    async def read(self, start: Any) -> None:
        self._last, tries = start, 1
        while not self.received or self.received[-1]["event"] != "end":
            reading, before = asyncio.create_task(self._connect()), self._last
            try:
                await asyncio.wait({reading}, timeout=tries * self._chance.random() / 50)
            finally:
                await cancel_task(reading)
            tries = tries + 1 if self._last == before else 1  # the next record that it shows may be pages away
            if not reading.cancelled():
                reading.result()

    async def _connect(self) -> None:
        follower: StreamFollower[Any] = StreamFollower(self._view, self._last, self._last)
        if self._workflow is None:
            with self._feed.everything(progress=False) as followed:
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

    def seqs(self, workflow_id: str, kind: str = "event") -> list[int]:
        entries = [frame["data"] for frame in self.received if frame["event"] == kind]
        return [entry["seq"] for entry in entries if entry["workflowId"] == workflow_id]


KINDS: Final = ("event", "message", "state")
SHOWS: Final[Sequence[Sequence[Shown]]] = (("event",), ("message",), ("state",), KINDS)


def _has_all(reader: Reader, workflow_id: str, records: int) -> bool:
    last = {"event": records - 1, "message": (records - 1) // 3 * 3, "state": records}
    return all(reader.seqs(workflow_id, kind)[-1:] == [last[kind]] for kind in reader.show)


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
        of_one = [Reader(feed, name, chance) for name in WORKFLOWS for _ in range(3)]
        of_all = [Reader(feed, None, chance, *show) for show in SHOWS]
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
        while not all(_has_all(reader, name, len(expected[name])) for reader in of_all for name in WORKFLOWS):  # noqa: ASYNC110 - readers tell nothing
            await asyncio.sleep(0.001)
        for task in endless:
            task.cancel()
        await asyncio.wait(endless)
    for number, name in enumerate(WORKFLOWS):
        for reader in of_one[3 * number : 3 * number + 3]:
            assert reader.seqs(name) == expected[name]
    for name in WORKFLOWS:
        events, messages, states, everything = ([reader.seqs(name, kind) for kind in KINDS] for reader in of_all)
        added = [seq for seq in expected[name] if seq % 3 == 0]
        assert [events[0], messages[1]] == [expected[name], added]
        assert states[2] == sorted({*states[2]})
        assert [everything[0], sorted({*everything[1]})] == [expected[name], added]
        assert everything[1:] == [*map(sorted, everything[1:])]  # repeated only if cut off before the event
    assert feed.followers == 0


async def test_a_thousand_followers_of_all_workflows_are_sent_the_same_bytes_which_are_encoded_once() -> None:
    rows, sent = RowsInMemory(random.Random(1)), [list[bytes]() for _ in range(1_000)]
    begin = await rows.positions()

    async def follow(received: list[bytes]) -> None:
        async def take(data: bytes) -> None:
            received.append(data)

        with feed.everything(progress=True) as followed:
            await StreamFollower(PlainView(frozenset(KINDS)), begin, begin).run(followed, take)

    async with fed(rows) as feed, asyncio.timeout(30):
        following = [asyncio.create_task(follow(received)) for received in sent]
        for number in range(3):
            for name in WORKFLOWS:
                rows.append(name)
            while min(map(len, sent)) <= number:  # noqa: ASYNC110 - followers tell nothing
                await asyncio.sleep(0.001)
        for task in following:
            task.cancel()
        await asyncio.wait(following)
    assert {tuple(map(id, received)) for received in sent} == {tuple(map(id, sent[0]))}
    shown = frames(b"".join(sent[0]))
    assert {kind: sum(frame["event"] == kind for frame in shown) for kind in KINDS} == {
        "event": 9,
        "message": 3,
        "state": 9,
    }


async def test_a_follower_that_claims_to_be_ahead_holds_up_no_other() -> None:
    rows = RowsInMemory(random.Random(1))
    rows.append("one")
    async with fed(rows) as feed, asyncio.timeout(10):
        ahead, behind = (Reader(feed, "one", random.Random(n)) for n in range(2))
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
