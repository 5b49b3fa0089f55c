"""Workflows that a story asks for and follows in the log, whatever it does to the processes at each turn."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from surviving import until

from poweron_events import RequestWorkflow, encode_request, topics, workflow_id
from poweron_events.codec import read_record
from poweron_events.envelope import Recorded
from poweron_events.fold.evolve import evolve
from poweron_events.fold.state import Verdict, Workflow
from poweron_events.log import EventLog, Message
from poweron_events.round_events import RoundCompleted
from poweron_events.stream import WorkflowEvent
from poweron_projections import reader
from poweron_projections.verify import verify
from poweron_services.client.connect import Connections

SOURCE = "/tests/followed"
DEADLINE = 180.0  # seconds

Killing = Callable[[Workflow], None]
"""What to do to the processes when the workflow has come to a new turn."""


async def send_request(connections: Connections, request: RequestWorkflow) -> str:
    """Ask for a workflow in the log, whoever serves; its id."""
    identity = secrets.token_hex(8)
    value = encode_request(request, source=SOURCE, request_id=identity, time="2026-11-21T00:00:00.000Z")
    await connections.log.append(topics.REQUESTS.name, [Message(identity.encode(), value)])
    return workflow_id(SOURCE, identity)


async def records_of(log: EventLog, workflow_id: str) -> AsyncGenerator[Recorded, None]:
    """The records of this workflow, without end; other workflows may share its partition."""
    key = workflow_id.encode()
    partition = log.partition_of(topics.EVENTS.name, key)
    async with aclosing(log.tail(topics.EVENTS.name, {partition: 0})) as tail:
        async for records in tail:
            for record in records:
                if record.key == key:
                    yield read_record(record)


class Followed:
    """A workflow as the log tells it, while a task runs `follow`."""

    def __init__(self, log: EventLog, workflow_id: str) -> None:
        self._log = log
        self.workflow = Workflow(workflow_id)
        self.accepted: list[Any] = []

    async def follow(self) -> None:
        async for recorded in records_of(self._log, self.workflow.id):
            self.workflow, verdict = evolve(self.workflow, recorded)
            if verdict == "accepted":
                self.accepted.append(recorded.envelope.event)

    def of(self, name: str) -> list[Any]:
        return [event for event in self.accepted if type(event).__name__ == name]

    async def started(self, action: str) -> None:
        await until(lambda: action in [event.action for event in self.of("ActionStarted")], f"{action} is started")

    async def ended(self) -> None:
        await until(lambda: self.workflow.phase == "ended", "the round ends")


async def followed(
    connections: Connections, workflow_id: str, at_turn: Killing
) -> list[tuple[Verdict, WorkflowEvent | None]]:
    """All records of the workflow to the end of its round; `at_turn` is called once for every turn that they show."""
    workflow, seen, turns = Workflow(workflow_id), [], set()
    async with asyncio.timeout(DEADLINE), aclosing(records_of(connections.log, workflow_id)) as found:
        async for recorded in found:
            workflow, verdict = evolve(workflow, recorded)
            seen.append((verdict, recorded.envelope.event))
            if workflow.is_open and (workflow.place, workflow.phase) not in turns:
                turns.add((workflow.place, workflow.phase))
                at_turn(workflow)
            if workflow.phase == "ended":
                return seen
    raise AssertionError("the log has an end")


async def completed_once(
    connections: Connections, workflow_id: str, seen: list[tuple[Verdict, WorkflowEvent | None]]
) -> str:
    """The message of its only round, which completed once; the rows are what the log says."""
    ended = [event for verdict, event in seen if verdict == "accepted" and isinstance(event, RoundCompleted)]
    assert len(ended) == 1
    verified = await verify(connections.log, connections.pool)
    assert verified.differences == []
    row = await reader.workflow(connections.pool, workflow_id)
    assert row is not None
    assert row.status == "completed"
    return ended[0].message
