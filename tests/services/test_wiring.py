"""What actions opened is closed in the end."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from doubles import Counting

from poweron_events.content import ContentStore
from poweron_events.errors import LogLost, Refused, Unavailable
from poweron_events.log.memory import MemoryLog
from poweron_projections.log_guard import GuardedLog
from poweron_services import wiring
from poweron_services.action_resources import WITHOUT_ACTIONS, opened_actions
from poweron_services.actions.action import Action, Resources
from poweron_services.actions.registry import actions, by_name
from poweron_services.client.connect import Connections
from poweron_services.connectors.document_reader import DocumentReader
from poweron_services.connectors.report_renderer import ReportRenderer
from poweron_services.connectors.search.search_provider import SearchQuery
from poweron_services.connectors.web.page_cache import Reader
from poweron_services.models.scripted import ScriptedModel
from poweron_services.settings.config import Settings
from poweron_services.wiring import ROLES, serve


class SilentPool:
    """Its connections stand, and nothing ever comes over them."""

    @asynccontextmanager
    async def acquire(self, **_: Any) -> AsyncGenerator[Any, None]:
        await asyncio.Event().wait()
        yield


class Rooms:
    """Two actions that each open something, and what came of it."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.opened = asyncio.Event()

    @asynccontextmanager
    async def room(self, name: str) -> AsyncGenerator[Action, None]:
        self.told.append(f"{name} is opened")
        try:
            yield Counting(name)
        finally:
            await asyncio.sleep(0)  # who closes may have to wait
            self.told.append(f"{name} is closed")

    @asynccontextmanager
    async def __call__(self, given: Resources) -> AsyncGenerator[Mapping[str, Action], None]:
        assert isinstance(given.read_document, DocumentReader)
        assert isinstance(given.render_report, ReportRenderer)
        async with self.room("a.b") as one, self.room("my-server.do_it") as two:
            self.opened.set()
            yield by_name(one, two)


OPENED_AND_CLOSED = ["a.b is opened", "my-server.do_it is opened", "my-server.do_it is closed", "a.b is closed"]


def connections(pool: Any, log: Any = None, **settings: Any) -> Connections:
    guarded = GuardedLog(log or MemoryLog(), pool)
    return Connections(Settings(**settings), guarded, pool, ContentStore.at("memory:///"))


class BrokenLog(MemoryLog):
    def follow(self, topic: str, group: str) -> Any:
        raise ValueError("out of order")


@pytest.mark.parametrize("role", sorted({*ROLES} - WITHOUT_ACTIONS))
async def test_what_actions_opened_is_closed_when_serving_is_cancelled(role: str) -> None:
    rooms = Rooms()
    served = asyncio.create_task(serve(connections(SilentPool()), {role}, ScriptedModel({}), rooms))
    await rooms.opened.wait()
    await asyncio.sleep(0)
    assert rooms.told == OPENED_AND_CLOSED[:2]
    served.cancel()
    with pytest.raises(asyncio.CancelledError):
        await served
    assert rooms.told == OPENED_AND_CLOSED


async def test_what_actions_opened_is_closed_when_serving_fails() -> None:
    rooms = Rooms()
    with pytest.raises(ExceptionGroup) as raised:
        await serve(connections(SilentPool(), BrokenLog()), {"executor"}, ScriptedModel({}), rooms)
    assert raised.group_contains(ValueError, match="out of order")
    assert rooms.told == OPENED_AND_CLOSED


async def test_what_actions_opened_is_closed_when_one_of_them_cannot_be_opened() -> None:
    rooms = Rooms()

    @asynccontextmanager
    async def with_another(given: Resources) -> AsyncGenerator[Mapping[str, Action], None]:
        async with rooms(given) as known:
            raise Unavailable(f"beside {len(known)} actions, one cannot be reached")
            yield

    with pytest.raises(Unavailable, match="beside 2 actions"):
        await serve(connections(SilentPool()), {"executor"}, ScriptedModel({}), with_another)
    assert rooms.told == OPENED_AND_CLOSED


@pytest.mark.req("E-08")
async def test_a_mark_that_means_no_action_that_there_is_ends_serving_with_a_sentence() -> None:
    rooms = Rooms()
    with pytest.raises(Refused, match=r"^POWERON_APPROVE: 'my-server\.do_that' means no action; there are a\.b, ai\."):
        await serve(connections(SilentPool(), approve="my-server.do_that"), {"intake"}, ScriptedModel({}), rooms)
    assert rooms.told == OPENED_AND_CLOSED


async def test_who_only_projects_opens_no_actions() -> None:
    rooms = Rooms()
    served = asyncio.create_task(serve(connections(SilentPool()), {"projector"}, ScriptedModel({}), rooms))
    await asyncio.sleep(0.01)
    served.cancel()
    await asyncio.wait({served})
    assert rooms.told == []


def test_no_two_actions_have_the_same_name() -> None:
    with pytest.raises(Refused, match=r"two actions of the name 'a\.b'"):
        by_name(Counting("a.b"), Counting("a.b"))


@pytest.mark.req("E-09")
async def test_a_service_that_is_told_to_stop_stops_whatever_its_roles_end_with() -> None:
    began = asyncio.Event()

    class Whole:
        """A log that holds everything."""

        async def check(self) -> None:
            began.set()

    async def role() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise LogLost("It was deleted while the role ended.") from None

    serving = asyncio.create_task(wiring._until_lost(cast("Any", Whole()), [role()]))
    await began.wait()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving


WEB = {"web.search", "web.scrape", "web.crawl"}


@pytest.mark.parametrize(("search", "there"), [("folder:{}", WEB), (None, {"web.crawl"})])
async def test_the_web_is_there_as_far_as_the_settings_say(search: str | None, there: set[str], tmp_path: Path) -> None:
    (tmp_path / "museum.md").write_text("# Museum\n\nThe museum opens on Mondays.\n")
    given = connections(SilentPool(), search=search and search.format(tmp_path))
    async with opened_actions(actions, given, {"executor"}) as work:
        assert work.actions.keys() & WEB == there
        assert work.web is not None
        query, reader = SearchQuery("When does the museum open?"), Reader("workflow", "step")
        if search is None:
            with pytest.raises(Refused, match="There is no search engine"):
                await work.web.search(reader, query)
            return
        (hit,) = (await work.web.search(reader, query)).hits
        page = await work.web.fetch(reader, hit.url)
        assert (page.status, page.media_type) == (200, "text/markdown")
        assert await given.content.get("workflow", page.content) == page.body


async def test_who_runs_no_actions_knows_those_of_the_web_and_does_not_reach_it(tmp_path: Path) -> None:
    given = connections(SilentPool(), search=f"folder:{tmp_path}")
    async with opened_actions(actions, given, {"selector"}) as work:
        assert (work.actions.keys() & WEB, work.web) == (WEB, None)


@pytest.mark.req("X-01")
@pytest.mark.parametrize("setting", ["deny", "allow_report"])
async def test_a_list_with_a_slip_in_it_ends_serving_with_a_sentence(setting: str) -> None:
    with pytest.raises(Refused, match=rf"^POWERON_{setting.upper()}: 'mail\.\*' means no action"):
        await serve(connections(SilentPool(), **{setting: "mail.*"}), {"intake"}, ScriptedModel({}))
