"""The example of tools of others, by the real command: a real server lists and reads a folder, each call an event."""

import json
from pathlib import Path

import pytest
from commands import Shell
from registry_servers import FILESYSTEM, node_server

from poweron_services.connectors.mcp.server_list import read_servers

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

HOUSE = Path(__file__).parents[2]
EXAMPLE = HOUSE / "docs" / "examples" / "mcp.json"
QUESTION = "Which files in the folder mention the exhibition?"


def installed(folder: Path) -> Path:
    """The example's server as it is installed for tests: the file itself would have it fetched every time."""
    (entry,) = read_servers(EXAMPLE, {})
    package, club = entry.place.args[1:]  # type: ignore[union-attr] # a program
    assert package.rpartition("@")[0] == FILESYSTEM
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {entry.name: node_server(FILESYSTEM, club)}}))
    return path


def mentioning(word: str) -> set[str]:
    """The files of the folder that hold the word."""
    return {path.name for path in (HOUSE / "docs/examples/club").iterdir() if word in path.read_text()}


def named_in(path: str) -> set[str]:
    """The files of the folder that an answer names."""
    answer = Path(path).read_text()
    return {each.name for each in (HOUSE / "docs/examples/club").iterdir() if each.name in answer}


@pytest.mark.req("C-08")
async def test_the_example_answers_from_a_folder_that_a_real_server_reads(shell: Shell, tmp_path: Path) -> None:
    example = installed(tmp_path)
    asking = Shell(shell.environment | {"POWERON_MCP": str(example)}, HOUSE)

    asked = await asking("ask", QUESTION, "--json", "--output", tmp_path / "out")

    (outcome,) = asked.lines
    assert (asked.code, outcome["status"]) == (0, "completed"), asked.err
    assert named_in(outcome["documents"][0]["path"]) == mentioning("exhibition") == {"minutes.txt", "newsletter.md"}

    events = (await asking("events", outcome["workflowId"], "--json")).lines
    started = [event["data"] for event in events if event["type"] == "poweron.action.started.v1"]
    chosen = [event["data"]["action"] for event in events if event["type"] == "poweron.action.selected.v1"]
    assert chosen == [
        "files.list_allowed_directories",
        "files.list_directory",
        "files.read_multiple_files",
        "ai.process",
    ]
    assert [each["effectClass"] for each in started[:3]] == ["pure"] * 3
    assert not any(event["type"].startswith("poweron.approval") for event in events)
