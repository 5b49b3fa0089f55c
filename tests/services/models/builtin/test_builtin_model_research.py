"""The built-in model on the example site, with everything real but the log: searched, read, answered, each quote found."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from doubles import World
from modes import MODES
from papers import EXAMPLES

from builders import follow_up
from poweron_events.content import ContentStore
from poweron_projections.audit.verifier.quote_search import comparable, occurs
from poweron_services.actions.action import Resources
from poweron_services.actions.registry import actions
from poweron_services.connectors.document_reader import DocumentReader
from poweron_services.connectors.page_reader import PageReader
from poweron_services.connectors.report_renderer import ReportRenderer
from poweron_services.connectors.search.search_engine import open_search
from poweron_services.connectors.web.web_rules import WebSettings
from poweron_services.connectors.web_access import open_web
from poweron_services.models.builtin import BuiltinModel
from poweron_services.settings.action_variables import SearchKeys
from poweron_services.settings.config import Settings
from poweron_services.text.statements import statements

pytestmark = pytest.mark.usefixtures("logged")

SITE = EXAMPLES / "site"
QUESTION = "Which museums open on Mondays, and what do they cost?"


@asynccontextmanager
async def town() -> AsyncGenerator[World, None]:
    """A world whose web is the example site."""
    settings = Settings(search=f"folder:{SITE}")
    async with AsyncExitStack() as stack:
        content = ContentStore.at("memory:///")
        engine = await stack.enter_async_context(open_search(settings, SearchKeys()))
        assert engine is not None
        assert engine.folder_page is not None
        opening = open_web(WebSettings.of(settings), content, search=engine.search, local_pages=engine.folder_page)
        web, reader = await stack.enter_async_context(opening), DocumentReader(1)
        resources = Resources(reader, ReportRenderer(), PageReader(reader), searches=True)
        known = await stack.enter_async_context(actions(resources))
        world = World(known.values(), model=BuiltinModel(), web=web)
        world.content = content
        await stack.enter_async_context(world.process())
        yield world


def of(world: World, id_: str, name: str, round_number: int = 1) -> list[Any]:
    """The accepted events of a kind."""
    events = [event for event in world.accepted(id_) if type(event).__name__ == name]
    return [event for event in events if event.round == round_number]


async def quotes(world: World, id_: str, round_number: int = 1) -> list[tuple[str, str]]:
    """What the answer of a round quotes and from where, all of it found in the page that it is cited for."""
    (answer,) = of(world, id_, "ActionCompleted", round_number)[-1].documents
    text = (await world.content.get(id_, answer.content)).decode()
    pages = {source.n: source for source in answer.sources}
    found = []
    for quote in (quote for statement in statements(text) for quote in statement.quotes):
        (number,) = quote.numbers
        read = (await world.content.get(id_, pages[number].text)).decode()
        assert occurs(quote.text, comparable(read)), quote
        found.append((quote.text, pages[number].page.url))
    return found


@pytest.mark.req("C-02")
@pytest.mark.req("C-04")
@pytest.mark.parametrize("mode", MODES)
async def test_a_question_without_documents_is_answered_with_quotes_that_stand_in_their_pages(mode: str) -> None:
    async with town() as world:
        id_ = await world.ask(prompt=QUESTION, workflow_mode=mode)
        assert (await world.ended(id_)).current.ending == "completed"
        assert [event.action for event in of(world, id_, "ActionSelected")] == ["web.scrape", "ai.process"]
        said = await quotes(world, id_)
        ended = of(world, id_, "RoundCompleted")[-1].message

    listing = "https://visit-port-alden.example/museums.html"
    assert ("Harbor Museum | yes, 10 a.m. to 5 p.m. | $14 | $6", listing) in said
    assert ("Tidewater Science Center | yes, 9 a.m. to 4 p.m. | $18 | $12", listing) in said
    assert (
        "Admission is free; donations keep the steam pump running.",
        f"{listing[:-12]}fire-brigade-museum.html",
    ) in said
    assert not any(closed in quote for quote, _ in said for closed in ("Gallery", "Lighthouse", "Glass and Salt"))
    assert f"- [1] Museums of Port Alden: opening days and admission, <{listing}>" in ended


async def test_a_follow_up_is_looked_up_again_and_what_no_page_says_is_refused() -> None:
    async with town() as world:
        id_ = await world.ask(prompt=QUESTION)
        await world.ended(id_)
        await world.tell(id_, follow_up(2, prompt="Which of the museums has a collection of meteorites?"))
        await world.until(id_, lambda workflow: len(workflow.openings) == 2)
        assert (await world.ended(id_)).current.ending == "completed"
        assert [event.action for event in of(world, id_, "ActionSelected", 2)] == ["web.scrape", "ai.process"]
        await quotes(world, id_, 2)
        ended = of(world, id_, "RoundCompleted", 2)[-1].message
    assert ended.startswith(
        'These passages come closest to "Which of the museums has a collection of meteorites"; see whether'
    )


async def test_an_address_in_the_request_is_read_and_one_that_is_not_there_is_told() -> None:
    page = "https://valley-railway.example/visit.html"
    async with town() as world:
        known = await world.ask("1", prompt=f"When do steam trains run, as {page} says?")
        unknown = await world.ask("2", prompt=f"What does {page}.gone say?")
        await world.ended(known)
        await world.ended(unknown)
        (quote, url), *_ = await quotes(world, known)
        failed = of(world, unknown, "RoundFailed")[-1].message
    assert (quote.startswith("Steam trains run on Sundays from May 3"), url) == (True, page)
    assert "valley-railway.example" in failed
