"""Who watches a long step sees how far it is, over the real topic; and nobody needs that topic."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
from beside import beside
from commands import Shell
from terminal import WAITED, Terminal
from topic_admin import administering

from poweron_events import topics
from poweron_events.catalog import CATALOG, ActionSpec
from poweron_events.errors import Unavailable
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_events.request import RequestWorkflow
from poweron_events.step_events import ActionResult
from poweron_projections import reader
from poweron_projections.verify import verify
from poweron_services.actions.action import Done, Order, document
from poweron_services.actions.registry import only
from poweron_services.client.ask import ask
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Callbacks, Outcome
from poweron_services.models.chat_model import ChatModel
from poweron_services.roles import progress_sender
from poweron_services.standalone import local_identity
from poweron_services.wiring import ROLES, serve

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]


@dataclass
class SlowAnswer:
    """Answers a part of twelve every moment, the last one when its gate is opened."""

    gate: asyncio.Event = field(default_factory=asyncio.Event)
    spec: ActionSpec = CATALOG["ai.process"]

    async def __call__(self, order: Order) -> Done:
        part = 0
        while not self.gate.is_set():
            part = min(part + 1, 11)
            order.tell_progress("parts_answered", part, 12)
            with suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await self.gate.wait()
        return Done(ActionResult(success=True, documents=(document("a.md", "It is written.", "text/markdown"),)))


@asynccontextmanager
async def served(connections: Connections, model: ChatModel, action: SlowAnswer) -> AsyncGenerator[None, None]:
    async with beside(serve(connections, ROLES, model, only(action))):
        yield


async def asked(connections: Connections, workflow: "asyncio.Future[str]") -> Outcome:
    callbacks = Callbacks(requested=workflow.set_result)
    request = RequestWorkflow(prompt="Write it.")
    return await ask(connections, request, [], identity=local_identity(), callbacks=callbacks)


async def until_the_rows_hold(connections: Connections, workflow: str) -> str:
    async with asyncio.timeout(WAITED):
        while True:
            with suppress(Unavailable):  # the tables are not there yet
                if await reader.workflow(connections.pool, workflow):
                    return workflow
            await asyncio.sleep(0.05)


async def test_who_watches_sees_a_bar_while_the_step_lasts(
    connections: Connections, model: ChatModel, shell: Shell
) -> None:
    action, workflow = SlowAnswer(), asyncio.get_running_loop().create_future()
    async with served(connections, model, action):
        asking = asyncio.create_task(asked(connections, workflow))
        terminal = Terminal(shell, "watch", await until_the_rows_hold(connections, await workflow))
        async with terminal.running() as watching:
            await terminal.shows(r"task 1 step 1.*11 of 12 parts answered")
            action.gate.set()
            assert (await asking).status == "completed"
            assert await asyncio.wait_for(watching.wait(), WAITED) == 0
    assert "result" in terminal.shown.rpartition("parts answered")[2]


@pytest.mark.parametrize("lost", ["the topic", "its sender"])
async def test_without_the_topic_of_progress_the_work_is_done_and_the_rows_are_what_the_log_says(
    connections: Connections,
    model: ChatModel,
    kafka: KafkaSettings,
    monkeypatch: pytest.MonkeyPatch,
    lost: str,
) -> None:
    action, workflow = SlowAnswer(), asyncio.get_running_loop().create_future()
    monkeypatch.setattr(progress_sender, "SEND_PERIOD", 0.01)
    monkeypatch.setattr(progress_sender, "AFTER_FAILURE", 0.01)
    tried = asyncio.Event()

    async def broken(_: object) -> None:
        tried.set()
        raise RuntimeError("nobody knows why")

    if lost == "the topic":
        async with administering(kafka) as admin:
            await admin.client.delete_topics([kafka.physical(topics.PROGRESS.name)])
        tried.set()
    else:
        monkeypatch.setattr(connections.progress, "send", broken)
    async with served(connections, model, action):
        asking = asyncio.create_task(asked(connections, workflow))
        await tried.wait()
        action.gate.set()
        assert (await asyncio.wait_for(asking, WAITED)).status == "completed"
    assert (await verify(connections.log, connections.pool)).differences == []
