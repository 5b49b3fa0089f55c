"""`poweron audit identify` on the real servers: reports and documents are found by their bytes, and changes are said."""

import hashlib
from pathlib import Path
from typing import Any

import docx
import pytest
from commands import Shell

pytestmark = [pytest.mark.system]

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
REPORT = "Write a report on the budget."


async def identified(shell: Shell, path: Path, code: int) -> Any:
    ended = await shell("audit", "identify", path, "--json")
    assert ended.code == code, ended.err
    (line,) = ended.lines
    return line


async def test_a_file_leads_to_its_workflow_and_a_changed_one_says_so(shell: Shell) -> None:
    budget = EXAMPLES / "budget.xlsx"
    asked = await shell("ask", REPORT, "--document", budget, "--output", shell.folder / "out", "--json")
    workflow = asked.lines[0]["workflowId"]
    paths = {each["documentName"]: Path(each["path"]) for each in asked.lines[0]["documents"]}
    ids = {each["documentName"]: each["documentId"] for each in asked.lines[0]["documents"]}
    assert {"answer.md", *(f"report.{ending}" for ending in ("md", "html", "docx", "pdf", "xlsx"))} == paths.keys()

    for name, path in paths.items():
        line = await identified(shell, path, 0)
        assert (line["verdict"], line["mark"]["documentId"]) == ("whole", ids[name])
        assert [(each["workflowId"], each["documentId"], each["origin"]) for each in line["matches"]] == [
            (workflow, ids[name], "written")
        ]
    given = await identified(shell, budget, 0)
    assert (given["mark"], given["matches"][0]["workflowId"], given["matches"][0]["origin"]) == (
        None,
        workflow,
        "handed_over",
    )
    assert hashlib.sha256(budget.read_bytes()).hexdigest() == given["sha256"]
    assert given["sha256"].encode() in paths["report.pdf"].read_bytes()

    saved = docx.Document(str(paths["report.docx"]))
    saved.paragraphs[-1].text = "Approved."
    saved.save(str(changed := shell.folder / "changed.docx"))
    line = await identified(shell, changed, 1)
    assert (line["verdict"], line["matches"]) == ("changed", [])
    plain = await shell("audit", "identify", changed)
    assert (plain.code, line["next"] in " ".join(plain.err.split())) == (1, True)
    assert line["recorded"] == {
        "size": paths["report.docx"].stat().st_size,
        "sha256": hashlib.sha256(paths["report.docx"].read_bytes()).hexdigest(),
    }

    passed_on = await shell("ask", "What is approved?", "--document", changed, "--json")
    line = await identified(shell, changed, 1)
    assert (line["verdict"], line["mark"]["workflowId"]) == ("changed", workflow)
    assert [(each["workflowId"], each["origin"]) for each in line["matches"]] == [
        (passed_on.lines[0]["workflowId"], "handed_over")
    ]

    stripped = shell.folder / "stripped.md"
    stripped.write_text(paths["report.md"].read_text().partition("<!-- PowerOn")[0])
    assert (await identified(shell, stripped, 1))["verdict"] == "unknown"
    (key,) = shell.folder.glob(f"**/{workflow}/key")
    key.unlink()
    for path in (paths["report.pdf"], budget):
        found = await identified(shell, path, 1)
        assert (found["verdict"], found["withoutKey"], workflow in found["next"]) == ("unknown", [workflow], True)


async def test_a_file_that_cannot_be_read_is_said_in_a_sentence(shell: Shell) -> None:
    folder, empty, large = shell.folder, shell.folder / "empty.pdf", shell.folder / "large.pdf"
    empty.touch()
    with large.open("wb") as file:
        file.truncate(200_000_001)
    for path, sentence in (
        (folder / "missing.pdf", "There is no file"),
        (folder, "is a folder. Name a file in it."),
        (empty, "is empty, so nothing can be found by it."),
        (large, "is larger than 200 MB"),
    ):
        ended = await shell("audit", "identify", path)
        assert (ended.code, sentence in " ".join(ended.err.split())) == (2, True), ended.err
    cut = folder / "cut.docx"
    cut.write_bytes(b"PK\x03\x04 and no more")
    locked = folder / "locked.pdf"
    locked.write_bytes(b"%PDF-1.7\ntrailer <</Encrypt 5 0 R>>")
    for path, obstacle in ((cut, "broken_archive"), (locked, "encrypted")):
        assert (await identified(shell, path, 1))["obstacle"] == obstacle
