"""`poweron chaos` as a user types it: a short run is clean, and a run that is stopped leaves nothing behind."""

import asyncio
import os
import signal
from collections.abc import Mapping
from pathlib import Path

import orjson
import pytest
from commands import POWERON, told
from servers import furnished

pytestmark = [pytest.mark.system, pytest.mark.timeout(420)]

DEADLINE = 360.0  # seconds


@pytest.fixture
def environment(software: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A user with nothing but fetched software; settings that name other servers must not matter."""
    home, temporary = furnished(tmp_path_factory.mktemp("ada"), software), tmp_path_factory.mktemp("t")
    own = {"POWERON_HOME": str(home), "POWERON_KAFKA": "127.0.0.1:1", "TMPDIR": str(temporary)}
    return {**os.environ, **own}


async def _start(environment: Mapping[str, str], *options: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(POWERON, "chaos", "--seed", "7", *options),
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def _ended(process: asyncio.subprocess.Process) -> tuple[int, str, str]:
    try:
        async with asyncio.timeout(DEADLINE):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert b"Traceback" not in out + err, err.decode()
    return process.returncode or 0, out.decode(), err.decode()


def _left_behind(environment: Mapping[str, str]) -> list[Path]:
    """What is left of the run, beside the user's own folders, which are empty."""
    servers = Path(environment["POWERON_HOME"]) / "servers"
    made = [path for name in ("kafka", "postgres", "users") for path in (servers / name).iterdir()]
    return [*Path(environment["TMPDIR"]).iterdir(), *made]


@pytest.mark.soak
async def test_a_short_run_is_clean(environment: dict[str, str]) -> None:
    code, out, err = await _ended(await _start(environment, "--minutes", "0.15", "--json"))
    told_ = orjson.loads(out)
    assert (code, told_["verdict"], told_["violations"]) == (0, "clean", []), err
    assert told_["counts"]["faults"] >= 3
    assert told_["counts"]["roundsCompleted"] > 10
    assert all(each["recovered"] == each["struck"] for each in told_["faults"].values())
    assert _left_behind(environment) == []


@pytest.mark.soak
async def test_ctrl_c_ends_a_run_with_a_verdict_so_far(environment: dict[str, str]) -> None:
    process = await _start(environment, "--minutes", "5")
    await told(process, "Injecting faults")
    process.send_signal(signal.SIGINT)
    code, out, _ = await _ended(process)
    assert code == 130
    assert "Clean so far: no violation" in out
    assert _left_behind(environment) == []
