"""The load: errands asked for in a steady stream, some of them twice, again later, out of order, or called off.

What an errand's requests are is a function of the seed and its number. A request counts as asked from its first
append on; an append of which nobody knows is repeated until somebody does.
"""

import asyncio
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final

from poweron_events import topics
from poweron_events.codec import encode_request
from poweron_events.envelope import rfc3339
from poweron_events.log import EventLog, Message
from poweron_events.request import RequestCancellation, RequestRound, RequestWorkflow, workflow_id
from poweron_events.stream import Request
from poweron_services.retry import answered
from poweron_services.sandbox.polling import stopped

RATE: Final = 3.0  # errands a second
MAX_OPEN: Final = 60  # workflows; beyond that nothing new is asked for
MAX_STEPS: Final = 4

TWICE, LATE, AGAIN, FOLLOWED, CANCELLED = 0.15, 0.1, 0.1, 0.15, 0.1  # shares of all errands


@dataclass(frozen=True, slots=True)
class Letter:
    """A request and when it is posted, in seconds after its errand's turn: each time is one more copy."""

    request_id: str
    workflow_id: str
    request: Request
    times: tuple[float, ...]


def source(seed: int) -> str:
    """Who asks."""
    return f"/poweron/chaos/{seed}"


def letters(seed: int, number: int) -> tuple[Letter, ...]:
    """The requests of one errand."""
    rng = random.Random(f"errand {seed} {number}")
    request_id = f"errand-{number}"
    workflow = workflow_id(source(seed), request_id)
    opening = RequestWorkflow(prompt=f"Run errand {number}.", max_steps=rng.randint(1, MAX_STEPS))
    written = [Letter(request_id, workflow, opening, _times(rng, rng.uniform(0.5, 3) if rng.random() < LATE else 0))]
    if rng.random() < FOLLOWED:
        follow_up = RequestRound(
            workflow_id=workflow, after_round=1, prompt=f"Follow up on {number}.", max_steps=rng.randint(1, MAX_STEPS)
        )
        written.append(Letter(f"follow-up-{number}", workflow, follow_up, _times(rng, rng.uniform(2, 8))))
    if rng.random() < CANCELLED:
        cancellation = RequestCancellation(workflow_id=workflow, round=1, reason="It is not needed any more.")
        written.append(Letter(f"cancel-{number}", workflow, cancellation, _times(rng, rng.uniform(0, 2))))
    return tuple(written)


def _times(rng: random.Random, first: float) -> tuple[float, ...]:
    twice = (first,) if rng.random() < TWICE else ()
    again = (first + rng.uniform(2, 15),) if rng.random() < AGAIN else ()
    return (first, *twice, *again)


class Load:
    """Posts letters until told to stop; `asked` are those that may be in the log."""

    def __init__(self, log: EventLog, seed: int, stopping: asyncio.Event) -> None:
        self._log = log
        self._seed = seed
        self._stopping = stopping
        self.asked: dict[str, Letter] = {}
        self.posted = 0
        self._number = 0

    async def run(self, running: Callable[[], int]) -> None:
        """Go on until told to stop, and then until every append that was begun is confirmed."""
        async with asyncio.TaskGroup() as group:
            while not await stopped(self._stopping, 1 / RATE):
                if running() < MAX_OPEN:
                    for letter in self._next():
                        for after in letter.times:
                            group.create_task(self._post_later(letter, after))

    async def ask_everywhere(self) -> None:
        """Ask for an errand more in each partition, once."""
        await asyncio.gather(*map(self._post, self._next_everywhere()))

    def _next_everywhere(self) -> Collection[Letter]:
        """An opening for each partition; the numbers whose workflows would double one are passed over."""
        chosen: dict[int, Letter] = {}
        while len(chosen) < topics.PARTITIONS:
            opening = self._next()[0]
            chosen.setdefault(topics.partition_of(opening.workflow_id.encode(), topics.PARTITIONS), opening)
        return chosen.values()

    def _next(self) -> tuple[Letter, ...]:
        self._number += 1
        return letters(self._seed, self._number)

    async def _post_later(self, letter: Letter, after: float) -> None:
        if not await stopped(self._stopping, after):
            await self._post(letter)

    async def _post(self, letter: Letter) -> None:
        self.asked[letter.request_id] = letter
        time = rfc3339(datetime.now(UTC))
        value = encode_request(letter.request, source=source(self._seed), request_id=letter.request_id, time=time)
        message = Message(letter.workflow_id.encode(), value)
        await answered(partial(self._log.append, topics.REQUESTS.name, [message]), "a request is appended again")
        self.posted += 1
