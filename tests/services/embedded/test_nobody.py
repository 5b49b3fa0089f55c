"""Postgres where we are root: which rights it takes, where its programs may lie, what is said where it cannot be."""

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from poweron_events.errors import Refused
from poweron_services import unprivileged
from poweron_services.embedded import folders, nobody, postgres_server
from poweron_services.embedded.folders import prepare

CAP_SETPCAP = 8
WITHOUT = """
import ctypes, os, sys
PR_CAPBSET_DROP = 24
ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, int(sys.argv[1]), 0, 0, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""

as_root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A program where only root may enter."""
    tmp_path.chmod(0o700)
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho well\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> Generator[Path, None, None]:
    """A folder for copies that everybody may enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory(prefix="poweron-copies-") as folder:
        Path(folder).chmod(0o755)
        monkeypatch.setattr(nobody, "COPIES", Path(folder))
        yield Path(folder)


def by_a_root_without(right: int, program: list[str]) -> list[str]:
    """What runs the program as nobody, started by a root that lacks a right."""
    _, *become = nobody.command(program)
    return [sys.executable, "-c", WITHOUT, str(right), *become]


@as_root_only
def test_nobody_runs_a_program_behind_a_door_that_is_closed_to_him(closed: Path) -> None:
    assert subprocess.check_output(nobody.command([str(closed)])) == b"well\n"


@as_root_only
def test_a_program_that_access_denies_to_nobody_is_told_by_the_exit_code(closed: Path) -> None:
    ended = subprocess.run(by_a_root_without(CAP_SETPCAP, [str(closed)]), check=False)
    assert ended.returncode == unprivileged.CLOSED


@as_root_only
@pytest.mark.parametrize("name", ["CAP_DAC_OVERRIDE", "CAP_KILL", "CAP_SETGID", "CAP_SETUID"])
def test_a_root_who_lacks_a_right_is_told_so_before_anything_runs(
    closed: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = by_a_root_without(getattr(unprivileged, name), [str(closed)])
    assert subprocess.run(lacking, stdout=subprocess.PIPE, check=False).stdout == b""

    monkeypatch.setattr(nobody, "command", lambda _: lacking)
    with pytest.raises(Refused, match=rf"{name}\b.*or set POWERON_POSTGRES to a server of your own\.$"):
        nobody.programs()


@as_root_only
def test_a_copy_is_made_once_and_open_to_all(copies: Path) -> None:
    first = nobody._copy(folders.postgres())
    made = (first / "postgres").stat()
    assert nobody._copy(folders.postgres()) == first
    assert (first / "postgres").stat() == made
    assert len(list(copies.iterdir())) == 1
    assert {stat.S_IMODE(path.stat().st_mode) for path in copies.rglob("*")} == {0o755}
    assert subprocess.check_output([first / "initdb", "--version"], user=65534).startswith(b"initdb (PostgreSQL) ")


@as_root_only
@pytest.mark.parametrize(("owner", "mode"), [(65534, 0o755), (0, 0o775), (0, 0o757), (0, 0o1777)])
def test_no_copy_is_taken_from_where_others_can_have_put_it(copies: Path, owner: int, mode: int) -> None:
    os.chown(copies, owner, owner)
    copies.chmod(mode)
    with pytest.raises(Refused, match="users other than root can write to"):
        nobody._copy(folders.postgres())
    assert list(copies.iterdir()) == []


@as_root_only
def test_no_copy_is_taken_from_a_folder_that_others_can_replace(copies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nobody, "COPIES", copies / "poweron")
    copies.chmod(0o777)
    with pytest.raises(Refused, match="users other than root can write to"):
        nobody._copy(folders.postgres())


def test_a_copy_that_cannot_be_made_is_refused_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(nobody, "_may_run", lambda _: False)
    monkeypatch.setattr(nobody, "COPIES", tmp_path / "missing" / "poweron")
    with pytest.raises(Refused, match=r"No such file or directory .* Allow root CAP_SETPCAP.* ordinary user"):
        nobody.programs()


async def test_a_user_without_a_name_is_told_that_postgres_wants_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = prepare(tmp_path / "home")
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000_001)
    with pytest.raises(Refused, match="this machine has no name for the user id 4000000001"):
        await postgres_server.Postgres(folders).start(lambda _: None)
