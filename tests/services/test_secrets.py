"""A key stands in the settings of the process that needs it, and nowhere else."""

from contextlib import aclosing
from pathlib import Path

import pytest
from doubles import CRITERION, EVENTS, Counting, World
from providers import KEY, Playing, failing, opened, playing_stages
from pytest_httpserver import HTTPServer

from poweron_events.content import ContentStore
from poweron_services import telemetry
from poweron_services.cli.server_commands import masked

SELECTED = {"action": "test.pure", "actionObjective": "Do it", "requiredConnection": "crm"}


async def worked(server: HTTPServer, folder: Path) -> World:
    """A world in which a round has ended that a provider's model was asked for, with a log of everything."""
    world = World([Counting()])
    world.content = ContentStore.at(str(folder / "content"))
    telemetry.configure("debug", telemetry.LogFile(folder / "log"))
    async with aclosing(opened(server, "openai", model_output="tool")) as model:
        world.model = model  # type: ignore[assignment] # another model than a scripted one
        id_ = await world.ask(connections=("crm",))
        async with world.process():
            await world.ended(id_)
    return world


def written(world: World, folder: Path) -> list[bytes]:
    """All events, all prompts and answers, and the log."""
    events = [record.value or b"" for records in world.log._topics[EVENTS] for record in records]
    return [*events, *(path.read_bytes() for path in folder.rglob("*") if path.is_file())]


@pytest.mark.req("R-03")
async def test_a_connection_is_known_by_its_label_and_a_key_to_the_provider_only(
    httpserver: HTTPServer, tmp_path: Path
) -> None:
    playing = Playing(httpserver, "openai", [playing_stages(CRITERION, "Done.", answer_select=SELECTED)])
    everything = written(await worked(httpserver, tmp_path), tmp_path)
    assert {sent["Authorization"] for sent in playing.headers} == {f"Bearer {KEY}"}
    assert any(b'"requiredConnection":"crm"' in one for one in everything)
    assert any(rb"\nConnections:\n<<<" in one and rb"\n- crm\n>>>" in one for one in everything)
    assert any(b"model_answered" in one for one in everything)
    assert not any(KEY.encode() in one for one in everything)


@pytest.mark.req("R-03")
@pytest.mark.parametrize("status", [400, 403])
async def test_a_key_that_a_provider_repeats_reaches_no_event_no_prompt_and_no_log_line(
    status: int, httpserver: HTTPServer, tmp_path: Path
) -> None:
    Playing(httpserver, "openai", [failing("openai", status, f"What you sent, {KEY}, is nobody of ours")])
    everything = written(await worked(httpserver, tmp_path), tmp_path)
    assert any(b"poweron.stage.failed.v1" in one for one in everything)
    assert not any(b"canary" in one for one in everything)


@pytest.mark.parametrize(
    ("dsn", "shown"),
    [
        ("postgresql://ada@db/poweron", "postgresql://ada@db/poweron"),
        ("postgresql://ada:s3cret@db/poweron", "postgresql://ada:***@db/poweron"),
        ("postgresql://db/x?user=u&password=s3cret&ssl=1", "postgresql://db/x?user=u&password=***&ssl=1"),
        ("postgresql://db/x?sslpassword=s3cret", "postgresql://db/x?sslpassword=***"),
    ],
)
def test_no_password_is_shown(dsn: str, shown: str) -> None:
    assert masked(dsn) == shown
