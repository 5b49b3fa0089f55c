"""A queue of requests alone: what is tried again, and what is given up so that the requests behind it are committed."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from beside import beside

from poweron_events import RequestWorkflow, encode_request, topics
from poweron_events.errors import Conflict, Refused, Unavailable
from poweron_events.log import Message, Polled, Record
from poweron_events.log.memory import MemoryLog
from poweron_services.intake.request_queue import TRIES, HeldRequest, HeldRequests, PendingOffsets, RequestQueue

TIME = "2026-11-22T00:00:00.000Z"


class Requests:
    """One request of a log in memory: how often it was handled, and what became of it."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.handled = 0
        self.reasons: list[str] = []
        self.settled = asyncio.Event()

    def raising(self, error: Exception, times: int) -> Callable[[HeldRequest, bool], Awaitable[None]]:
        async def handle(_: HeldRequest, __: bool) -> None:
            self.handled += 1
            if self.handled <= times:
                raise error
            self.settled.set()

        return handle

    async def give_up(self, _: Record, reason: str) -> None:
        self.reasons.append(reason)
        self.settled.set()

    @asynccontextmanager
    async def run(self, handle: Callable[[HeldRequest, bool], Awaitable[None]]) -> AsyncGenerator[None, None]:
        await self.log.append(topics.REQUESTS.name, [Message(b"k", b"a request")])
        async with beside(RequestQueue(self.log, "queue", lambda _: True, handle, self.give_up).run()):
            yield


@pytest.mark.req("E-14")
@pytest.mark.parametrize(
    ("error", "tries", "reason"),
    [
        (KeyError("a bug"), TRIES, "intake met an unexpected error 5 times: KeyError('a bug')"),
        (Refused("not that"), 1, "not that"),
    ],
)
@pytest.mark.usefixtures("logged")
async def test_what_will_fail_again_is_given_up(error: Exception, tries: int, reason: str) -> None:
    requests = Requests()
    async with requests.run(requests.raising(error, times=99)), asyncio.timeout(10):
        await requests.settled.wait()
    assert requests.handled == tries
    assert requests.reasons == [reason]


@pytest.mark.req("E-15")
@pytest.mark.parametrize("error", [Unavailable("away"), Conflict("somebody was first")])
@pytest.mark.usefixtures("logged")
async def test_what_may_pass_is_tried_until_it_has_passed(error: Exception) -> None:
    requests = Requests()
    async with requests.run(requests.raising(error, times=TRIES + 1)), asyncio.timeout(10):
        await requests.settled.wait()
    assert requests.handled == TRIES + 2
    assert requests.reasons == []


@pytest.mark.req("E-15")
@pytest.mark.usefixtures("logged")
async def test_only_what_came_after_the_assignment_and_was_not_tried_before_is_new() -> None:
    requests, told = Requests(), list[tuple[bytes | None, bool]]()

    async def handle(held: HeldRequest, is_new: bool) -> None:
        told.append((held.record.value, is_new))
        if told[-1] == (b"later", True):
            raise Unavailable("away")
        if told[-1] == (b"a request", False):
            await requests.log.append(topics.REQUESTS.name, [Message(b"k", b"later")])
        if told[-1] == (b"later", False):
            requests.settled.set()

    async with requests.run(handle), asyncio.timeout(10):
        await requests.settled.wait()
    assert told == [(b"a request", False), (b"later", True), (b"later", False)]


async def test_a_request_that_comes_again_while_it_is_held_takes_no_more_room() -> None:
    """Its first place keeps the commit back, so its repetitions need none."""
    held, partition = HeldRequests(lambda _: 1), PendingOffsets(0)
    value = encode_request(
        RequestWorkflow(prompt="Write it."), source="/tests", request_id="1", time="2026-11-22T00:00:00.000Z"
    )
    for offset in range(5):
        held.add(Record("requests", 0, offset, 0, b"k", value, {}), partition)
    assert (held._places, partition.offsets, partition.next) == (1, {0}, 5)
    (only,) = [held.next()]
    assert only is not None
    held.done(only)
    assert (held.empty, partition.done, held.next()) == (True, 5, None)


@pytest.mark.req("E-15")
async def test_a_request_that_waits_is_handled_again_if_its_partition_is_lost_and_regained() -> None:
    """Given a request that stepped aside, when its partition goes and comes back, then it is not committed unanswered."""
    log, handled, answered = MemoryLog(), list[HeldRequest](), asyncio.Event()

    async def handle(held: HeldRequest, _: bool) -> None:
        handled.append(held)
        held.step_aside()
        await answered.wait()

    async def give_up(_: Record, reason: str) -> None:
        raise AssertionError(reason)

    value = encode_request(RequestWorkflow(prompt="Write it."), source="/tests", request_id="1", time=TIME)
    record = Record(topics.REQUESTS.name, 0, 0, 0, b"k", value, {})
    queue = RequestQueue(log, "queue", lambda _: True, handle, give_up)
    async with log.follow(topics.REQUESTS.name, "queue") as follower:
        for revoked in (frozenset[int](), frozenset({0})):
            queue._take_in(follower, Polled(revoked, frozenset({0}), ()))
            queue._partitions[0], queue._unbegun = PendingOffsets(0), frozenset()
            queue._take_in(follower, Polled(frozenset(), frozenset(), (record,)))
            await asyncio.sleep(0)
        assert (len(handled), queue._in_hand, queue._partitions[0].done) == (2, 1, 0)
        answered.set()
        await asyncio.sleep(0.01)
        assert (queue._in_hand, queue._partitions[0].done) == (0, 1)
