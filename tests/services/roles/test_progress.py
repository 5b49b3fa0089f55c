"""How far long work is: what an action says of it reaches whoever watches, and nothing else depends on it."""

import asyncio
import io
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
from beside import beside
from rich.console import Console

from builders import TIME, At, Told, planned, requested
from poweron_events import codec
from poweron_events.client import Heard
from poweron_events.envelope import Recorded, envelop
from poweron_events.errors import Unavailable
from poweron_events.fold.state import Workflow
from poweron_events.log import Message, Record
from poweron_events.log.memory import MemoryProgress
from poweron_events.progress import StepProgress
from poweron_services.cli import progress_bar
from poweron_services.cli.context import AS_JSON
from poweron_services.cli.progress_bar import ProgressWatch, StepBar
from poweron_services.client.follow import follow_amounts, follow_progress
from poweron_services.roles import progress_sender
from poweron_services.roles.progress_sender import ProgressSender

ACTION = "document.extract"


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_sender, "SEND_PERIOD", 0.05)
    monkeypatch.setattr(progress_sender, "AFTER_FAILURE", 0.05)


def at_work() -> Told:
    """A workflow whose first step is at work."""
    return Told().tell(requested(), planned(), At().selected(), At().parameters(), At().started())


def said(workflow: Workflow, **changes: object) -> StepProgress:
    fields = {
        "workflowId": workflow.id,
        **dict(zip(("round", "task", "attempt", "step"), workflow.place, strict=True)),
        "try": 1,
        "action": ACTION,
        "unit": "pages_read",
        "done": 3,
        "total": 12,
        "time": TIME,
    }
    return StepProgress.model_validate(fields | changes)


@asynccontextmanager
async def sending(topic: object) -> AsyncGenerator[ProgressSender, None]:
    sender = ProgressSender(topic)  # type: ignore[arg-type] # as far as it is asked
    async with beside(sender.run()) as running:
        yield sender
        assert not running.done()


class Kept(MemoryProgress):
    """A topic whose messages can be looked at; `away` so many times first."""

    def __init__(self, away: int = 0) -> None:
        super().__init__()
        self.away = away
        self.sent: list[StepProgress] = []
        self.tries = 0
        self.came = asyncio.Event()

    async def send(self, messages: Sequence[Message]) -> None:
        self.tries += 1
        if self.tries <= self.away:
            raise Unavailable("The topic is not there.")
        await super().send(messages)
        self.sent += [StepProgress.read(as_record(message)) for message in messages]
        self.came.set()


def as_record(message: Message) -> Record:
    return Record("poweron.progress", 0, 0, 0, message.key, message.value, {})


# --- telling ------------------------------------------------------------------------------------------


async def test_of_a_thousand_tellings_in_a_moment_the_last_one_is_sent() -> None:
    topic, workflow = Kept(), at_work().workflow
    async with sending(topic) as sender, asyncio.timeout(10):
        with sender.step(workflow) as tell:
            for number in range(1_000):
                tell("parts_answered", number, 1_000)
            await topic.came.wait()
    (sent,) = topic.sent
    assert (sent.place, sent.try_, sent.action) == (workflow.place, 1, ACTION)
    assert (sent.unit, sent.done, sent.total) == ("parts_answered", 999, 1_000)


async def test_a_step_that_is_over_tells_nothing_any_more() -> None:
    topic, told = Kept(), at_work()
    async with sending(topic) as sender:
        with sender.step(told.workflow) as tell:
            tell("pages_read", 1, 2)
        tell("pages_read", 2, 2)
        await asyncio.sleep(0.2)  # nothing can be waited for where nothing happens
    assert topic.sent == []


async def test_what_makes_no_sense_is_not_sent_and_hurts_nobody() -> None:
    topic, workflow = Kept(), at_work().workflow
    async with sending(topic) as sender, asyncio.timeout(10):
        with sender.step(workflow) as tell:
            for unit, done, total in (("bananas", 1, 2), ("pages_read", -1, 2), ("pages_read", 1, 2**80)):
                tell(unit, done, total)  # type: ignore[arg-type] # as an action from elsewhere may
                await asyncio.sleep(0.06)
            tell("pages_read", 1, 2)
            while not topic.sent:
                topic.came.clear()
                await topic.came.wait()
    assert [(sent.done, sent.total) for sent in topic.sent] == [(1, 2)]


async def test_where_the_topic_is_away_the_work_goes_on_and_later_progress_is_told() -> None:
    topic, workflow = Kept(away=2), at_work().workflow
    async with sending(topic) as sender, asyncio.timeout(10):
        with sender.step(workflow) as tell:
            number = 0
            while not topic.sent:
                number += 1
                tell("pages_read", number, None)
                await asyncio.sleep(0.01)
    assert topic.tries == 3
    assert topic.sent[-1].done > 2


# --- records of others --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "broken",
    [
        lambda good: b"",
        lambda good: None,
        lambda good: b"\xff" * 4_000,
        lambda good: b"[" * 4_000,
        lambda good: good.replace(b"pages_read", b"bananas"),
        lambda good: good.replace(b'"done":3', b'"done":-3'),
        lambda good: good.replace(b'"done":3', b'"done":1e999'),
        lambda good: good.replace(ACTION.encode(), b"\\u001b]0;owned\\u0007"),
        lambda good: good.replace(b'"pages_read"', b'"pages_read","extra":"' + b"x" * 10_000 + b'"'),
        lambda good: good.replace(b'"workflowId":"', b'"workflowId":"0'),
    ],
)
async def test_a_record_that_tells_no_progress_is_passed_by(broken: Callable[[bytes], bytes | None]) -> None:
    topic, workflow = MemoryProgress(), at_work().workflow
    good = said(workflow).message()
    topic.write(good.key, broken(good.value))
    topic.write(good.key, good.value)
    topic.write(good.key, broken(good.value))
    async with asyncio.timeout(10):
        following = follow_progress(topic, workflow.id)
        assert await anext(following) == said(workflow)
        await following.aclose()


# --- the bar ------------------------------------------------------------------------------------------


async def test_who_reads_sentences_is_told_each_amount_of_the_step_at_work_once() -> None:
    workflow, topic = at_work().workflow, MemoryProgress()
    amounts = follow_amounts(topic, workflow.id, lambda: workflow)
    told = []
    for progress in (
        said(workflow, done=3),
        said(workflow, done=3),
        said(workflow, done=4, step=2),
        said(workflow, done=5, total=None),
    ):
        await topic.send([progress.message()])
        if progress.step == 1 and (progress.done != 3 or not told):
            told.append(await anext(amounts))
    await amounts.aclose()
    assert told == ["task 1 step 1: 3 of 12 pages read", "task 1 step 1: 5 pages read"]


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What a terminal of 80 columns is sent."""
    written = io.StringIO()
    terminal = Console(file=written, force_terminal=True, width=80, color_system=None, highlight=False)
    monkeypatch.setattr(progress_bar, "stderr", terminal)
    monkeypatch.setattr(progress_bar, "stderr", terminal)
    return written


def heard(told: Told) -> Heard:
    envelope = envelop(requested(), workflow_id=told.id, source="/poweron/test/1", time=TIME)
    return Heard(Recorded(envelope, 0, 0, 0, codec.sha256(b"")), "accepted", told.workflow)


def test_the_bar_says_what_is_done_of_how_many_and_goes_with_the_step(screen: io.StringIO) -> None:
    told, bar = at_work(), StepBar()
    bar.heard(heard(told))
    assert bar.told(said(told.workflow))
    bar.heard(heard(told.tell(At().done())))
    assert "task 1 step 1 ━━━━━" in screen.getvalue()
    assert "3 of 12 pages read" in screen.getvalue()
    assert all(len(line) <= 80 for line in screen.getvalue().splitlines())
    assert screen.getvalue().endswith("\x1b[2K")


@pytest.mark.parametrize(
    "changes", [{"step": 2}, {"round": 2}, {"try": 2}, {"action": "ai.process"}, {"workflowId": "another"}]
)
def test_progress_of_anything_but_the_action_at_work_is_not_shown(
    screen: io.StringIO, changes: dict[str, object]
) -> None:
    told, bar = at_work(), StepBar()
    bar.heard(heard(told))
    assert not bar.told(said(told.workflow, **changes))
    assert screen.getvalue() == ""


def test_after_the_step_its_progress_is_not_shown_any_more(screen: io.StringIO) -> None:
    told, bar = at_work(), StepBar()
    late = said(told.workflow)
    bar.heard(heard(told.tell(At().done())))
    assert not bar.told(late)
    assert screen.getvalue() == ""


async def test_who_reads_json_or_pipes_sees_no_bar_and_follows_nothing(
    screen: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = AS_JSON.set(True)
    try:
        assert not progress_bar.watched()
    finally:
        AS_JSON.reset(token)
    monkeypatch.setattr(progress_bar, "stderr", Console(file=io.StringIO()))
    watch = ProgressWatch(MemoryProgress())
    watch.begin(at_work().id)
    with progress_bar.bar("Reading", "records") as told:
        told(1, 2)
    assert len(asyncio.all_tasks()) == 1
    assert screen.getvalue() == ""
