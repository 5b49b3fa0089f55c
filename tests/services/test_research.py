"""Research in the open web as a whole: search, scrape, crawl and answer, against servers that count what is asked."""

import hashlib
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from doubles import Clock, World
from modes import MODES, decided_by
from museum_site import BUILDER, FAMILY, FARE, LINK, ROBOTS, MuseumWeb, museum_web
from researcher import COURSE, QUESTION, Researcher

from poweron_events.content import ContentStore
from poweron_events.errors import Unavailable
from poweron_services.actions.action import Action, Resources
from poweron_services.actions.registry import actions
from poweron_services.config import Settings
from poweron_services.connectors.document_reader import DocumentReader
from poweron_services.connectors.page_reader import PageReader
from poweron_services.connectors.report_renderer import markdown_to_html
from poweron_services.connectors.search.search_engine import open_search
from poweron_services.connectors.kept_web import open_web
from poweron_services.connectors.web.web_settings import WebSettings
from poweron_services.models.chat_model import ChatModel
from poweron_services.search_variables import SearchKeys

pytestmark = pytest.mark.usefixtures("logged")

LABELS = ["action1_search", "action2_scrape", "action3_crawl", "action4_process"]


@pytest.fixture
def museums() -> Generator[MuseumWeb, None, None]:
    with museum_web() as web:
        yield web


@asynccontextmanager
async def opened(museums: MuseumWeb, model: ChatModel) -> AsyncGenerator[World, None]:
    """A world whose processes reach these servers as operators let them."""
    settings = Settings(**{name.removeprefix("POWERON_").lower(): value for name, value in museums.settings.items()})
    async with AsyncExitStack() as stack:
        content = ContentStore.at("memory:///")
        engine = await stack.enter_async_context(open_search(settings, SearchKeys()))
        assert engine is not None
        web = await stack.enter_async_context(open_web(WebSettings.of(settings), content, search=engine.search))
        world = World(await web_actions(), model=model, web=web)
        world.content = content
        yield world


async def web_actions() -> list[Action]:
    """All actions of the registry; they hold nothing open."""
    reader = DocumentReader(2)
    async with actions(Resources(reader, markdown_to_html, PageReader(reader), searches=True)) as known:
        return [*known.values()]


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
    async with opened(museums, Researcher()) as world:
        async with world.process():
            id_ = await world.ask(prompt=QUESTION, workflow_mode=mode)
            workflow = await world.ended(id_)
        assert workflow.current.ending == "completed"
        assert [event.action for event in of(world, id_, "ActionSelected")] == [*COURSE]
        results = of(world, id_, "ActionCompleted")
        assert [event.result_label for event in results] == [f"round1_task1_{label}" for label in LABELS]
        assert [(event.outcome, event.error) for event in results] == [("done", None)] * 4
        await expect_answered(world, id_, museums)
        expect_polite(museums)
        expect_seen(world, id_, museums)


def expect_seen(world: World, id_: str, museums: MuseumWeb) -> None:
    """What the loop went on with: the best pages first, with sentences of theirs, and what may be read next."""
    _, scraped, crawled, _ = of(world, id_, "ObservationRecorded")
    for observation in (scraped.observation, crawled.observation):
        scores = [preview.relevance_score for preview in observation.previews]
        assert scores == sorted(scores, reverse=True)
        assert scores[0] > 0
    (clock,) = [preview for preview in scraped.observation.previews if preview.url == f"http://{museums.site}/museum/clock"]
    assert any(FARE in point for point in clock.key_points)
    assert {"14 euros", "3 March 2026"} <= set(clock.entities)
    assert f"http://{museums.site}/museum/clock/history" in scraped.observation.links
    same = [note for note in scraped.observation.notes if note.endswith("hold the same text; it stands here once.")]
    assert {place.strip("'") for note in same for place in note.split()[0:3:2]} == {
        f"{museums.site}/museum/clock",
        f"{museums.site}/copy/museum/clock",
        f"{museums.mirror}/mirrored/clock",
    }
    print(clock, scraped.observation.notes)
