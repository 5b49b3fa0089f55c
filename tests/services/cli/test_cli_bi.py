"""`poweron bi export` and `poweron bi report`, as somebody types them who has the real servers."""

import asyncio
import re
import signal
import sys
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import duckdb
import orjson
import pytest
from commands import DEADLINE, Ended, Shell, ended, told
from typer.testing import CliRunner

from builders import typical
from poweron_events import topics
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_services.cli import bi_commands
from poweron_services.cli.main import app
from poweron_services.client.connect import Connections, connect
from poweron_services.settings.config import Settings

SERVED = pytest.mark.system
TODAY = re.compile(r"day=(\d{4}-\d\d-\d\d)")
SHORT_PERIOD = (
    sys.executable,
    "-c",
    "from poweron_services.cli import bi_commands, entry; bi_commands.PERIOD = 0.5; entry.main()",
)
"""The command, but one that looks for new data more often."""


@pytest.fixture
async def connections(kafka: KafkaSettings, dsn: str, tmp_path: Path) -> AsyncGenerator[Connections, None]:
    async with connect(Settings(home=tmp_path / "home"), kafka=kafka, postgres=dsn) as connections:
        yield connections


@pytest.fixture
def shell(kafka: KafkaSettings, dsn: str, tmp_path: Path) -> Shell:
    environment = {"POWERON_POSTGRES": dsn, "POWERON_HOME": str(tmp_path / "home"), "COLUMNS": "80"}
    return Shell({**kafka.environment(), **environment}, tmp_path)


async def happened(connections: Connections, request_id: str) -> None:
    """A workflow that has come to its end, today."""
    await connections.log.append(topics.EVENTS.name, typical(request_id).messages)


def workflows_in(folder: Path) -> int:
    """How many DuckDB finds in the files."""
    (row,) = duckdb.sql(f"SELECT count(*) FROM read_parquet('{folder}/workflows/*/workflows.parquet')").fetchall()
    return row[0]


def written(folder: Path) -> dict[Path, int]:
    """Each file and when it was put there."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")}


@SERVED
async def test_an_export_is_told_and_a_second_one_writes_only_what_is_new(
    shell: Shell, connections: Connections
) -> None:
    output = shell.folder / "made" / "parquet"
    await happened(connections, "1")
    first = await shell("bi", "export", "--output", output)
    before = written(output)
    assert (first.code, first.err) == (0, "")
    assert re.fullmatch(r"\d+ rows of 1 day written to .+parquet\.\n", first.out.replace("\n", " ").strip() + "\n")
    assert workflows_in(output) == 1
    again = await shell("bi", "export", "--output", output)
    assert (again.code, " ".join(again.out.split())) == (0, f"Nothing is new: {output} holds everything.")
    assert written(output) == before
    await happened(connections, "2")
    (third,) = (await shell("bi", "export", "--output", output, "--json")).lines
    assert [*third] == ["days", "files", "rows", "seconds"]
    assert (len(third["days"]), third["files"]) == (1, len(before))
    assert workflows_in(output) == 2


@SERVED
async def test_since_leaves_earlier_days_alone(shell: Shell, connections: Connections) -> None:
    output = shell.folder / "parquet"
    await happened(connections, "1")
    tomorrow, today = (str((datetime.now(UTC) + timedelta(days=each)).date()) for each in (2, -1))
    (none,) = (await shell("bi", "export", "--output", output, "--since", tomorrow, "--json")).lines
    assert (none["days"], none["rows"], written(output)) == ([], 0, {})
    (found,) = (await shell("bi", "export", "--output", output, "--since", today, "--json")).lines
    assert found["rows"] > 0
    assert {match[1] for path in written(output) if (match := TODAY.search(str(path)))} == {*found["days"]}


@SERVED
@pytest.mark.parametrize("stopping", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.soak)])
async def test_following_writes_what_comes_and_ends_with_a_sentence(
    shell: Shell, connections: Connections, stopping: signal.Signals
) -> None:
    output = shell.folder / "parquet"
    following = await shell.start("bi", "export", "--output", output, "--follow", "--json", program=SHORT_PERIOD)
    try:
        assert (await line(following))["days"] == []
        assert "Ctrl-C stops it" in await told(following, "New data goes to")
        await happened(connections, "1")
        new = await line(following)
        assert (new["days"], workflows_in(output)) == ([path.parent.name[4:] for path in files_of(output)], 1)
    finally:
        following.send_signal(stopping)
        stopped = await ended(following)
    assert (stopped.code, stopped.out) == (0, "")
    assert stopped.err == f"Stopped following; {output} is complete, and the next export continues from there.\n"
    assert not [*output.glob("tmp*")]


def files_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("workflows/*/*.parquet"))


async def line(process: asyncio.subprocess.Process) -> dict[str, object]:
    """The next object on stdout."""
    assert process.stdout is not None
    async with asyncio.timeout(DEADLINE):
        return orjson.loads(await process.stdout.readline())


@SERVED
async def test_an_export_that_is_interrupted_leaves_nothing_half_written(
    shell: Shell, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB is told to stop, and has stopped, before the folder that it writes to goes."""
    output = shell.folder / "parquet"
    output.mkdir()
    await happened(connections, "1")
    await bi_commands.bring_rows_on(connections)
    begun, loop = asyncio.Event(), asyncio.get_running_loop()
    real = bi_commands.export_rows.__globals__["_to_parquet"]

    def slow(database: duckdb.DuckDBPyConnection, *given: object) -> object:
        loop.call_soon_threadsafe(begun.set)
        database.execute(
            "SELECT count(*) FROM range(100_000_000_000) AS a, range(100_000) AS b WHERE a.range < b.range"
        )
        return real(database, *given)

    monkeypatch.setitem(bi_commands.export_rows.__globals__, "_to_parquet", slow)
    exporting = asyncio.create_task(bi_commands._export(connections, output, None))
    async with asyncio.timeout(DEADLINE):
        await begun.wait()
        exporting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await exporting
    assert [*output.iterdir()] == []


class Loaded(HTMLParser):
    """What a page would load or run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found = list[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {"script", "link", "img", "image", "iframe", "object", "embed", "use", "a", "form"}:
            self.found.append(tag)
        self.found += [name for name, _ in attrs if name.startswith("on") or name in {"src", "href", "xlink:href"}]


@SERVED
async def test_a_report_is_one_page_that_loads_and_runs_nothing(shell: Shell, connections: Connections) -> None:
    await happened(connections, "1")
    output = shell.folder / "new folder" / "report.html"
    told_ = await shell("bi", "report", "--output", output)
    last = datetime.now(UTC).date()
    assert told_.code == 0
    assert " ".join(told_.out.split()).startswith(f"{output} covers 30 days, ")
    page = output.read_text(encoding="utf-8")
    assert [*output.parent.iterdir()] == [output]
    assert Loaded(page).found == []
    assert not re.search(r"https?:|url\(|@import|javascript:", page)
    assert "<b>1</b>requests" in page
    assert "<svg" in page
    (again,) = (await shell("bi", "report", "--output", output, "--days", "1", "--json")).lines
    assert again["path"] == str(output)
    assert again["first"] == again["last"] >= str(last)
    output.write_text("<!DOCTYPE html>\n<html>My own page</html>")
    refused = await shell("bi", "report", "--output", output)
    assert (refused.code, output.read_text().endswith("My own page</html>")) == (2, True)


@SERVED
async def test_without_duckdb_it_is_said_how_to_get_it(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    said = await shell("bi", "export", "--output", "parquet")
    assert said.code == 1
    assert "An export needs DuckDB, which is not installed; `pip install 'poweron-services[bi]'` installs it." in flat(
        said
    )
    assert (await shell("bi", "report", "--output", "report.html")).code == 0


def flat(said: Ended) -> str:
    return " ".join(said.err.split())


WRONG = {
    "a day that is none": (
        ["export", "--output", "out", "--since", "nonsense"],
        "--since nonsense: give a date such as",
    ),
    "a day that no month has": (
        ["export", "--output", "out", "--since", "2026-02-30"],
        "--since 2026-02-30: give a date",
    ),
    "an export nowhere": (["export"], "Missing option '--output'"),
    "an export to a file": (["export", "--output", "file"], "'file' is a file. Choose a folder with --output."),
    "an export below a file": (
        ["export", "--output", "file/in"],
        "Nothing can be written to 'file/in': Not a directory. Choose another folder with --output.",
    ),
    "an export to nowhere": (["export", "--output", "/proc/in"], "Nothing can be written to '/proc/in': "),
    "a report nowhere": (["report"], "Missing option '--output'"),
    "a report to a folder": (["report", "--output", "."], "'.' is a folder. Name a file in it with --output."),
    "a report below a file": (
        ["report", "--output", "file/in"],
        "'file/in' cannot be written: File exists. Choose another file with --output.",
    ),
    "a report to nowhere": (["report", "--output", "/proc/report.html"], "'/proc/report.html' cannot be written: "),
    "a report of no day": (["report", "--output", "new", "--days", "0"], "'0' is not a whole number from 1 to 366."),
    "a report of text": (
        ["report", "--output", "new", "--days", "many"],
        "'many' is not a whole number from 1 to 366.",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_typed_wrongly_is_said_before_anything_is_opened(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POWERON_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "file").write_text("kept")
    arguments, said = WRONG[name]
    result = CliRunner().invoke(app, ["bi", *arguments])
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "kept"


@SERVED
async def test_a_report_that_finds_the_disk_full_says_so(shell: Shell) -> None:
    said = await shell("bi", "report", "--output", "/dev/full")
    assert said.code == 1
    assert "'/dev/full' cannot be written: No space left on device. Choose another file with --output." in flat(said)
