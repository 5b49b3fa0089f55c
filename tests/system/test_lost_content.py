"""Contents that were lost or changed in the content store: `status`, `verify` and `replay --all` say so."""

from pathlib import Path
from typing import Any

import pytest
from commands import Shell
from stored_files import stored_files

pytestmark = [pytest.mark.system]

ESTIMATE = Path(__file__).parents[2] / "docs" / "examples" / "estimate.pdf"


def faults(verified: Any) -> dict[str, str]:
    """The faults that were found, by content."""
    return {each["content"]: each["fault"] for each in verified["content"]["faults"]}


def unpack(folder: Path) -> None:
    """Store every content as a file of its own, as 0.3 did."""
    for path, content in stored_files(folder).items():
        if Path(path).parent.suffix == ".pack":
            (folder / Path(path).name).write_bytes(content)
    for pack in folder.glob("*.pack"):
        pack.unlink()


async def test_contents_that_were_lost_or_changed_are_named_by_workflow_and_document(shell: Shell) -> None:
    asked = await shell("ask", "What is the grand total of the estimate?", "--document", ESTIMATE, "--json")
    workflow = asked.lines[0]["workflowId"]
    store = Path(shell.environment["POWERON_HOME"]) / "content"
    (verified,) = (await shell("verify", "--content", "--json")).lines
    content = verified["content"]
    count = content["referenced"]
    assert (content["faults"], content["unreferenced"], content["stored"]) == ([], 0, count)
    assert content["read"] == count - 1 > 5  # all but the key

    store.rename(store.with_name("moved"))
    status = await shell("status", "--json")
    assert (status.code, status.lines[0]["content"]) == (1, "lost")
    assert "POWERON_CONTENT says where it is; restore it from a copy." in " ".join(status.err.split())
    replayed = await shell("replay", "--all", "--json")
    assert (replayed.code, replayed.lines[-1]["code"]) == (1, "content_lost")
    lost = await shell("verify")
    assert lost.code == 1
    assert f"Workflow {workflow}: {count} contents are missing or damaged." in lost.out
    assert "  r1d1 estimate.pdf: missing" in lost.out
    assert f"{count} of {count} contents that events refer to are missing or damaged, in 1 workflow." in lost.out

    store.rmdir()
    store.with_name("moved").rename(store)
    assert (await shell("status", "--json")).lines[0]["content"] == "reachable"
    events = (await shell("events", workflow, "--json")).lines
    call = next(event["data"]["modelCall"] for event in events if event["data"].get("modelCall"))
    exchanged = call["promptRef"]
    folder = store / workflow
    unpack(folder)
    documents = {each["content"] for event in events for each in event["data"].get("documents", ())}
    gone, truncated = sorted(documents, key=lambda name: (folder / name).stat().st_size)[-2:]
    (folder / truncated).write_bytes((folder / truncated).read_bytes()[:100])
    (folder / gone).unlink()
    (folder / exchanged).write_bytes(b"?" * (folder / exchanged).stat().st_size)
    (folder / ("0" * 64)).write_bytes(b"no event refers to it")

    listed = await shell("verify", "--json")
    assert (listed.code, faults(listed.lines[0])) == (1, {truncated: "damaged", gone: "missing"})
    assert listed.lines[0]["content"]["unreferenced"] == 1
    read = await shell("verify", "--content", "--json")
    assert faults(read.lines[0]) == {truncated: "damaged", gone: "missing", exchanged: "damaged"}
    key = (await shell("audit", "key", "--json")).lines[0]["keys"][0]
    audited = await shell("audit", "verify", "--key", key, "--content", "--json")
    (contents,) = (claim for claim in audited.lines[0]["claims"] if claim["id"] == "V10")
    assert (audited.code, contents["status"]) == (1, "fail")
    assert contents["detail"].startswith(f"workflow {workflow}: the content ")
    assert contents["detail"].endswith(" (2 more)")
