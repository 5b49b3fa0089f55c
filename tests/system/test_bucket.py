"""The whole way with the content in a bucket: asked, answered, shown, written, cleared up."""

import uuid
from pathlib import Path

import pytest
from commands import Shell
from s3 import BUCKET, S3

from poweron_events.content import ContentStore

pytestmark = [pytest.mark.system, pytest.mark.req("R-02")]
ESTIMATE = Path(__file__).parents[2] / "docs" / "examples" / "estimate.pdf"
TOTAL = "1,980.84"


async def test_a_question_is_answered_from_a_document_in_a_bucket_and_every_command_reads_it_there(
    shell: Shell, s3: S3, tmp_path: Path
) -> None:
    place = f"s3://{BUCKET}/{uuid.uuid4()}"
    shell.environment |= {"POWERON_CONTENT": place, **s3.environment}
    asked = await shell("ask", "What is the grand total of the estimate?", "--document", str(ESTIMATE), "--json")
    assert asked.code == 0, asked.err
    (answer,) = asked.lines
    assert TOTAL in answer["message"]
    assert TOTAL in (tmp_path / answer["documents"][0]["path"]).read_text()

    workflow = answer["workflowId"]
    shown = (await shell("documents", workflow, "--output", "here", "--json")).lines
    assert (tmp_path / next(each["path"] for each in shown if each["documentName"] == "estimate.pdf")).read_bytes() == (
        ESTIMATE.read_bytes()
    )
    assert not (tmp_path / "home" / "content").exists()
    assert (await shell("verify")).code == 0

    before = {each.path async for page in ContentStore.at(place).stored() for each in page}
    for command in (("--dry-run",), ()):
        (found,) = (await shell("documents", "gc", *command, "--json")).lines
        assert found == {
            "dryRun": bool(command),
            "objects": 0,
            "bytes": 0,
            "oldest": None,
            "workflows": [],
            "skipped": [],
        }
    assert {each.path async for page in ContentStore.at(place).stored() for each in page} == before


async def test_a_bucket_that_is_not_there_ends_the_command_with_a_sentence(shell: Shell, s3: S3) -> None:
    shell.environment |= {"POWERON_CONTENT": "s3://no-such-bucket", **s3.environment}
    asked = await shell("ask", "What is the total?", "--json")
    assert asked.code == 1
    assert "There is no such bucket: make it, or name another one in POWERON_CONTENT" in asked.lines[-1]["error"]
