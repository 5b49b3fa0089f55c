"""Rows that somebody changed in Postgres: commands refuse to show them, and say so."""

import pytest
from commands import NOBODY, Shell

from builders import Told, typical
from poweron_events import topics
from poweron_projections.connection import acquire
from poweron_projections.verify import catch_up
from poweron_projections.workflow_check import TABLES
from poweron_services.client.connect import Connections

pytestmark = [pytest.mark.system]

COMMANDS = {
    "history": ("--verify",),
    "events": (),
    "documents": (),
    "show": (),
    "export": (),
    "replay": (),
    "sources": (),
    "approve": (),
    "fork": ("--at", "0", "--no-serve"),
    "diff": (NOBODY,),
}
"""All commands that compare the rows of one workflow with the log, with their further arguments."""


@pytest.fixture
async def workflow(connections: Connections) -> str:
    for told in (typical("1"), typical("2")):
        await connections.log.append(topics.EVENTS.name, told.messages)
    await catch_up(connections.log, connections.pool)
    return typical("1").id


async def run(connections: Connections, statement: str) -> None:
    async with acquire(connections.pool) as connection:
        await connection.execute(statement)


async def refusals(shell: Shell, workflow: str, *commands: str) -> dict[str, str]:
    """What each command says; none shows anything."""
    said = {}
    for command in commands:
        found = await shell(command, workflow, *COMMANDS[command])
        assert (found.code, found.out) == (1, ""), (command, found)
        said[command] = " ".join(found.err.split())
    return said


@pytest.mark.req("H-04")
async def test_no_command_shows_rows_that_were_changed(connections: Connections, shell: Shell, workflow: str) -> None:
    await run(connections, f"UPDATE messages SET summary = 'It was 43.' WHERE workflow_id = '{workflow}' AND step = 1")
    for command, said in (await refusals(shell, workflow, *COMMANDS)).items():
        assert f"The rows of workflow {workflow} are not what the log says: messages (workflow_id {workflow}" in said
        assert "column summary: expected" in said, command
        assert "found 'It was 43.'" in said, command
        assert "`poweron rebuild` replaces all rows with what the log says." in said, command
    assert "It was 43." in (await shell("history", workflow)).out
    (error,) = (await shell("history", workflow, "--verify", "--json")).lines
    assert error["code"] == "rows_differ"
    everything = await shell("replay", "--all", "--json")
    assert (everything.code, everything.lines[-1]["code"]) == (1, "rows_differ")
    assert (await shell("history", typical("2").id, "--verify")).code == 0
    assert (await shell("rebuild")).code == 0
    assert (await shell("history", workflow, "--verify")).code == 0


@pytest.mark.req("H-04")
async def test_a_workflow_whose_rows_were_deleted_is_not_unknown(
    connections: Connections, shell: Shell, workflow: str
) -> None:
    for table in TABLES:
        await run(connections, f"DELETE FROM {table.name} WHERE workflow_id = '{workflow}'")
    count = len(typical("1").messages)
    for command, said in (await refusals(shell, workflow, "events", "sources", "approve")).items():
        assert f"The log holds {count} records of workflow {workflow}, but its rows are missing." in said, command
        assert "`poweron rebuild` rebuilds them from the log." in said, command
    for command in (
        ("history", workflow),
        ("cancel", workflow),
        ("ask", "And now?", "--no-serve", "--workflow", workflow),
    ):
        found = await shell(*command, "--json")
        assert found.lines[-1]["code"] == "rows_missing", (command, found)
    unknown = await shell("history", Told("unknown").id, "--verify", "--json")
    assert unknown.lines[-1]["code"] == "unknown_workflow"


@pytest.mark.req("H-04")
async def test_bytes_that_were_forged_with_their_digest_are_not_passed_on(
    connections: Connections, shell: Shell, workflow: str
) -> None:
    other = f"SELECT compressed, sha256 FROM records WHERE workflow_id = '{typical('2').id}' AND seq = 3"
    await run(
        connections,
        f"UPDATE records SET (compressed, sha256) = ({other}) WHERE workflow_id = '{workflow}' AND seq = 3",
    )
    for command, said in (await refusals(shell, workflow, "events", "export", "show")).items():
        assert "records (partition" in said, command
        assert "column sha256: expected" in said, command
