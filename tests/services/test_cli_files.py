"""Documents that are written to a folder, whatever they are called and whatever lies there already."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poweron_events.content import ContentStore
from poweron_events.event import READING, DocumentRef
from poweron_events.fold.state import Ending
from poweron_events.outcome import Totals
from poweron_services.cli import files
from poweron_services.cli.ask_command import exit_code
from poweron_services.cli.context import CANCELLED, FAILED
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Outcome

WORKFLOW = "0b0d3a3e-3f5e-5c5a-9d2e-0a6f5d1c2b3a"
DATA = b"What was found.\n"
OUTSIDE = b"what was there before"

HOSTILE = [
    "..", ".", "../x", "/etc/x", "a/b", "a\\b", "~", "-rf", "x\0y", "x\ny", "con", "link", "\u202etxt", "r1d1",
]  # fmt: skip
pieces = st.lists(st.sampled_from(HOSTILE) | st.text(max_size=8), min_size=1, max_size=4)
names = st.tuples(pieces, st.sampled_from(["", "/", "../", "/../"])).map(lambda told: told[1].join(told[0])[:64] or "x")


def document(document_id: str, name: str, content: str) -> DocumentRef:
    """As it is read from the log, where anybody may have written it."""
    said = {"documentId": document_id, "documentName": name, "mimeType": "text/plain", "size": 1, "content": content}
    return DocumentRef.model_validate(said, context=READING)


async def written(documents: Sequence[tuple[str, str]], folder: Path) -> list[dict[str, Any]]:
    store = ContentStore.at("memory:///")
    content = await store.put(WORKFLOW, DATA)
    connections = cast("Connections", SimpleNamespace(content=store))
    return await files.write(connections, WORKFLOW, [document(*each, content) for each in documents], folder)


def everything(folder: Path) -> set[str]:
    return {f"{place}/{name}" for place, folders, names in os.walk(folder) for name in folders + names}


@pytest.mark.req("X-03")
@settings(max_examples=500)
@given(documents=st.lists(st.tuples(names, names), min_size=10, max_size=10))
def test_no_document_is_written_outside_of_its_folder(
    documents: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    base = tmp_path_factory.mktemp("written")
    (base / "out").mkdir()
    outside = everything(base)
    told = asyncio.run(written(documents, base / "out"))
    for path in (Path(each["path"]) for each in told if each["path"] is not None):
        assert path.parent == base / "out"
        assert path.read_bytes() == DATA
    assert {path for path in everything(base) if not path.startswith(f"{base}/out/")} == outside
    assert all(each["code"] == "document_id_invalid" for each in told if each["path"] is None)


@pytest.mark.req("S21")
def test_csv_is_written_so_that_no_cell_of_it_is_a_formula_and_other_files_as_they_are(tmp_path: Path) -> None:
    async def write() -> None:
        store = ContentStore.at("memory:///")
        connections = cast("Connections", SimpleNamespace(content=store))
        content = await store.put(WORKFLOW, b"name,total\n=1+1,-5\n")
        await files.write(
            connections, WORKFLOW, [document("a", "a.csv", content), document("b", "b.txt", content)], tmp_path
        )

    asyncio.run(write())
    assert (tmp_path / "a-a.csv").read_bytes() == b"name,total\n'=1+1,-5\n"
    assert (tmp_path / "b-b.txt").read_bytes() == b"name,total\n=1+1,-5\n"


@pytest.mark.req("X-03")
def test_a_document_whose_id_is_no_name_is_shown_and_not_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    victim = "../victim"
    told = asyncio.run(written([(victim, "a.txt"), ("r1d1", "b.txt")], tmp_path / "out"))
    assert [each["path"] for each in told] == [None, str(tmp_path / "out" / "r1d1-b.txt")]
    assert (told[0]["documentId"], told[0]["code"]) == (victim, "document_id_invalid")
    assert everything(tmp_path) == {str(tmp_path / "out"), str(tmp_path / "out" / "r1d1-b.txt")}
    assert "'a.txt' is not written" in capsys.readouterr().err


@pytest.mark.req("X-03")
@pytest.mark.parametrize("there", ["link", "dangling link", "folder", "fifo"])
def test_what_is_no_file_in_the_folder_is_not_written_through(
    there: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, victim = tmp_path / "out", tmp_path / "victim"
    out.mkdir()
    path = out / "r1d1-a.txt"
    match there:
        case "link":
            victim.write_bytes(OUTSIDE)
            path.symlink_to(victim)
        case "dangling link":
            path.symlink_to(victim)
        case "folder":
            path.mkdir()
        case _:
            os.mkfifo(path)
    before = everything(tmp_path)
    (told,) = asyncio.run(written([("r1d1", "a.txt")], out))
    assert (told["path"], told["code"]) == (None, "folder_unwritable")
    assert everything(tmp_path) == before
    assert not victim.exists() or victim.read_bytes() == OUTSIDE
    assert "that is no file has this name" in " ".join(capsys.readouterr().err.split())


def test_another_file_of_the_same_name_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r1d1-a.txt").write_bytes(OUTSIDE)
    (told,) = asyncio.run(written([("r1d1", "a.txt")], tmp_path))
    assert told["path"] == str(tmp_path / "r1d1-a-2.txt")
    assert Path(told["path"]).read_bytes() == DATA
    assert (tmp_path / "r1d1-a.txt").read_bytes() == OUTSIDE
    assert "is another file and stays" in " ".join(capsys.readouterr().err.split())


def test_a_document_that_was_written_before_is_not_written_twice(tmp_path: Path) -> None:
    (tmp_path / "r1d1-a.txt").write_bytes(OUTSIDE)
    for _ in range(2):
        asyncio.run(written([("r1d1", "a.txt")], tmp_path))
    assert everything(tmp_path) == {f"{tmp_path}/r1d1-a.txt", f"{tmp_path}/r1d1-a-2.txt"}


@pytest.mark.req("X-03")
@pytest.mark.parametrize("id_", ["", "..", "../x", "/x", "a/b", "a b", "é", "x" * 65, "-x", ".b", "x\n"])
def test_nobody_writes_an_event_with_an_id_that_is_no_name(id_: str) -> None:
    with pytest.raises(ValueError, match="document_id"):
        DocumentRef(document_id=id_, document_name="a.txt", mime_type="text/plain", size=1, content="0" * 64)


def named(name: str) -> DocumentRef:
    return DocumentRef(document_id="r1d1", document_name=name, mime_type="text/plain", size=1, content="ab" * 32)


@pytest.mark.req("S20")
@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("answer.md", "r1d1-answer.md"),
        ("answer (2).md", "r1d1-answer (2).md"),
        ("../../etc/passwd", "r1d1-etc_passwd"),
        ("/etc/passwd", "r1d1-etc_passwd"),
        ("..", "r1d1-document"),
        ("a\x00b\nc\x1b[2J.pdf", "r1d1-a_b_c__2J.pdf"),
        ("\u202efdp.exe", "r1d1-fdp.exe"),
        ("x" * 251 + ".pdf", "r1d1-" + "x" * 186 + ".pdf"),
        ("表" * 255, "r1d1-" + "表" * 63),
    ],
)
def test_a_document_is_written_under_a_name_that_stays_in_its_folder(name: str, written: str, tmp_path: Path) -> None:
    assert files._file_name(named(name)) == written
    (tmp_path / written).touch()


@pytest.mark.parametrize(
    ("status", "paths", "code"),
    [
        ("completed", ["out/a.md", "out/b.md"], 0),
        ("completed", [], 0),
        ("completed", ["out/a.md", None], FAILED),
        ("failed", ["out/a.md"], FAILED),
        ("cancelled", [None], CANCELLED),
    ],
)
def test_a_command_whose_document_could_not_be_written_has_failed(
    status: Ending, paths: list[str | None], code: int
) -> None:
    outcome = Outcome("w", status, "", (), Totals(), 1)
    assert exit_code(outcome, [{"path": path} for path in paths]) == code
