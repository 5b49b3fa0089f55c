"""Documents that are written to a folder, whatever they are called and whatever lies there already."""

import asyncio
import errno
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from ordinary_user import as_ordinary_user

from poweron_events.content import ContentStore
from poweron_events.errors import PowerOnError
from poweron_events.event import READING, DocumentRef
from poweron_events.fold.state import Ending
from poweron_events.round_events import Totals
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


async def written(documents: Sequence[tuple[str, str]], folder: Path, data: bytes = DATA) -> list[dict[str, Any]]:
    store = ContentStore.at("memory:///")
    content = await store.put(WORKFLOW, data)
    connections = cast("Connections", SimpleNamespace(content=store))
    return await files.write(connections, WORKFLOW, [document(*each, content) for each in documents], folder)


def everything(folder: Path) -> set[str]:
    return {f"{place}/{name}" for place, folders, names in os.walk(folder) for name in folders + names}


@pytest.mark.req("X-03")
@settings(max_examples=150)
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
    assert "that is not a file has this name" in " ".join(capsys.readouterr().err.split())


def test_another_file_of_the_same_name_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r1d1-a.txt").write_bytes(OUTSIDE)
    (told,) = asyncio.run(written([("r1d1", "a.txt")], tmp_path))
    assert told["path"] == str(tmp_path / "r1d1-a-2.txt")
    assert Path(told["path"]).read_bytes() == DATA
    assert (tmp_path / "r1d1-a.txt").read_bytes() == OUTSIDE
    assert "is another file and is kept" in " ".join(capsys.readouterr().err.split())


def test_a_document_that_was_written_before_is_not_written_twice(tmp_path: Path) -> None:
    (tmp_path / "r1d1-a.txt").write_bytes(OUTSIDE)
    for _ in range(2):
        asyncio.run(written([("r1d1", "a.txt")], tmp_path))
    assert everything(tmp_path) == {f"{tmp_path}/r1d1-a.txt", f"{tmp_path}/r1d1-a-2.txt"}


async def test_many_workflows_that_write_to_one_folder_at_once_keep_all_documents(tmp_path: Path) -> None:
    contents = [f"answer {number}".encode() for number in range(40)]
    told = await asyncio.gather(*(written([("r1d1", "a.txt")], tmp_path, content) for content in contents))
    paths = [Path(each["path"]) for (each,) in told]
    assert [path.read_bytes() for path in paths] == contents
    assert everything(tmp_path) == {*map(str, paths)}


@pytest.mark.parametrize("folds", [False, True])
def test_names_that_are_equal_but_for_case_keep_all_documents(
    *, folds: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file system that tells them apart, and on one that does not."""
    if folds:
        real = os.open

        def folded(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            return real(path if dir_fd is None else path.lower(), flags, mode, dir_fd=dir_fd)

        monkeypatch.setattr(os, "open", folded)
    first = asyncio.run(written([("r1d1", "Answer.md")], tmp_path, b"first"))
    second = asyncio.run(written([("r1d1", "ANSWER.md")], tmp_path, b"second"))
    paths = [Path(each["path"]) for each in first + second]
    there = {path.name.lower(): path.read_bytes() for path in tmp_path.iterdir()}
    if folds or (tmp_path / "R1D1-ANSWER.MD").exists():
        assert there == {"r1d1-answer.md": b"first", "r1d1-answer-2.md": b"second"}
        assert [path.name for path in paths] == ["r1d1-Answer.md", "r1d1-ANSWER-2.md"]
    else:
        assert [path.read_bytes() for path in paths] == [b"first", b"second"]


async def test_a_document_that_the_disk_has_no_room_for_leaves_no_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "fdopen", full_disk)
    (told,) = await written([("r1d1", "a.txt")], tmp_path)
    assert (told["path"], told["code"]) == (None, "folder_unwritable")
    assert everything(tmp_path) == set()
    assert "No space left on device" in " ".join(capsys.readouterr().err.split())


@contextmanager
def full_disk(descriptor: int, _: str) -> Generator[Any, None, None]:
    def write(data: bytes) -> None:
        os.write(descriptor, data[:3])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    yield SimpleNamespace(write=write)
    os.close(descriptor)


@pytest.fixture
def open_folder() -> Generator[Path, None, None]:
    """A folder that every user of this machine may enter."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.parametrize(
    ("folder_mode", "mode", "codes"), [(0o555, 0o666, "2 folder_unwritable 2"), (0o777, 0o444, "r1d1-a.txt 2")]
)
def test_a_folder_or_file_that_is_read_only_is_reported_and_stays(
    folder_mode: int, mode: int, codes: str, open_folder: Path
) -> None:
    out = open_folder / "out"
    report = out / "report.html"
    out.mkdir()
    report.write_bytes(OUTSIDE)
    report.chmod(mode)
    out.chmod(folder_mode)

    def work() -> None:
        (told,) = asyncio.run(written([("r1d1", "a.txt")], out))
        found = [*ends_with(lambda: files.check_writable(out)), told.get("code") or Path(told["path"]).name]
        raise PowerOnError(" ".join(map(str, [*found, *ends_with(lambda: files.check_file_writable(report))])))

    assert as_ordinary_user(work) == codes
    assert report.read_bytes() == OUTSIDE


def ends_with(work: Callable[[], None]) -> list[int]:
    try:
        work()
    except typer.Exit as stopped:
        return [stopped.exit_code]
    return []


class TestOneFile:
    """`--output FILE`: earlier bytes of the same begin with `ours`."""

    def write(self, path: Path, data: bytes = b"ours, new") -> None:
        files.check_file_writable(path)
        files.write_file(path, data, lambda earlier: earlier.startswith(b"ours"))

    def test_an_earlier_output_is_replaced_and_keeps_its_mode(self, tmp_path: Path) -> None:
        path = tmp_path / "folder" / "x.html"
        self.write(path, b"ours, old")
        path.chmod(0o640)
        self.write(path)
        assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"ours, new", 0o640)
        assert everything(path.parent) == {str(path)}

    @pytest.mark.parametrize("there", [OUTSIDE, b"", b"x" * 9])
    def test_another_file_stays(
        self, there: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "x.html"
        path.write_bytes(there)
        monkeypatch.setattr(files, "MAX_FILE", 30)
        assert ends_with(lambda: self.write(path)) == [2]
        assert everything(tmp_path) == {str(path)}
        assert path.read_bytes() == there
        assert "is another file and is kept." in " ".join(capsys.readouterr().err.split())

    @pytest.mark.parametrize(("there", "code"), [(b"ours, old", []), (OUTSIDE, [2]), (None, [])])
    def test_a_link_is_followed_and_stays(self, there: bytes | None, code: list[int], tmp_path: Path) -> None:
        target, link = tmp_path / "target.html", tmp_path / "link.html"
        if there is not None:
            target.write_bytes(there)
        link.symlink_to(target.name)
        assert ends_with(lambda: self.write(link)) == code
        assert link.is_symlink()
        assert target.read_bytes() == (OUTSIDE if code else b"ours, new")
        assert everything(tmp_path) == {str(link), str(target)}

    def test_a_folder_stays(self, tmp_path: Path) -> None:
        assert ends_with(lambda: self.write(tmp_path)) == [2]
        assert everything(tmp_path) == set()

    def test_a_pipe_gets_the_bytes(self, tmp_path: Path) -> None:
        path = tmp_path / "pipe"
        os.mkfifo(path)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self.write(path)
        assert os.read(reader, 100) == b"ours, new"
        os.close(reader)

    def test_what_the_disk_has_no_room_for_leaves_the_earlier_output(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "x.html"
        path.write_bytes(b"ours, old")
        monkeypatch.setattr(os, "fdopen", full_disk)
        assert ends_with(lambda: self.write(path)) == [FAILED]
        assert path.read_bytes() == b"ours, old"
        assert everything(tmp_path) == {str(path)}


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
