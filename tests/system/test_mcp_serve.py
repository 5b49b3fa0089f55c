"""`poweron mcp serve` as an assistant meets it: the SDK's own client over stdio, on the real servers."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from commands import POWERON, Shell
from mcp import MCPError
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from processes import ONE_STEP, script

from poweron_services.settings.config import local_user

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]


def assistant(environment: dict[str, str], folder: Path, errors: Any) -> Client:
    """A client whose server is started in the folder, as assistants start theirs."""
    started = StdioServerParameters(command=str(POWERON), args=["mcp", "serve"], env=environment, cwd=folder)
    return Client(stdio_client(started, errlog=errors))


async def call(client: Client, tool: str, progress: list[str] | None = None, **arguments: Any) -> Any:
    """What a tool gives; its text is the same as its structure."""

    async def told(_: float, __: float | None, sentence: str | None) -> None:
        if progress is not None:
            progress.append(str(sentence))

    given = await client.call_tool(tool, arguments, progress_callback=told)
    assert json.loads(given.content[0].text) == given.structured_content
    assert given.is_error == (
        "error" in given.structured_content or given.structured_content.get("status") == "refused"
    )
    return given


COMPLETED = ("completed", "It is written.")


async def ended(client: Client, workflow: str) -> Any:
    """What `workflow` gives once nothing of it runs any more."""
    with anyio.fail_after(60):
        while (found := await call(client, "workflow", workflowId=workflow)).structured_content["status"] == "running":
            pass
    return found


async def abandoned(client: Client) -> str:
    """The workflow that an assistant asked for and then stopped waiting for."""
    said: list[str] = []
    with anyio.CancelScope() as waiting:

        async def told(_: float, __: float | None, sentence: str | None) -> None:
            said.append(str(sentence))
            if len(said) > 1:  # it was taken
                waiting.cancel()

        await client.call_tool("ask", {"prompt": "Write it."}, progress_callback=told)
    return said[0].split()[1]


async def nothing_else_is_handed_over(client: Client, folder: Path) -> None:
    for path in ("link.txt", "../secret.txt", str(folder / "secret.txt")):
        refused = await call(client, "ask", prompt="Write it.", documents=[{"path": path}])
        assert (refused.is_error, refused.structured_content["code"]) == (True, "file_not_allowed"), path
        assert "1234" not in str(refused)


async def the_trail_is_that_of_the_commands(client: Client, shell: Shell, workflow: str) -> None:
    told = (await shell("history", workflow, "--json")).lines
    trail = (await call(client, "history", workflowId=workflow)).structured_content
    assert (trail["entries"], trail["older"]) == (told, None)
    page = (await call(client, "history", workflowId=workflow, limit=1)).structured_content
    rest = (await call(client, "history", workflowId=workflow, before=page["older"])).structured_content
    assert page["entries"] + rest["entries"] == told


async def the_document_can_be_read(client: Client, done: Any) -> None:
    (written,) = done.structured_content["documents"]
    assert done.content[1].resource.mime_type == written["mimeType"]
    read = await client.read_resource(written["uri"])
    assert read.contents[0].text == done.content[1].resource.text
    with pytest.raises(MCPError, match="There is no document"):
        await client.read_resource(written["uri"].replace("documents", "documents/../.."))


@pytest.mark.req("E-08")
@pytest.mark.req("H-01")
async def test_an_assistant_hands_over_work_reads_its_audit_trail_and_passes_on_an_approval(
    shell: Shell, environment: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "note.txt").write_text("The total is 42.")
    (tmp_path / "secret.txt").write_text("The key is 1234.")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    environment |= {"POWERON_MODEL": script(tmp_path, ONE_STEP), "POWERON_APPROVE": "ai.process"}
    with (tmp_path / "stderr").open("w") as errors:
        async with assistant(environment, folder, errors) as client:
            tools = (await client.list_tools()).tools
            reading = [tool.name for tool in tools if tool.annotations and tool.annotations.read_only_hint]
            assert reading == ["workflow", "history"]
            await nothing_else_is_handed_over(client, tmp_path)
            said: list[str] = []
            given = [{"path": "note.txt"}, {"name": "b.txt", "text": "Written."}, {"name": "c.bin", "base64": "AAE="}]
            asked = await call(client, "ask", said, prompt="Write it.", documents=given, formats=["markdown"])
            state = asked.structured_content
            workflow, waits = state["workflowId"], state["waitsFor"]
            assert (state["status"], waits["action"]) == ("waiting_approval", "ai.process")
            assert said[0] == f"Workflow {workflow} is requested; `poweron cancel {workflow}` cancels it."
            assert any("ai.process waits for a person" in sentence for sentence in said)
            names = [each["documentName"] for each in (await shell("documents", workflow, "--json")).lines]
            assert names == ["note.txt", "b.txt", "c.bin"]

            other = {"workflowId": workflow, "approvalId": f"{waits['approvalId'][:-1]}x", "decision": "approve"}
            assert (await call(client, "approve", **other)).structured_content["code"] == "other_parameters"
            approved = await call(client, "approve", **{**other, "approvalId": waits["approvalId"]})
            assert approved.structured_content["status"] == "approved"
            done = await ended(client, workflow)
            assert (done.structured_content["status"], done.structured_content["message"]) == COMPLETED
            await the_document_can_be_read(client, done)
            await the_trail_is_that_of_the_commands(client, shell, workflow)
            again = await call(client, "approve", **{**other, "approvalId": waits["approvalId"]})
            (printed,) = (await shell("approve", workflow, "--json")).lines
            assert again.structured_content == printed
            assert f"was approved by {local_user()}" in printed["error"]

            other_workflow = await abandoned(client)
            assert (await ended(client, other_workflow)).structured_content["status"] == "waiting_approval"

            at_once = (await call(client, "ask", prompt="Write it.", waitSeconds=0)).structured_content
            assert at_once["status"] in {"running", "waiting_approval"}  # an answer that is at hand takes no time
            assert at_once["message"] == ""
    assert "Traceback" not in (tmp_path / "stderr").read_text()
