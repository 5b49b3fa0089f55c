"""`poweron witness`: its key, and checkpoints that are cosigned by hand."""

import socket
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner
from witness_requests import LOG, request

from poweron_projections.audit.note_signatures import verified
from poweron_projections.audit.notes import SignedNote, VerifierKey
from poweron_projections.audit.tlog_proof import TlogProof
from poweron_projections.audit.witness_request import WitnessRequest
from poweron_services.cli.main import app

POWERON = Path(sys.executable).with_name("poweron")
VKEY = str(LOG.public)


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("POWERON_HOME", str(tmp_path))
    return tmp_path


def _told(*arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of `poweron witness`."""
    ended = CliRunner().invoke(app, ["witness", *arguments])
    return ended.exit_code, ended.stdout, " ".join(ended.stderr.split())


def _file(path: Path, told: WitnessRequest) -> str:
    path.write_bytes(bytes(told))
    return str(path)


def _bundle(path: Path, told: WitnessRequest, folder: str = "") -> str:
    """A bundle with the same checkpoint, and the proof that it continues an older one; in `folder`, of a workflow."""
    with zipfile.ZipFile(path, "w") as archive:
        _add(archive, told, folder)
    return str(path)


def _add(archive: zipfile.ZipFile, told: WitnessRequest, folder: str) -> None:
    archive.writestr(f"{folder}head.tlog-proof", str(TlogProof(0, [], str(told.note))))
    archive.writestr(f"{folder}consistency/{told.old_size}", "".join(f"{each.hex()}\n" for each in told.proof))


def test_the_key_is_made_once_with_a_name_and_only_its_owner_can_read_it(home: Path) -> None:
    code, output, _ = _told("key", "--name", "auditor.example/w1")
    keys = [VerifierKey.parse(line) for line in output.splitlines()]
    assert (code, [(key.name, key.algorithm) for key in keys]) == (0, [("auditor.example/w1", kind) for kind in (4, 6)])
    path = home / "witness" / "witness.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert orjson.loads(_told("key", "--json")[1]) == {"keys": output.splitlines()}
    assert "is named 'auditor.example/w1'" in _told("key", "--name", "another")[2]
    assert "no name of a witness" in _told("key", "--name", "a+b", "--state", str(home / "other"))[2]
    assert _told("key", "--state", str(home / "other"))[1].startswith("localhost/poweron-witness/")
    path.chmod(0o640)
    assert "Others can read" in _told("key")[2]
    path.chmod(0o600)
    path.write_text(path.read_text().replace("auditor", "other"))
    assert "holds no key of a witness" in _told("key")[2]


def test_an_auditor_cosigns_what_continues_the_last_checkpoint(home: Path) -> None:
    keys = [VerifierKey.parse(line) for line in _told("key")[1].splitlines()]
    for told in (_bundle(home / "1.zip", request(0, 5)), _bundle(home / "2.zip", request(5, 8))):
        code, output, errors = _told("sign", told, "--key", VKEY)
        assert (code, errors) == (0, "")
        assert [key for key, _ in verified(SignedNote.parse(output), [LOG.public, *keys])] == [LOG.public, *keys]
    of_two = _bundle(home / "3.zip", request(8, 13), "workflows/a/")
    with zipfile.ZipFile(of_two, "a") as archive:
        _add(archive, request(8, 12), "workflows/b/")
    of_period = request(13, 15)
    with zipfile.ZipFile(home / "4.zip", "w") as archive:
        archive.writestr("period/checkpoint", str(of_period.note))
        archive.writestr("consistency/13", "".join(f"{each.hex()}\n" for each in of_period.proof))
    for told, size in ((of_two, 13), (str(home / "4.zip"), 15), (_file(home / "request", request(15, 21)), 21)):
        code, output, _ = _told("sign", told, "--key", VKEY, "--json")
        result = orjson.loads(output)
        assert (code, result["origin"], result["size"]) == (0, LOG.name, size)
    assert verified(SignedNote.parse(result["checkpoint"]), keys)


def test_an_auditor_cosigns_nothing_smaller_and_nothing_else(home: Path) -> None:
    assert _told("sign", _bundle(home / "1.zip", request(0, 8)), "--key", VKEY)[0] == 0
    for told, sentence in (
        (_bundle(home / "2.zip", request(0, 5)), "fewer than the 8 that were cosigned last"),
        (_bundle(home / "3.zip", request(8, 9, other=True)), "does not continue the one with 8"),
        (_bundle(home / "4.zip", request(5, 9)), "has no proof that the ledger continues the 8 entries"),
        (_file(home / "5", request(5, 9)), "The last cosigned checkpoint has 8 entries"),
    ):
        code, _, errors = _told("sign", told, "--key", VKEY)
        assert code == 1
        assert sentence in errors
    (home / "6").write_text("no request")
    for arguments, sentence in (
        (("sign", str(home / "6"), "--key", VKEY), "holds no checkpoint"),
        (("sign", str(home / "7"), "--key", VKEY), "cannot be read"),
        (("sign", str(home / "1.zip"), "--key", "none"), "--key: A key is NAME+ID+KEY"),
        (("sign", str(home / "1.zip"), "--key", _told("key")[1].splitlines()[0]), "that of a witness"),
        (("serve", "--key", VKEY, "--listen", "nowhere"), "--listen: 'nowhere' is not HOST:PORT"),
    ):
        code, _, errors = _told(*arguments)
        assert code == 2
        assert sentence in errors


@pytest.mark.system
def test_a_witness_is_a_small_process_of_its_own(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        place = f"127.0.0.1:{sock.getsockname()[1]}"
    command = [POWERON, "witness", "serve", "--key", VKEY, "--listen", place]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={"POWERON_HOME": str(home)}) as started:
        assert started.stderr
        assert "Made a key for the witness " in started.stderr.readline()
        assert f"listens at http://{place}" in started.stderr.readline()
        started.terminate()
        assert started.wait(30) in (0, 143)
