"""The key of a search engine is told to the engine, and stands nowhere else."""

from pathlib import Path

import pytest
from doubles import EVENTS, World, script
from engines import KEY, Playing, opened, page
from pytest_httpserver import HTTPServer
from stored_files import stored_files

from poweron_events.content import ContentStore
from poweron_events.step_events import ActionCompleted
from poweron_projections.folder import LocalFolder
from poweron_projections.projection import View
from poweron_services import telemetry
from poweron_services.actions.web_actions import WebSearch
from poweron_services.connectors.web.web_rules import WebSettings
from poweron_services.connectors.web_access import open_web
from poweron_services.settings.config import Settings

ECHO = page("https://harbor.example/", f"You sent {KEY}", f"Your key is {KEY}.", whole=f"{KEY} {KEY}")
SEARCHING = script(
    "web.search",
    selection=[{"action": "web.search", "actionObjective": "Find museums"}] * 3,
    parameters=[
        {
            "schema": "parameters_v1",
            "parameters": {"query": "museums", "includeAnswer": True, "includeRawContent": True},
        }
    ],
)


@pytest.mark.req("R-03")
@pytest.mark.req("S26")
@pytest.mark.req("S27")
@pytest.mark.parametrize("engine", ["tavily", "brave"])
@pytest.mark.parametrize("status", [200, 401, 422, 429, 500])
async def test_a_key_is_told_to_the_engine_only_whatever_that_repeats(
    engine: str, status: int, httpserver: HTTPServer, tmp_path: Path
) -> None:
    playing = Playing(httpserver, engine, [ECHO], answer=f"The key is {KEY}.")
    if status != 200:
        playing.failing(status)
    world = World([WebSearch()], SEARCHING)
    world.content = ContentStore.at(str(tmp_path / "content"))
    telemetry.configure("debug", telemetry.LogFile(tmp_path / "log"))

    async with opened(engine, httpserver.url_for("")) as given:
        assert given is not None
        async with open_web(WebSettings.of(Settings()), world.content, search=given.search) as web:
            id_ = await world.ask(prompt="Which museums are open?")
            async with world.process(web=web):
                await world.ended(id_)

    (completed,) = (event for event in world.accepted(id_) if isinstance(event, ActionCompleted))
    assert completed.success == (status == 200)
    assert any(KEY in value for value in playing.headers[0].values())
    assert [name for name, said in (await everything(world, tmp_path)).items() if KEY.encode() in said] == []


async def everything(world: World, folder: Path) -> dict[str, bytes]:
    """Events, rows, prompts, answers, documents and the log."""
    records = [record for partition in world.log._topics[EVENTS] for record in partition]
    rows = await LocalFolder().fold(records, _nothing_before)
    return {"events": repr(records).encode(), "rows": repr(rows).encode(), **stored_files(folder)}


async def _nothing_before(_: object) -> dict[str, View]:
    return {}
