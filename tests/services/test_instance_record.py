"""A process records what it may do, without any secret, and its end; the log being unavailable holds nothing up."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from doubles import Counting

from poweron_events import topics
from poweron_events.codec import MAX_EVENT, decode, dumps, encode
from poweron_events.envelope import envelop
from poweron_events.errors import Refused, Unavailable
from poweron_events.instance_events import InstanceEnded, InstanceStarted, OfferedAction, TokenPrice, instance_id
from poweron_events.log import Message
from poweron_events.log.memory import MemoryLog
from poweron_services import instance_record
from poweron_services.action_resources import OpenedActions
from poweron_services.actions.action import Action
from poweron_services.instance_record import fitting, recorded, started_event
from poweron_services.settings.action_connections import ActionConnections
from poweron_services.settings.action_variables import SearchKeys
from poweron_services.settings.config import ProviderSettings, Settings
from poweron_services.settings.secret_settings import secret_variables

NAME = "host-7-1a2b3c4d"
SECRET = "correct horse battery staple"


def event(*actions: Action, roles: Sequence[str] = ("executor",)) -> InstanceStarted:
    """What a process with the settings of the environment records."""
    settings = Settings()
    known = {action.spec.name: action for action in actions}
    work = OpenedActions(settings, known, None, ActionConnections.read(settings.connections, {}), None)
    return started_event(NAME, roles, settings, work)


@pytest.mark.req("S27")
def test_no_secret_of_any_setting_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    for number, kind in enumerate((Settings, ProviderSettings, SearchKeys)):
        for variable in secret_variables(kind).values():
            monkeypatch.setenv(variable, f"https://user:{SECRET}{number}@host/")
    monkeypatch.setenv("POWERON_POSTGRES", f"postgresql://poweron:{SECRET}@db/poweron")
    monkeypatch.setenv("POWERON_KAFKA_SECURITY_PROTOCOL", "SASL_SSL")
    monkeypatch.setenv("POWERON_KAFKA_SASL_USERNAME", "poweron")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"https://user:{SECRET.replace(' ', '')}@host:4318/v1?key=1234")
    monkeypatch.setenv("POWERON_OCR", f"cat {SECRET}0")
    written = dumps(event().model_dump(mode="json", by_alias=True)).decode()
    assert SECRET.split(maxsplit=1)[0] not in written
    assert "1234" not in written
    assert event().settings["OTEL_EXPORTER_OTLP_ENDPOINT"] == "https://host:4318/v1"
    assert not event().settings.keys() & set(secret_variables(Settings).values())


def test_the_settings_are_those_that_were_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in [name for name in os.environ if name.startswith("POWERON_")]:
        monkeypatch.delenv(variable)
    assert event().settings == {}, "neither the home folder nor the login name"
    monkeypatch.setenv("POWERON_HOME", str(tmp_path))
    monkeypatch.setenv("POWERON_WEB_ENRICH", "1")
    monkeypatch.setenv("POWERON_DENY", "web.crawl")
    monkeypatch.setenv("POWERON_WEB_DENY", ",".join(["example.com"] * 100))
    found = event().settings
    assert found.pop("POWERON_WEB_DENY") == ",".join(["example.com"] * 100)[:1_000]
    assert found == {"POWERON_DENY": "web.crawl", "POWERON_HOME": str(tmp_path), "POWERON_WEB_ENRICH": "true"}


def test_actions_lists_models_and_prices_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POWERON_DENY", "web.crawl")
    monkeypatch.setenv("POWERON_APPROVE", "a.*")
    monkeypatch.setenv("POWERON_MODEL", "openai:gpt-5,builtin")
    monkeypatch.setenv("POWERON_MODEL_REVIEW", "mistral:mine")
    monkeypatch.setenv("POWERON_MODEL_PRICE", "mistral:mine=0.50,10")
    found = event(Counting("b.go"), Counting("a.go"))
    assert [(action.action, action.approve) for action in found.actions] == [("a.go", True), ("b.go", False)]
    assert (found.denied, found.approve, found.allowed["lookup"]) == (
        ("web.crawl",),
        ("a.*",),
        ("ai.*", "document.*", "web.*"),
    )
    assert (found.models["plan"], found.models["review"]) == (("openai:gpt-5", "builtin"), ("mistral:mine",))
    listed, own = found.prices
    assert (listed.model, listed.listed) == ("openai:gpt-5", True)
    assert own == TokenPrice(model="mistral:mine", prompt="0.5", answer="10")


def test_what_is_too_large_for_an_event_is_left_out_and_counted() -> None:
    offered = [OfferedAction(action=f"a.a{number}{'x' * 60}", effect_class="pure") for number in range(1_000)]
    whole = InstanceStarted(instance=NAME, release="1", roles=("executor",), actions=tuple(offered))
    cut = fitting(whole)
    assert len(cut.actions) + cut.actions_left_out == 1_000
    assert MAX_EVENT - 3_000 < written(cut) < MAX_EVENT
    settings = {f"POWERON_{number}": "x" * 900 for number in range(80)}
    cut = fitting(whole.model_copy(update={"settings": settings}))
    assert (cut.actions, cut.actions_left_out, cut.settings, cut.settings_left_out) == ((), 1_000, {}, 80)
    assert fitting(cut) is cut


def written(started: InstanceStarted) -> int:
    return len(encode(envelop(started, workflow_id=instance_id(NAME), source="/poweron/process/1", time="now")))


STARTED = InstanceStarted(instance=NAME, release="0.4.0", roles=("executor",))


async def events(log: MemoryLog) -> list[Any]:
    ends = await log.ends(topics.EVENTS.name)
    return [
        decode(record.value, key=record.key).event
        async for records in log.read(topics.EVENTS.name, {}, ends)
        for record in records
    ]


async def test_the_start_is_recorded_before_the_roles_act_and_the_end_after_them() -> None:
    log = MemoryLog()
    async with recorded(log, STARTED, lambda: 0):
        assert await events(log) == [STARTED]
    assert await events(log) == [STARTED, InstanceEnded(instance=NAME)]


async def test_a_process_that_is_cancelled_records_its_end() -> None:
    log, begun = MemoryLog(), asyncio.Event()

    async def work() -> None:
        async with recorded(log, STARTED, lambda: 0):
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await events(log) == [STARTED, InstanceEnded(instance=NAME)]


class Reluctant(MemoryLog):
    """A log that does not answer until it is back, or refuses."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.error = error
        self.taken = asyncio.Event()
        self.tries = 0

    async def append(self, topic: str, messages: Sequence[Message]) -> Sequence[int]:
        self.tries += 1
        if isinstance(self.error, TimeoutError):
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        self.taken.set()
        return await super().append(topic, messages)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_record, "START_WITHIN", 0.01)
    monkeypatch.setattr(instance_record, "END_WITHIN", 0.01)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("error", [TimeoutError(), Unavailable("down"), Refused("no right to write")], ids=repr)
async def test_a_log_that_does_not_take_the_record_delays_neither_start_nor_end(error: Exception) -> None:
    log = Reluctant(error)
    async with asyncio.timeout(5), recorded(log, STARTED, lambda: 0):
        pass
    assert await events(log) == []


@pytest.mark.usefixtures("soon")
async def test_a_process_that_only_projects_does_not_ask_for_ever_for_a_right_that_it_may_not_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(instance_record, "TRIES_TO_PROJECT", 2)
    log = Reluctant(Unavailable("no right to append"))
    async with asyncio.timeout(5), recorded(log, STARTED.model_copy(update={"roles": ("projector",)}), lambda: 0):
        await asyncio.sleep(0.2)
        assert log.tries == 2


@pytest.mark.usefixtures("soon")
async def test_the_start_is_recorded_once_the_log_is_back_and_an_end_without_it_is_not() -> None:
    log = Reluctant(Unavailable("down"))
    async with asyncio.timeout(5), recorded(log, STARTED, lambda: 0):
        log.error = None
        await log.taken.wait()
        log.error = TimeoutError()
    assert await events(log) == [STARTED]
