"""The broker's jars: downloaded once, each checked against the hash that ships with this package."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from poweron_events.errors import Refused, Unavailable
from poweron_services.embedded.server_process import last_lines

PINNED = Path(__file__).with_name("jars.sha256")
SIZE = 43  # MB, all jars together
DOWNLOAD_DEADLINE = 900.0  # seconds
TOLD_EVERY = 10  # megabytes between two progress messages
LOOK_EVERY = 0.5  # seconds
WRONG_HASH = 3  # exit code of `jar_download`


@dataclass(frozen=True, slots=True)
class Jar:
    """One pinned file, with its path in a Maven repository."""

    sha256: str
    path: str


def pinned() -> list[Jar]:
    """Read the list that ships with the package, in the format of `sha256sum`."""
    return [Jar(*line.split("  ", 1)) for line in PINNED.read_text().splitlines()]


def class_path(repository: Path) -> str:
    return ":".join(str(repository / jar.path) for jar in pinned())


def missing(repository: Path) -> list[Jar]:
    """List the missing jars. A jar gets its name only after its hash was checked, so it is enough that it exists."""
    return [jar for jar in pinned() if not (repository / jar.path).exists()]


async def download(repository: Path, progress: Callable[[str], None]) -> None:
    """Download the missing jars in a separate process, which Ctrl-C can end at any time."""
    if not missing(repository):
        return
    progress(f"Downloading Kafka ({SIZE} MB, once)…")
    fetch = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "poweron_services.embedded.jar_download", str(repository),
        start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    watcher = asyncio.create_task(_watch(repository, progress))
    try:
        async with asyncio.timeout(DOWNLOAD_DEADLINE):
            _, complaint = await fetch.communicate()
    except TimeoutError as error:
        raise Unavailable(_impossible(f"it was not complete after {DOWNLOAD_DEADLINE:.0f} s")) from error
    finally:
        watcher.cancel()
        if fetch.returncode is None:
            fetch.kill()
            await fetch.wait()
    _judge(fetch.returncode, last_lines(complaint.decode(errors="replace"), 1))


def _judge(code: int | None, complaint: str) -> None:
    if code == WRONG_HASH:
        raise Refused(
            f"{complaint} The download was damaged or is not what this release was tested with; PowerOn does not "
            "use it. Try again from another network, or set POWERON_KAFKA to a Kafka of your own."
        )
    if code:
        raise Unavailable(_impossible(complaint))


def _impossible(reason: str) -> str:
    return (
        f"Kafka could not be downloaded: {reason}\nThe embedded servers need it once. Check the network and try "
        "again, or set POWERON_KAFKA and POWERON_POSTGRES to servers of your own."
    )


async def _watch(repository: Path, progress: Callable[[str], None]) -> None:
    last_shown = 0
    while True:
        await asyncio.sleep(LOOK_EVERY)
        megabytes = await asyncio.to_thread(_megabytes, repository)
        if megabytes >= last_shown + TOLD_EVERY:
            last_shown = megabytes
            progress(f"Downloading Kafka: {min(megabytes, SIZE)} of {SIZE} MB…")


def _megabytes(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*.jar"):
        try:
            total += file.stat().st_size
        except FileNotFoundError:
            continue  # moved into place in the meantime
    return total // 1_000_000
