"""The example's question to a folder, by a real server of files, in both modes."""

from pathlib import Path

import pytest
from doubles import World, our_actions
from modes import MODES
from registry_servers import FILESYSTEM, node_server
from tool_servers import named, tools_of

from builders import requested
from poweron_events.request import workflow_id
from poweron_services.models.builtin import BuiltinModel

pytestmark = pytest.mark.usefixtures("logged")

ID = workflow_id("/tests", "1")
CLUB = Path(__file__).parents[3] / "docs" / "examples" / "club"


@pytest.mark.req("A-03")
@pytest.mark.parametrize("mode", MODES)
async def test_a_folder_is_listed_read_and_answered_from_in_both_modes(mode: str, tmp_path: Path) -> None:
    asked = "Which files in the folder mention the exhibition?"
    async with tools_of(named(tmp_path, {"files": node_server(FILESYSTEM, str(CLUB))}), tmp_path / "home") as tools:
        world = World([*await our_actions(), *tools.values()], model=BuiltinModel())
        async with world.process():
            await world.tell(ID, requested(prompt=asked, workflow_mode=mode, documents=()))
            workflow = await world.ended(ID)
    chosen = [event.action for event in world.accepted(ID) if type(event).__name__ == "ActionSelected"]
    assert chosen == [
        "files.list_allowed_directories",
        "files.list_directory",
        "files.read_multiple_files",
        "ai.process",
    ]
    assert workflow.current.ending == "completed"
    message = world.accepted(ID)[-1].message
    assert {each.name for each in CLUB.iterdir() if each.name in message} == {"minutes.txt", "newsletter.md"}
