"""Research in the open web as a whole: search, scrape, crawl and answer, against servers that count what is asked."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import replays
from doubles import Process, World, soon
from modes import MODES, decided_by
from museum_site import BUILDER, FAMILY, FARE, LINK, MuseumWeb, museum_web
from researcher import COURSE, QUESTION, Researcher

from poweron_events.codec import decode
from poweron_events.log import Message
from poweron_services.actions.action import Resources
from poweron_services.actions.registry import actions
from poweron_services.connectors.document_reader import DocumentReader
from poweron_services.connectors.page_reader import PageReader
from poweron_services.connectors.report_renderer import ReportRenderer
from poweron_services.connectors.search.search_engine import open_search
from poweron_services.connectors.web.web_rules import WebSettings
from poweron_services.connectors.web_access import Web, open_web
from poweron_services.models.chat_model import ChatModel
from poweron_services.runtime import worker
from poweron_services.settings.action_variables import SearchKeys
from poweron_services.settings.config import Settings

pytestmark = pytest.mark.usefixtures("logged")

LABELS = ["action1_search", "action2_scrape", "action3_crawl", "action4_process"]


@pytest.fixture
def museums() -> Generator[MuseumWeb, None, None]:
    with museum_web() as web:
        yield web


@asynccontextmanager
async def web_of(museums: MuseumWeb, world: World) -> AsyncGenerator[Web, None]:
    """The web as a process has it whose operator lets it ask these servers, the attacker's too."""
    settings = Settings(**{name.removeprefix("POWERON_").lower(): value for name, value in museums.settings.items()})
    async with open_search(settings, SearchKeys()) as engine:
        assert engine is not None
        async with open_web(WebSettings.of(settings), world.content, search=engine.search) as web:
            yield web


async def world_of(model: ChatModel) -> World:
    """A world with all actions of the registry, which hold nothing open."""
    reader = DocumentReader(2)
    async with actions(Resources(reader, ReportRenderer(), PageReader(reader), searches=True)) as known:
        return World([*known.values()], model=model)


def of(world: World, id_: str, name: str) -> list[Any]:
    """The accepted events of a kind."""
    return [event for event in world.accepted(id_) if type(event).__name__ == name]


async def expect_answered(world: World, id_: str, museums: MuseumWeb) -> None:
    """The answer quotes three pages, each of which holds what it is cited for, in the bytes that the server sent."""
    (written,) = of(world, id_, "ActionCompleted")[-1].documents
    text = (await world.content.get(id_, written.content)).decode()
    for quote, path in ((FARE, "/museum/clock"), (BUILDER, "/museum/clock/history"), (FAMILY, "/fares.pdf")):
        (statement,) = [line for line in text.splitlines() if quote in line]
        (source,) = [source for source in written.sources if f"[{source.n}]" in statement]
        kept = await world.content.get(id_, source.page.content)
        assert source.page.url == f"http://{museums.site}{path}"
        assert source.page.sha256 == hashlib.sha256(kept).hexdigest()
        assert kept == served(museums, path)
        assert quote in " ".join((await world.content.get(id_, source.text)).decode().split())


def served(museums: MuseumWeb, path: str) -> bytes:
    page = museums.pages[path]
    return page if isinstance(page, bytes) else page.encode()


def expect_polite(museums: MuseumWeb) -> None:
    """Nothing was asked for twice, and nothing that the rules forbid; of the attacker only what a page links to."""
    assert museums.more_than_once() == {}
    assert museums.times("/private/plans") == 0
    assert set(museums.of("attacker")) <= {LINK}
    assert museums.times("/robots.txt") == museums.times("/robots.txt", "mirror") == 1


@pytest.mark.req("C-01")
@pytest.mark.req("C-02")
@pytest.mark.req("C-03")
@pytest.mark.req("C-07")
@pytest.mark.parametrize("mode", MODES)
async def test_a_question_is_searched_scraped_crawled_and_answered_from_pages_that_say_so(
    mode: str, museums: MuseumWeb
) -> None:
    world = await world_of(Researcher())
    async with web_of(museums, world) as web, world.process(web=web):
        id_ = await world.ask(prompt=QUESTION, workflow_mode=mode)
        await world.ended(id_)
    await expect_done(world, id_, museums)
    expect_seen(world, id_, museums)
    assert decided_by(world.accepted(id_)) == {"model" if mode == "React" else "plan"}
    assert replays.others(await replays.of_world(world, id_)) == []


async def expect_done(world: World, id_: str, museums: MuseumWeb) -> None:
    """Four steps, one after the other, without a failure, and an answer; nobody was asked for more than that takes."""
    assert world.names(id_)[-1] == "RoundCompleted"
    results = of(world, id_, "ActionCompleted")
    assert [event.action for event in of(world, id_, "ActionSelected")] == [*COURSE]
    assert [(event.task, event.attempt, event.step) for event in results] == [(1, 1, step) for step in (1, 2, 3, 4)]
    assert [event.result_label for event in results] == [f"round1_task1_{label}" for label in LABELS]
    assert [(event.outcome, event.error) for event in results] == [("done", None)] * 4
    await expect_answered(world, id_, museums)
    expect_polite(museums)


def expect_seen(world: World, id_: str, museums: MuseumWeb) -> None:
    """What the loop went on with: the best pages first, with sentences of theirs, and what may be read next."""
    _, scraped, crawled, _ = of(world, id_, "ObservationRecorded")
    for observation in (scraped.observation, crawled.observation):
        scores = [preview.relevance_score for preview in observation.previews]
        assert scores == sorted(scores, reverse=True)
        assert scores[0] > 0
    place = f"http://{museums.site}/museum/clock"
    (clock,) = [preview for preview in scraped.observation.previews if preview.url == place]
    assert any(FARE in point for point in clock.key_points)
    assert {"14 euros", "3 March 2026"} <= set(clock.entities)
    assert f"http://{museums.site}/museum/clock/history" in scraped.observation.links
    same = [note for note in scraped.observation.notes if note.endswith("hold the same text; it is shown once.")]
    assert {place.strip("'") for note in same for place in note.split()[0:3:2]} == {
        f"{museums.site}/museum/clock",
        f"{museums.site}/copy/museum/clock",
        f"{museums.mirror}/mirrored/clock",
    }


# --- processes that die


@pytest.mark.req("E-08")
@pytest.mark.parametrize("mode", ["React", pytest.param("Actionplan", marks=pytest.mark.soak)])
async def test_where_a_process_dies_with_the_claim_and_with_the_result_of_each_action_nothing_is_fetched_twice(
    mode: str, museums: MuseumWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them is lost with the process that was about to tell it; so each action runs twice."""
    monkeypatch.setattr(worker, "QUICK", -1.0)  # no append holds more than one of them
    world, lost = await world_of(Researcher()), set[str]()
    id_ = await world.ask(prompt=QUESTION, workflow_mode=mode)
    while world.folded(id_)[0].phase != "ended":
        async with web_of(museums, world) as web:
            await until_it_dies(world, id_, world.start(web=web), lost)
    started = Counter(event.action for event in of(world, id_, "ActionStarted"))
    assert started == dict.fromkeys(COURSE, 2)
    await expect_done(world, id_, museums)


async def until_it_dies(world: World, id_: str, process: Process, lost: set[str]) -> None:
    """A process works until it would tell of an action what nobody has tried to tell before, or the round has ended."""
    dead, append = asyncio.Event(), process.log.append

    async def dying(topic: str, messages: Sequence[Message]) -> Sequence[int]:
        told = "+".join(map(what_it_tells, messages))
        if "Action" in told.replace("ActionSelected", "") and told not in lost:
            lost.add(told)
            process.log.cut_off = True
            dead.set()
        return await append(topic, messages)

    process.log.append = dying  # type: ignore[method-assign]
    await soon(lambda: dead.is_set() or world.folded(id_)[0].phase == "ended")
    await process.kill()


def what_it_tells(message: Message) -> str:
    """The kind of an event and its place, without what differs between tries."""
    event = decode(message.value or b"").event
    place = [getattr(event, name, "") for name in ("task", "attempt", "step")]
    return f"{type(event).__name__} {place}"
