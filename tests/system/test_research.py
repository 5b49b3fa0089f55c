"""Research in the open web on the real Kafka and Postgres: answered with sources, and nothing fetched twice."""

import asyncio
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from beside import beside
from commands import Shell, ended
from followed_workflows import Followed, send_request
from modes import MODES
from museum_site import BUILDER, FAMILY, FARE, LINK, MuseumWeb, museum_web
from researcher import COURSE, QUESTION, Researcher
from researchers import researchers
from surviving import until

from poweron_events import RequestWorkflow, topics
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_projections.verify import verify
from poweron_services.client.connect import Connections, connect
from poweron_services.settings.config import Settings
from poweron_services.wiring import ROLES, serve

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

KEY = "tvly-canary-of-the-whole-service"


@pytest.fixture
def museums() -> Generator[MuseumWeb, None, None]:
    with museum_web() as web:
        yield web


async def asked(connections: Connections, mode: str) -> Followed:
    """A request that somebody else wrote, and its workflow."""
    workflow_id = await send_request(connections, RequestWorkflow(prompt=QUESTION, workflow_mode=mode))
    return Followed(connections.log, workflow_id)


HELD = {"/search": 0, "/slow": 9, "/fares.pdf": 15}
"""What is held back in each of the first three steps, and how many pages, redirects and rules all others have come to."""


def kept(home: Path) -> int:
    """How many pages, redirects and rules are kept, for steps and for the workflow; refusals are kept, too.

    What is being written is not counted.
    """
    kinds = (home.glob(f"**/{kind}/*") for kind in ("pages", "robots"))
    written = {path.read_bytes() for paths in kinds for path in paths if "." not in path.name}
    return len([answer for answer in written if b'"refusal":null' in answer])


# --- answered with sources


@pytest.mark.req("C-01")
@pytest.mark.req("C-02")
@pytest.mark.req("C-03")
@pytest.mark.req("A-02")
async def test_research_is_answered_in_both_modes_and_each_quote_is_found_in_the_page_that_it_cites(
    kafka: KafkaSettings, dsn: str, tmp_path: Path, museums: MuseumWeb, environment: dict[str, str]
) -> None:
    settings = Settings(home=tmp_path / "home", **as_settings(museums))
    shell = Shell(environment | museums.settings, tmp_path)
    async with connect(settings, kafka=kafka, postgres=dsn) as connections:
        async with beside(serve(connections, ROLES, Researcher())):
            ran = [await research(connections, mode) for mode in MODES]
        for found in ran:
            expect_done(found, museums, most=len(ran))
            await expect_sources(shell, found.workflow.id, museums)
        assert (await verify(connections.log, connections.pool)).differences == []


def as_settings(museums: MuseumWeb) -> dict[str, Any]:
    return {name.removeprefix("POWERON_").lower(): value for name, value in museums.settings.items()}


async def research(connections: Connections, mode: str) -> Followed:
    """A workflow followed to its end."""
    found = await asked(connections, mode)
    async with beside(found.follow()):
        await found.ended()
    return found


async def expect_sources(shell: Shell, workflow_id: str, museums: MuseumWeb) -> None:
    """`poweron sources` tells the three pages, what the answer says of them, and that the words stand there."""
    told = await shell("sources", workflow_id, "--json")
    assert told.code == 0, told.err
    sources = told.lines[0]["sources"]
    assert [(source["n"], source["url"]) for source in sources] == [
        (1, f"http://{museums.site}/museum/clock"),
        (2, f"http://{museums.site}/museum/clock/history"),
        (3, f"http://{museums.site}/fares.pdf"),
    ]
    quotes = [[(quote["quote"], quote["result"]) for quote in source["quotes"]] for source in sources]
    assert quotes == [[(FARE, "found")], [(BUILDER, "found")], [(FAMILY, "found")]]
    assert [source["sha256"] for source in sources] == [museums.sha256(source["url"]) for source in sources]


@pytest.mark.req("R-03")
@pytest.mark.req("S27")
async def test_the_built_in_model_asks_the_web_and_no_key_is_told_to_anybody_but_the_engine(
    connections: Connections, environment: dict[str, str], tmp_path: Path, museums: MuseumWeb
) -> None:
    engine = {"POWERON_SEARCH": "tavily", "TAVILY_BASE_URL": museums.engine, "TAVILY_API_KEY": KEY}
    shell = Shell(environment | museums.settings | engine | {"POWERON_LOG_LEVEL": "debug"}, tmp_path)
    said = await ended(await shell.start("ask", "What does a ticket of the Clock Museum cost?", "--json"))
    assert said.code == 0, said.err
    assert "14 euros" in said.lines[0]["message"]
    sources = await shell("sources", said.lines[0]["workflowId"], "--json")
    (source,) = sources.lines[0]["sources"]
    assert source["url"] == f"http://{museums.site}/museum/clock"
    assert {quote["result"] for quote in source["quotes"]} == {"found"}
    assert museums.keys == [KEY]
    written = await everything(connections, tmp_path)
    assert {"workflows", topics.EVENTS.name, topics.REQUESTS.name} <= {name.partition(" ")[0] for name in written}
    assert any(FARE.encode() in told for told in written.values())
    assert [name for name, told in written.items() if KEY.encode() in told] == []
    assert KEY not in said.out + said.err + sources.out + sources.err


async def everything(connections: Connections, folder: Path) -> dict[str, bytes]:
    """All records, rows and files."""
    found = files(folder)
    for topic in topics.ALL:
        async for records in connections.log.read(topic.name, {}, await connections.log.ends(topic.name)):
            for record in records:
                found[f"{topic.name} {record.partition} {record.offset}"] = record.value or b""
    tables = await connections.pool.fetch("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
    for (table,) in tables:
        found[table] = repr(await connections.pool.fetch(f'SELECT * FROM "{table}"')).encode()
    return found


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- an executor that is killed


@pytest.mark.soak
@pytest.mark.req("E-08")
@pytest.mark.parametrize("mode", ["React", "Actionplan"])
async def test_an_executor_killed_within_each_step_leaves_nothing_to_be_fetched_again(
    mode: str, connections: Connections, environment: dict[str, str], tmp_path: Path, museums: MuseumWeb
) -> None:
    """Killed while the engine answers, while pages are read, while links are followed, and while the model writes."""
    for place in HELD:
        museums.hold(place)
    with researchers(environment | museums.settings, tmp_path) as processes:

        def kill(place: str) -> None:
            """What was on its way to the killed process never came to it."""
            processes.kill("executor")
            if place in HELD:
                museums.drop(place)
            processes.start("executor")

        async def within(place: str) -> None:
            if place not in HELD:
                await found.started(place)
                return
            await until(lambda: museums.waits(place), f"{place} is asked for")
            await until(lambda: kept(tmp_path) == museums.answered() == HELD[place], f"{HELD[place]} others are kept")

        async with asyncio.TaskGroup() as group:
            found = await asked(connections, mode)
            following = group.create_task(found.follow())
            for place in (*HELD, "ai.process"):
                await within(place)
                kill(place)
            await found.ended()
            following.cancel()
    expect_done(found, museums)
    assert [path.partition("?")[0] for _, path in museums.dropped] == [*HELD]
    assert (await verify(connections.log, connections.pool)).differences == []


def expect_done(found: Followed, museums: MuseumWeb, most: int = 1) -> None:
    """Four steps, each of which did its work, and nothing asked for more often than so many workflows need it."""
    assert type(found.accepted[-1]).__name__ == "RoundCompleted"
    results = found.of("ActionCompleted")
    assert [event.action for event in found.of("ActionSelected")] == [*COURSE]
    assert [(event.step, event.outcome) for event in results] == [(step, "done") for step in (1, 2, 3, 4)]
    assert {asked: times for asked, times in museums.more_than_once().items() if times > most} == {}
    assert museums.times("/private/plans") == 0
    assert set(museums.of("attacker")) <= {LINK}
