"""What a document could do that takes over the process in which it is read: all of it is tried from inside."""

import json
import os
import pwd
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from test_nobody import WITHOUT

from poweron_services.connectors import document_child
from poweron_services.connectors.document_child import ChildMessage
from poweron_services.connectors.document_reader import DEFAULT_LIMITS
from poweron_services.connectors.documents_child.rights import CALLS
from poweron_services.unprivileged import CAP_KILL, CAP_SETUID

SOMEBODY = 4242  # the id of a user that has no rights anywhere
NOBODY = pwd.getpwnam("nobody")
CAPABILITIES = ("CapInh", "CapPrm", "CapEff", "CapAmb")

ATTEMPTS = """
import ctypes, errno, json, os, socket, subprocess, sys, threading, types
from poweron_services.connectors.documents_child import text_encodings

user, tried, closed, own, port = json.loads(sys.argv[1])
status, unconnected = open("/proc/self/status"), socket.socket()
text_encodings.load(b"")  # in case that the user may not open what root has installed
if user:
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
parent = os.getppid()

def start_a_process():
    os.fork() or os._exit(0)

def call(function, *values):
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, function)(*values) == -1:
        raise OSError(ctypes.get_errno(), "")

ATTEMPTS = {
    "open a socket": socket.socket,
    "open a pair of sockets": socket.socketpair,
    "connect to this machine": lambda: unconnected.connect(("127.0.0.1", port)),
    "start a process": start_a_process,
    "start a thread": lambda: threading.Thread(target=print).start(),
    "start a program": lambda: subprocess.run(["/bin/true"]),
    "become a program of root": lambda: os.execv("/bin/su", ["su"]),
    "become root": lambda: os.setuid(0),
    "signal its parent": lambda: os.kill(parent, 0),
    "look into its parent": lambda: call("process_vm_readv", parent, None, 0, None, 0, 0),
    "read a closed file": lambda: open(closed).read(),
    "read a file of its user": lambda: open(own).read(),
    "write a file": lambda: print("x", file=open(own, "a"), flush=True),
    "make a file": lambda: open(own + ".new", "w"),
    "remove a file": lambda: os.unlink(own),
    "open a file to others": lambda: os.chmod(own, 0o666),
    "leave it to the kernel": lambda: call("syscall", 425, 1, None),  # io_uring_setup
}

def outcome(attempt):
    try:
        attempt()
    except OSError as error:
        return errno.errorcode[error.errno]
    except RuntimeError:  # of a thread
        return "EPERM"
    return "done"

def tried_all():
    was = {line.split(":")[0]: line.split(":")[1].split() for line in status}
    return json.dumps([was, {name: outcome(attempt) for name, attempt in ATTEMPTS.items() if not tried or name in tried}])
"""
TAKEN_OVER = f"""
from poweron_services.connectors.documents_child import __main__, rights
from poweron_services.connectors.documents_child.document import Section
{ATTEMPTS}
def read(data, limits):
    yield Section("", tried_all())

sys.modules["poweron_services.connectors.documents_child.plain_text"] = types.SimpleNamespace(read=read)
__main__.main()
"""
NO_FILTER = "from poweron_services.connectors.documents_child import rights; rights.MACHINES.clear()\n"

as_root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be root")
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="on other systems a process can give up less"),
    pytest.mark.req("S17"),
]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where everybody may write; not below the folders of pytest, which are closed."""
    with tempfile.TemporaryDirectory(prefix="poweron-child-") as made:
        Path(made).chmod(0o777)
        yield Path(made)


def taken_over(
    folder: Path, *tried: str, user: int = 0, program: str = TAKEN_OVER, start: tuple[str, ...] = (sys.executable,)
) -> tuple[list[str], dict[str, Any], dict[str, str]]:
    """The rights that a child kept, what the kernel says of it, and what came of all that it tried.

    `user` is who it is from its start, 0 for whoever runs the tests; `tried` are the attempts, none for all.
    """
    own, closed = folder / "own", folder / "closed"
    for file, mode in ((own, 0o600), (closed, 0)):
        file.write_text("as before")
        file.chmod(mode)
    if user:
        os.chown(own, user, user)
    question = json.dumps({"name": "a.txt", "limits": asdict(DEFAULT_LIMITS)}).encode() + b"\n"
    with socket.create_server(("127.0.0.1", 0)) as server:
        given = json.dumps([user, tried, str(closed), str(own), server.getsockname()[1]])
        said = subprocess.run(
            [*start, "-c", program, given], input=question + b"text", stdout=subprocess.PIPE, check=True
        ).stdout
    first, section, *_ = map(json.loads, said.splitlines())
    assert (own.read_text(), own.stat().st_mode & 0o777) == ("as before", 0o600)
    return (first["rights_kept"], *json.loads(section["section"]["text"]))


@pytest.mark.parametrize(
    "user",
    [
        pytest.param(0, id="whoever runs the tests"),
        pytest.param(SOMEBODY, id="an ordinary user", marks=as_root_only),
    ],
)
def test_a_document_that_takes_its_process_over_is_refused_whatever_it_tries(folder: Path, user: int) -> None:
    kept, status, came_of = taken_over(folder, user=user)

    assert kept == []
    assert len(came_of) == 17
    assert came_of == dict.fromkeys(came_of, "EPERM")
    assert [int(status[name][0], 16) for name in CAPABILITIES] == [0, 0, 0, 0]
    assert (status["NoNewPrivs"], status["Seccomp"]) == (["1"], ["2"])


@as_root_only
def test_where_root_reads_a_document_it_is_read_by_nobody(folder: Path) -> None:
    _, status, _ = taken_over(folder)

    assert status["Uid"] == [str(NOBODY.pw_uid)] * 4
    assert status["Gid"] == [str(NOBODY.pw_gid)] * 4
    assert status["Groups"] == []


@as_root_only
def test_nobody_is_refused_the_most_also_where_the_kernel_filters_no_calls(folder: Path) -> None:
    tries = ("start a process", "start a program", "become root", "signal its parent", "read a closed file")
    kept, status, came_of = taken_over(folder, *tries, program=NO_FILTER + TAKEN_OVER)

    assert (kept, status["Uid"][0], status["NoNewPrivs"]) == (["system_calls"], str(NOBODY.pw_uid), ["1"])
    assert [came_of[name] for name in tries] == ["EAGAIN", "EAGAIN", "EPERM", "EPERM", "EACCES"]


@as_root_only
@pytest.mark.parametrize("lacking", [CAP_KILL, CAP_SETUID])
def test_a_root_that_cannot_become_nobody_gives_up_the_rest(folder: Path, lacking: int) -> None:
    kept, status, came_of = taken_over(folder, start=(sys.executable, "-c", WITHOUT, str(lacking)))

    assert (kept, status["Uid"][0]) == (["root"], "0")
    assert came_of == dict.fromkeys(came_of, "EPERM")
    assert [int(status[name][0], 16) for name in CAPABILITIES] == [0, 0, 0, 0]


def test_rights_that_cannot_be_given_up_are_logged_once() -> None:
    document_child.log_kept_rights.cache_clear()
    with capture_logs() as lines:
        for _ in range(2):
            assert ChildMessage(DEFAULT_LIMITS).take(b'{"rights_kept": ["root", "system_calls"]}\n')

    assert lines == [{"event": "document_rights_kept", "rights": ("root", "system_calls"), "log_level": "warning"}]


@pytest.mark.parametrize(("machine", "headers"), [(0, "x86_64-linux-gnu/asm/unistd_64.h"), (1, "asm-generic/unistd.h")])
def test_the_numbers_of_the_calls_are_those_of_the_kernel(machine: int, headers: str) -> None:
    listed = Path("/usr/include") / headers
    if not listed.exists():
        pytest.skip("the headers of the kernel are not installed")
    found = re.findall(r"^#define __NR(?:3264)?_(\w+) (\d+)$", listed.read_text(), re.MULTILINE)
    numbers = {name: int(number) for name, number in found}
    assert {name: both[machine] for name, both in CALLS.items()} == {name: numbers[name] for name in CALLS}
