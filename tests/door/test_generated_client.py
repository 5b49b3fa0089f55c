"""A client that is generated from the OpenAPI document asks with two files, reads the outcome, lists and approves."""

import asyncio
import shutil
from pathlib import Path

import orjson
import pytest
from opened_door import Door

pytestmark = [pytest.mark.system, pytest.mark.soak, pytest.mark.timeout(600)]

EXAMPLES = Path(__file__).parents[2] / "docs/examples"
NEEDED = ("uv", "run", "--no-project", "--with", "openapi-python-client==0.29.1")
"""Runs a program beside the generator, which brings all that its clients need; nothing of the project is there."""
STORY = """
import io, json, sys
from pathlib import Path
from generated.client import Client
from generated.api.commands import answer_approval, carry_out_batch, start_workflow
from generated.api.content import download_content
from generated.api.operations import list_approvals, sum_usage
from generated.api.workflows import list_documents, list_workflows, read_workflow
from generated.models import (
    AcceptedJson, AnswerOutcome, ApprovalBody, ApprovalBodyDecision, BatchOutcome, NamedBatch, NamedBatchVerb, Problem,
    StartWorkflowFilesBody, WorkflowBody, WorkflowOutcome,
)
from generated.types import File

client, files = Client(base_url=sys.argv[1], timeout=120, raise_on_unexpected_status=True), sys.argv[2:]
documents = [File(payload=io.BytesIO(Path(file).read_bytes()), file_name=Path(file).name) for file in files]

def ask(prefer, **more):
    body = StartWorkflowFilesBody(request=WorkflowBody(prompt="When does it open?", **more), file=documents)
    return start_workflow.sync(client=client, body=body, prefer=prefer, idempotency_key=prefer)

outcome = ask("wait=100")
assert isinstance(outcome, WorkflowOutcome), outcome
stored = list_documents.sync(outcome.workflow_id, client=client).items
bytes_ = [download_content.sync(outcome.workflow_id, each.content, client=client).payload.read() for each in stored]

accepted = ask("wait=0", approve=["*"])
assert isinstance(accepted, AcceptedJson), accepted
answers = []
while isinstance(read_workflow.sync(accepted.workflow_id, client=client), Problem):
    pass  # it is not open yet
while (state := read_workflow.sync(accepted.workflow_id, client=client)).status.value == "running":
    for entry in list_approvals.sync(client=client).items:
        place = f"r{entry.round_}t{entry.task}a{entry.attempt}s{entry.step}"
        body = ApprovalBody(decision=ApprovalBodyDecision.APPROVE, parameters_sha_256=entry.parameters_sha_256)
        answer = answer_approval.sync(entry.workflow_id, place, client=client, body=body, prefer="wait=60")
        assert isinstance(answer, AnswerOutcome), answer
        answers.append(answer.status.value)

listed, cursor = [], None
while True:
    page = list_workflows.sync(client=client, limit=1, **({"cursor": cursor} if cursor else {}))
    listed += [each.workflow_id for each in page.items]
    cursor = page.next_
    if cursor is None:
        break
body = NamedBatch(verb=NamedBatchVerb.PAUSE, ids=[outcome.workflow_id])
batch = carry_out_batch.sync(client=client, body=body)
assert isinstance(batch, BatchOutcome), batch
unknown = read_workflow.sync("8f14e45f-ceea-567a-8f14-e45fceea167a", client=client)
assert isinstance(unknown, Problem), unknown
print(json.dumps({
    "status": outcome.status.value, "message": outcome.message, "stored": [each.document_name for each in stored],
    "sizes": [len(each) for each in bytes_], "approved": state.status.value, "answers": answers, "listed": listed,
    "expected": [accepted.workflow_id, outcome.workflow_id], "batch": [each.code for each in batch.results],
    "calls": sum(each.calls for each in sum_usage.sync(client=client).items), "unknown": unknown.code,
}))
"""


async def run(folder: Path, *arguments: str) -> tuple[int | None, str]:
    """Run a program beside the generator; return its status and what it prints."""
    process = await asyncio.create_subprocess_exec(
        *NEEDED, *arguments, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    return process.returncode, said.decode()


async def test_a_generated_client_asks_with_files_reads_the_outcome_lists_and_approves(
    door: Door, tmp_path: Path
) -> None:
    if shutil.which("uv") is None or (await run(tmp_path, "python", "-c", ""))[0]:
        pytest.skip("the generator of clients is not installed, and cannot be")  # its own errors fail the test
    (tmp_path / "openapi.json").write_bytes((await door.http.get("/api/v1/openapi.json")).content)
    (tmp_path / "story.py").write_text(STORY)
    options = ("--path", "openapi.json", "--output-path", "generated", "--meta", "none", "--fail-on-warning")
    status, said = await run(tmp_path, "openapi-python-client", "generate", *options)
    assert status == 0, said
    files = [str(EXAMPLES / name) for name in ("letter.txt", "estimate.pdf")]
    status, said = await run(tmp_path, "python", "story.py", door.address, *files)
    assert status == 0, said
    result = orjson.loads(said.splitlines()[-1])
    assert (result["status"], result["approved"]) == ("completed", "completed")
    assert "12" in result["message"]
    assert {"letter.txt", "estimate.pdf"} <= set(result["stored"])
    assert all(result["sizes"])
    assert set(result["answers"]) == {"approved"}
    assert result["listed"] == result["expected"]
    assert result["batch"] == ["round_ended"]
    assert result["calls"] > 0
    assert result["unknown"] == "unknown_workflow"
