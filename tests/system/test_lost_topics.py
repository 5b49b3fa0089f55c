"""Topics are deleted while a service works on them: what was lost is told, and nothing is appended over it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from beside import beside
from commands import Shell
from processes import ONE_STEP, script, serving
from structlog.testing import capture_logs
from topic_admin import TopicAdmin, administering

from poweron_events import RequestWorkflow, encode_request, topics, workflow_id
from poweron_events.errors import Unavailable
from poweron_events.log import Message, kafka_follower
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_projections import log_guard, reader
from poweron_projections.verify import verify
from poweron_services import wiring
from poweron_services.client.connect import Connections
from poweron_services.runtime import worker

pytestmark = [pytest.mark.system]

SOURCE = "/tests/lost"
DEADLINE = 30.0  # seconds
TOLD_WITHIN = 15.0  # seconds
LOOKS = 8  # times that the service looks again before nothing counts as nothing

Lines = list[Any]


@pytest.fixture
async def admin(kafka: KafkaSettings) -> AsyncGenerator[TopicAdmin, None]:
    async with administering(kafka) as admin:
        yield admin


@pytest.fixture
def look_period() -> float:
    """Seconds between two looks of the service at the log: few, so that no test has to wait for it."""
    return 0.2


@pytest.fixture
def lines(look_period: float, monkeypatch: pytest.MonkeyPatch) -> Generator[Lines, None, None]:
    """What the service logs."""
    monkeypatch.setattr(wiring, "CHECK_PERIOD", look_period)
    monkeypatch.setattr(worker, "DRAIN_TIMEOUT", 0.1)
    monkeypatch.setattr(kafka_follower, "WATCHDOG_PERIOD", 1.0)
    monkeypatch.setattr(kafka_follower, "METADATA_AGE_MS", 500)
    monkeypatch.setattr(kafka_follower, "SHORTER_TIMEOUT", 0.0)
    with capture_logs() as lines:
        yield lines


@pytest.fixture
async def service(connections: Connections, model: Any, lines: Lines) -> AsyncGenerator[Connections, None]:
    """All roles, as `poweron serve` keeps playing them."""
    async with beside(wiring.keep_serving(connections, wiring.ROLES, model)):
        yield connections


async def until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    try:
        async with asyncio.timeout(DEADLINE):
            while not await holds():  # noqa: ASYNC110 - Postgres and log lines tell nobody
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"in vain: {what}") from None


async def logged(lines: Lines, event: str, times: int = 1) -> None:
    async def holds() -> bool:
        return sum(line["event"] == event for line in lines) >= times

    await until(holds, event)


async def looked_again(lines: Lines) -> None:
    """The service has looked `LOOKS` times more: it says so at the 1st time, the 2nd, the 4th and so on."""
    await logged(lines, "log_lost", LOOKS.bit_length() + 1)


async def request(service: Connections, request_id: str) -> str:
    """As another system sends it, which knows nothing of what is lost."""
    value = encode_request(
        RequestWorkflow(prompt="Write it."), source=SOURCE, request_id=request_id, time="2026-11-23T00:00:00.000Z"
    )
    await service.log.unguarded.append(topics.REQUESTS.name, [Message(request_id.encode(), value)])
    return workflow_id(SOURCE, request_id)


async def completed(service: Connections, *workflows: str) -> None:
    async def holds() -> bool:
        with suppress(Unavailable):  # the tables are not there yet
            found = [await reader.workflow(service.pool, each) for each in workflows]
            return all(each is not None and each.status == "completed" for each in found)
        return False

    await until(holds, "completed")


async def answered(service: Connections, request_ids: list[str]) -> None:
    """Requests that are sent again until they are answered, as decision 19 has it for those into a new topic."""
    async with beside(_send_again_and_again(service, request_ids)):
        await completed(service, *[workflow_id(SOURCE, each) for each in request_ids])


async def _send_again_and_again(service: Connections, request_ids: list[str]) -> None:
    while True:
        with suppress(Unavailable):
            for each in request_ids:
                await request(service, each)
        await asyncio.sleep(1)


async def at_work(service: Connections, model: Any, request_id: str) -> str:
    """A workflow whose model thinks until its gate is opened."""
    model.gate.clear()
    asked = await request(service, request_id)

    async def holds() -> bool:
        return model.waiting > 0

    await until(holds, "a model thinks")
    return asked


@pytest.mark.req("E-02")
async def test_after_the_events_were_deleted_nothing_is_appended_until_somebody_recovers(
    service: Connections, model: Any, lines: Lines, admin: TopicAdmin, shell: Shell
) -> None:
    done = await request(service, "done")
    await completed(service, done)
    open_ = await at_work(service, model, "open")

    await admin.delete(topics.EVENTS)
    await logged(lines, "log_lost")
    assert await admin.names() == {topic.name for topic in topics.ALL if topic != topics.EVENTS}
    await admin.make(topics.EVENTS)
    model.gate.set()
    waiting = await request(service, "waiting")
    await looked_again(lines)
    status = await shell("status", "--json")
    assert (status.code, status.lines[0]["log"]) == (1, "lost")
    for own_service in ((), ("--no-serve",)):
        asked = await shell("ask", "Write it.", "--json", *own_service)
        assert (asked.code, asked.lines[-1]["code"]) == (1, "log_lost")
        assert "`poweron recover`" in asked.err
    assert {each["workflowId"] for each in (await shell("workflows", "--json")).lines} == {done, open_}
    assert (await shell("rebuild")).code == 1
    told = await shell("recover")
    assert (told.code, done in told.out, open_ in told.out) == (1, True, True)
    assert await admin.records(topics.EVENTS) == []

    recovered = await shell("recover", "--yes", "--json")
    assert (recovered.code, recovered.lines[0]["recovered"]) == (0, True)
    await completed(service, waiting)
    assert (await shell("status")).code == 0
    assert [each.workflow_id for each in await reader.workflows(service.pool)] == [waiting]
    assert (await verify(service.log, service.pool)).differences == []


@pytest.mark.req("E-02")
async def test_once_the_events_are_restored_everything_goes_on_by_itself(
    service: Connections, model: Any, lines: Lines, admin: TopicAdmin
) -> None:
    open_ = await at_work(service, model, "open")
    copy = await admin.records(topics.EVENTS)
    await admin.delete(topics.EVENTS)
    await logged(lines, "log_lost")
    waiting = await request(service, "waiting")
    model.gate.set()

    await admin.restore(topics.EVENTS, copy)

    await completed(service, open_, waiting)


@pytest.mark.req("E-02")
@pytest.mark.parametrize("look_period", [3_600.0])
async def test_into_a_topic_that_was_made_again_at_once_nothing_is_appended_before_anybody_looked(
    service: Connections, model: Any, lines: Lines, admin: TopicAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    await at_work(service, model, "open")
    monkeypatch.setattr(log_guard, "SEEN_WITHIN", 0.0)

    await admin.delete(topics.EVENTS)
    await admin.make(topics.EVENTS)
    model.gate.set()
    await request(service, "new")

    await logged(lines, "append_retried", 2)
    await logged(lines, "request_waits", 2)
    assert await admin.records(topics.EVENTS) == []


@pytest.mark.req("E-15")
@pytest.mark.parametrize("made_again", ["at once", "by the service"])
async def test_after_the_requests_were_deleted_new_ones_are_answered(
    service: Connections, lines: Lines, admin: TopicAdmin, made_again: str
) -> None:
    before = [await request(service, f"before-{number}") for number in range(3)]
    await completed(service, *before)

    await admin.delete(topics.REQUESTS)
    if made_again == "at once":
        await admin.make(topics.REQUESTS)

    async def there() -> bool:
        return topics.REQUESTS.name in await admin.names()

    async with asyncio.timeout(4 * TOLD_WITHIN):  # on a machine that has much else to do; a soak test is strict
        await until(there, "the topic is there again")
        await answered(service, [f"after-{number}" for number in range(6)])


@pytest.mark.soak
@pytest.mark.req("E-02")
async def test_services_tell_within_15_s_that_a_topic_was_deleted(
    connections: Connections, environment: dict[str, str], admin: TopicAdmin, tmp_path: Path
) -> None:
    roles = ("intake", "projector", "planner,selector,parameterizer,executor,observer,refiner,reviewer")
    with serving({**environment, "POWERON_MODEL": script(tmp_path, ONE_STEP)}, tmp_path, roles) as processes:
        await completed(connections, await request(connections, "before"))
        await admin.delete(topics.EVENTS)
        async with asyncio.timeout(TOLD_WITHIN):
            for each in roles:
                await until(_holds(tmp_path / f"{each}.log", '"log_lost"'), f"{each} tells")
        assert await admin.names() == {topic.name for topic in topics.ALL if topic != topics.EVENTS}
        assert all(process.poll() is None for process in processes.running.values())


@pytest.mark.soak
@pytest.mark.req("E-15")
async def test_a_service_takes_requests_within_15_s_after_their_topic_was_deleted(
    connections: Connections, environment: dict[str, str], admin: TopicAdmin, tmp_path: Path
) -> None:
    with serving({**environment, "POWERON_MODEL": script(tmp_path, ONE_STEP)}, tmp_path, ["all"]):
        await completed(connections, await request(connections, "before"))
        await admin.delete(topics.REQUESTS)
        async with asyncio.timeout(TOLD_WITHIN):
            await until(_holds(tmp_path / "all.log", '"topic_made_again"'), "the topic is made again")
            await completed(connections, await request(connections, "after"))


def _holds(log: Path, text: str) -> Callable[[], Awaitable[bool]]:
    async def holds() -> bool:
        return text in await asyncio.to_thread(log.read_text)

    return holds
