"""What chaos and bench share: children end when they are asked to, and with their parent, and know none of its settings."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from poweron_services.experiments.sandbox import child_process
from poweron_services.experiments.sandbox.child_process import clean_environment, kill, start, stop
from poweron_services.experiments.sandbox.servers import stopped, until
from poweron_services.signals import until_stopped

WORKING = "import asyncio\nfrom poweron_services.experiments.sandbox.child_process import run\nrun(asyncio.sleep(600))"
DEAF = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint(flush=True)\nsignal.pause()"


def test_a_child_finds_none_of_the_users_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("POWERON_KAFKA", "kafka.example:9092")
    monkeypatch.setenv("LANG", "C.UTF-8")
    environment = clean_environment(tmp_path)
    assert {name: value for name, value in environment.items() if name.startswith("POWERON_")} == {
        "POWERON_HOME": str(tmp_path)
    }
    assert environment["LANG"] == "C.UTF-8"


async def test_a_child_that_ends_when_asked_to_has_ended_by_itself(tmp_path: Path) -> None:
    process = await start("http.server", "0", environment=os.environ, log=tmp_path / "log")
    assert await stop(process)
    assert process.returncode == -signal.SIGTERM


async def test_a_child_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(child_process, "STOP_DEADLINE", 0.1)
    (tmp_path / "deaf.py").write_text(DEAF)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    process = await start("deaf", environment=environment, log=tmp_path / "log", stdout=PIPE)
    assert process.stdout is not None
    await process.stdout.readline()  # it ignores SIGTERM from now on
    assert not await stop(process)
    assert process.returncode == -signal.SIGKILL
    await kill(process)  # once more does no harm


async def test_what_a_child_says_is_added_to_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for _ in range(2):
        process = await start("no_such_module", environment=os.environ, log=log)
        await process.wait()
    assert log.read_text().count("no_such_module") == 2


@pytest.mark.system
async def test_a_child_ends_at_once_where_its_parent_is_gone() -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", WORKING, stdin=PIPE)
    assert process.stdin is not None
    process.stdin.close()
    async with asyncio.timeout(60):
        assert await process.wait() == 1


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
async def test_work_that_a_signal_ends_is_no_error(how: signal.Signals) -> None:
    ended: list[str] = []

    async def work() -> None:
        os.kill(os.getpid(), how)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("put away")

    await until_stopped(work())
    assert ended == ["put away"]


async def test_a_question_is_asked_until_the_answer_is_yes() -> None:
    answers = iter([False, False, True])

    async def question() -> bool:
        return next(answers)

    await until(question, 0)
    assert list(answers) == []


async def test_a_pause_ends_as_soon_as_a_run_is_stopped() -> None:
    stopping = asyncio.Event()
    assert not await stopped(stopping, 0)
    stopping.set()
    assert await stopped(stopping, 600)
