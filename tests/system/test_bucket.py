"""The whole way with the content in a bucket: asked, answered, shown, written, cleared up."""

import asyncio
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from commands import Shell
from s3 import BUCKET, S3

from poweron_events.content import ContentStore

pytestmark = [pytest.mark.system, pytest.mark.req("R-02")]
ESTIMATE = Path(__file__).parents[2] / "docs" / "examples" / "estimate.pdf"
TOTAL = "1,980.84"


async def test_a_question_is_answered_from_a_document_in_a_bucket_and_every_command_reads_it_there(
    shell: Shell, s3: S3, tmp_path: Path
) -> None:
    place = f"s3://{BUCKET}/{uuid.uuid4()}"
    shell.environment |= {"POWERON_CONTENT": place, **s3.environment}
    asked = await shell("ask", "What is the grand total of the estimate?", "--document", str(ESTIMATE), "--json")
    assert asked.code == 0, asked.err
    (answer,) = asked.lines
    assert TOTAL in answer["message"]
    assert TOTAL in (tmp_path / answer["documents"][0]["path"]).read_text()

    workflow = answer["workflowId"]
    shown = (await shell("documents", workflow, "--output", "here", "--json")).lines
    assert (tmp_path / next(each["path"] for each in shown if each["documentName"] == "estimate.pdf")).read_bytes() == (
        ESTIMATE.read_bytes()
    )
    assert not (tmp_path / "home" / "content").exists()
    (verified,) = (await shell("verify", "--content", "--json")).lines
    assert (verified["differences"], verified["content"]["faults"]) == ([], [])
    assert verified["content"]["read"] == verified["content"]["referenced"] - 1 > 0  # the key names nothing
    (status,) = (await shell("status", "--json")).lines
    assert status["content"] == "reachable"

    before = {each.path async for page in ContentStore.at(place).stored() for each in page}
    for command in (("--dry-run",), ()):
        (found,) = (await shell("documents", "gc", *command, "--json")).lines
        assert found == {
            "dryRun": bool(command),
            "objects": 0,
            "bytes": 0,
            "oldest": None,
            "workflows": [],
            "skipped": [],
        }
    assert {each.path async for page in ContentStore.at(place).stored() for each in page} == before


class Way:
    """The way to a server, on a port of its own; while it is closed nobody answers there."""

    def __init__(self, endpoint: str) -> None:
        self._there = urlsplit(endpoint)
        self._port = 0
        self._server: asyncio.Server | None = None
        self._open = set[asyncio.StreamWriter]()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._open:
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(self._there.hostname, self._there.port)
        self._open |= {writer, there_writer}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_passed_on(reader, there_writer))
                group.create_task(_passed_on(there_reader, writer))
        finally:
            self._open -= {writer, there_writer}


async def _passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def way(endpoint: str) -> AsyncGenerator[Way, None]:
    made = Way(endpoint)
    await made.open()
    try:
        yield made
    finally:
        made.close()


async def told(asked: asyncio.subprocess.Process, word: bytes) -> bytes:
    """What a command says on stderr up to the line that holds a word."""
    assert asked.stderr is not None
    said = b""
    with suppress(TimeoutError):
        async with asyncio.timeout(60):
            while word not in said and (line := await asked.stderr.readline()):
                said += line
    assert word in said, said.decode()
    return said


@pytest.mark.soak
async def test_a_bucket_that_is_away_in_the_middle_of_the_work_is_waited_for_and_told_of(shell: Shell, s3: S3) -> None:
    async with way(s3.endpoint) as through:
        shell.environment |= {"POWERON_CONTENT": f"s3://{BUCKET}/{uuid.uuid4()}", **s3.environment}
        shell.environment |= {"AWS_ENDPOINT_URL": through.endpoint}
        question = "What is the grand total of the estimate?"
        asked = await shell.start("ask", question, "--document", str(ESTIMATE), "--json")
        await told(asked, b"requested")
        through.close()
        await told(asked, b"The content store did not answer")
        await through.open()
        out, err = await asked.communicate()
        assert asked.returncode == 0, err.decode()
        assert TOTAL in out.decode()


async def test_a_bucket_that_is_not_there_ends_the_command_with_a_sentence(shell: Shell, s3: S3) -> None:
    shell.environment |= {"POWERON_CONTENT": "s3://no-such-bucket", **s3.environment}
    asked = await shell("ask", "What is the total?", "--json")
    assert asked.code == 1
    assert "There is no such bucket: make it, or name another one in POWERON_CONTENT" in asked.lines[-1]["error"]
