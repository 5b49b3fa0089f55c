"""Bundles on the real servers: of workflows, of a period, and of a sample of it, verified by Python alone."""

import asyncio
import shutil
import subprocess
import sys
import time
import uuid
import zipfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from commands import NOBODY, Shell
from servers import Pair, empty_database

from builders import Told, typical
from poweron_events import topics
from poweron_events.archive_events import WorkflowExported
from poweron_events.envelope import rfc3339_of
from poweron_events.log import EventLog
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_projections.audit.checkpoint import Checkpoint
from poweron_projections.audit.notes import SignedNote
from poweron_projections.audit.verify_script import verify_script
from poweron_services.client.connect import Connections, connect
from poweron_services.settings.config import Settings

pytestmark = [pytest.mark.system]

SEED = "dice: 4 2 6"
SINCE = "2020-01-01"
EXPORT = ("export", "--format", "bundle", "--without-content", "--json")


def now() -> str:
    return rfc3339_of(time.time_ns() // 1_000_000)


async def write(connections: Connections, stories: Sequence[Told]) -> None:
    messages = [message for story in stories for message in story.messages]
    await connections.log.append(topics.EVENTS.name, messages)


async def key_of(shell: Shell) -> str:
    (line,) = (await shell("audit", "key", "--json")).lines
    return str(line["keys"][0])


def verified(folder: Path, bundle: Path, key: str, *arguments: str, code: int = 0) -> Any:
    """What the script says that an auditor has, with Python alone."""
    script = folder / "verify.py"
    script.write_text(verify_script())
    command = [
        sys.executable,
        "-I",
        "-S",
        str(script),
        "--key",
        key,
        "--allow-withheld",
        "--json",
        *arguments,
        str(bundle),
    ]
    found = subprocess.run(command, check=False, capture_output=True, text=True, env={}, timeout=120)
    assert found.returncode == code, found.stdout[:500] + found.stderr
    return orjson.loads(found.stdout)


async def period_bundle(shell: Shell, name: str, *arguments: str) -> Path:
    """Export the bundle of a period, as the operator does."""
    ended = await shell(*EXPORT, *arguments, "--output", name)
    assert ended.code == 0, ended.err
    return shell.folder / name


def listed(bundle: Path) -> set[str]:
    """The workflows that a bundle says the period has."""
    with zipfile.ZipFile(bundle) as archive:
        return {orjson.loads(line)["wf"] for line in archive.read("period/workflows.jsonl").splitlines()}


def size(bundle: Path) -> int:
    """The number of entries that the checkpoint of a period signs."""
    with zipfile.ZipFile(bundle) as archive:
        return Checkpoint.parse(SignedNote.parse(archive.read("period/checkpoint").decode()).text).size


def failed(result: Any) -> set[str]:
    """The claims that do not hold."""
    return {claim["id"] for claim in result["claims"] if claim["status"] == "fail"}


class Quarter(NamedTuple):
    """A period of 1,000 workflows."""

    asked: Sequence[str]
    """How an auditor asks for a sample of 25."""
    workflow: str
    """The one that read a document, which is in the content store."""


@pytest.fixture
async def quarter(shell: Shell, connections: Connections) -> Quarter:
    (shell.folder / "invoice.txt").write_text("Invoice 7\nTotal: 120.50 EUR\n")
    question = ("ask", "What is the total of the invoice?", "--document", "invoice.txt", "--json")
    workflow = (await shell(*question)).lines[0]["workflowId"]
    for first in range(1, 1_000, 111):
        await write(connections, [typical(str(number)) for number in range(first, first + 111)])
    return Quarter(("--since", SINCE, "--until", now(), "--sample", "25", "--seed", SEED), workflow)


@dataclass(frozen=True)
class Operator:
    """Somebody who has all keys of the ledger and all rights on the servers, and moves everything to other ones."""

    shell: Shell
    connections: Connections
    kafka: KafkaSettings

    @classmethod
    @asynccontextmanager
    async def moving(cls, pair: Pair, shell: Shell) -> AsyncGenerator["Operator", None]:
        """Empty topics and an empty database; the keys and the content are in the same folder as before."""
        kafka = replace(pair.kafka, prefix=f"t{uuid.uuid4().hex}.")
        settings = Settings(home=Path(shell.environment["POWERON_HOME"]))
        async with (
            empty_database(pair.postgres) as postgres,
            connect(settings, kafka=kafka, postgres=postgres) as connections,
        ):
            environment = {**shell.environment, **kafka.environment(), "POWERON_POSTGRES": postgres}
            yield cls(Shell(environment, shell.folder), connections, kafka)

    async def write_again(self, log: EventLog, *, without: str) -> None:
        """Write all events but those of one workflow again, at their old times, and delete its content."""
        events = topics.EVENTS.name
        records = [record async for batch in log.read(events, {}, await log.ends(events)) for record in batch]
        kept = [record for record in records if record.key != without.encode()]
        assert len(kept) < len(records)
        await self._set_times("CreateTime")
        async with AIOKafkaProducer(**self.kafka.client_options()) as producer:
            sent = [
                await producer.send(self._topic, record.value, record.key, record.partition, record.time_ms)
                for record in kept
            ]
            await asyncio.gather(*sent)
        await self._set_times("LogAppendTime")
        shutil.rmtree(self.content / without)

    @property
    def _topic(self) -> str:
        return f"{self.kafka.prefix}{topics.EVENTS.name}"

    async def _set_times(self, kind: str) -> None:
        """Let senders of events, or the broker, say when they were sent."""
        admin = AIOKafkaAdminClient(**self.kafka.client_options())
        await admin.start()
        settings = {**topics.EVENTS.settings, "message.timestamp.type": kind}
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, self._topic, settings)])
        await admin.close()

    async def traces(self, workflow: str) -> list[str]:
        """The topics that still name the workflow, and the files of its content."""
        log, name = self.connections.log, workflow.encode()
        in_topics = [
            topic.name
            for topic in topics.ALL
            async for batch in log.read(topic.name, {}, await log.ends(topic.name))
            if any(name in (record.key or b"") + (record.value or b"") for record in batch)
        ]
        return [*in_topics, *(str(path) for path in self.content.rglob(f"*{workflow}*"))]

    @property
    def content(self) -> Path:
        return self.connections.settings.home / "content"


async def test_a_sample_of_a_period_is_exported_and_verified_by_python_alone(
    shell: Shell, connections: Connections
) -> None:
    stories = [typical(str(number)) for number in range(12)]
    await write(connections, stories)
    bundle = shell.folder / "sample.zip"
    asked = ("--since", SINCE, "--until", now(), "--sample", "3", "--seed", SEED)
    arguments = (*EXPORT, *asked)
    (told,) = (exported := await shell(*arguments, "--output", bundle, "--reason", "The third quarter.")).lines
    assert exported.code == 0, exported.err
    assert (told["population"], len(told["workflows"]), told["path"]) == (12, 3, str(bundle))

    found = verified(shell.folder, bundle, key := await key_of(shell), *asked)
    assert (found["verdict"], found["period"]["workflows"], found["period"]["sample"]) == ("ok", 12, 3)
    assert {each["id"]: each["status"] for each in found["claims"]}["V15"] == "ok"
    verified(shell.folder, bundle, key, *asked[:-1], "another", code=1)

    ids = [each["workflowId"] for each in told["workflows"]]
    recorded = (await shell("events", ids[0], "--json")).lines[-1]
    assert (recorded["type"], recorded["verdict"]) == (WorkflowExported.TYPE, "accepted")
    (shell.folder / "ids.txt").write_text("\n".join(ids))
    folder = shell.folder / "some"
    (told,) = (await shell(*EXPORT, "--from-file", "ids.txt", "--output", folder)).lines
    assert [each["workflowId"] for each in told["workflows"]] == ids
    assert verified(shell.folder, folder, key)["verdict"] == "ok"
    assert (await shell("audit", "verify", folder, "--key", key, "--allow-withheld")).code == 0


async def test_what_cannot_be_exported_is_said_in_a_sentence(shell: Shell, connections: Connections) -> None:
    await write(connections, [typical()])
    for arguments, code, sentence in (
        (("--until", "2999-01-01", "--sample", "2", "--seed", SEED), 2, "it lasts until 2999-01-01 00:00:00 UTC"),
        (("--until", now(), "--sample", "2"), 2, "Use --sample and --seed together"),
        (("--since", SINCE, "--sample", "2", "--seed", SEED), 2, "say with --until when it ends"),
        (("--since", "2021-01-01", "--until", SINCE), 2, "The period ends before it begins."),
        (("--all", "--since", SINCE), 2, "use it without --since"),
        (("--since", "2026-99-01"), 2, "--since 2026-99-01: give a date such as 2026-07-01"),
        ((typical().id, "--all"), 2, "Name workflows, or a period"),
        (("--from-file", "none.txt"), 2, "cannot be read: No such file or directory"),
        ((NOBODY,), 1, "There is no workflow"),
    ):
        ended = await shell("export", "--format", "bundle", *arguments, "--output", "bundle")
        assert (ended.code, sentence in " ".join(ended.err.split())) == (code, True), ended.err
    assert not any((shell.folder / "bundle").glob("*"))


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_a_sample_of_25_of_1000_workflows_takes_less_than_a_minute_to_export_and_to_verify(
    shell: Shell, quarter: Quarter
) -> None:
    began = time.perf_counter()
    (told,) = (await shell(*EXPORT, *quarter.asked, "--output", "sample.zip")).lines
    exported = time.perf_counter()
    found = verified(shell.folder, shell.folder / "sample.zip", await key_of(shell), *quarter.asked)
    took = (exported - began, time.perf_counter() - exported)
    print(f"\nexported in {took[0]:.1f} s, verified in {took[1]:.1f} s")  # noqa: T201 - for people who run it by hand
    assert (told["population"], len(found["workflows"]), found["verdict"]) == (1_000, 25, "ok")
    assert max(took) < 60


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_one_of_1000_workflows_that_is_deleted_from_everything_is_found_by_an_older_checkpoint(
    shell: Shell, connections: Connections, quarter: Quarter, pair: Pair
) -> None:
    """An operator with all keys hides a workflow from an auditor who kept the checkpoint and the list of that time.

    The operator moves everything but the workflow to other topics and another database, where the ledger of the same
    name and key enters and signs it again. That ledger proves itself, with a complete list of 999 workflows. But it
    does not continue the old checkpoint, although it has grown beyond it.

    The old checkpoint shows that the ledger was written again, which it would also show if no workflow was missing,
    since the ledger enters its own starts and signatures. Which workflow is missing, the two
    lists show. Before the move, the same checkpoint holds for the ledger that went on.
    """
    old, key = shell.folder / "old.txt", await key_of(shell)
    since_then = ("--checkpoint", str(old))
    first = await period_bundle(shell, "first.zip", *quarter.asked)
    with zipfile.ZipFile(first) as archive:
        old.write_bytes(archive.read("period/checkpoint"))

    honest = await period_bundle(shell, "honest.zip", *quarter.asked, *since_then)
    assert (listed(honest) == listed(first), size(honest) > size(first)) == (True, True)
    verified(shell.folder, honest, key, *quarter.asked, *since_then)
    assert (await shell("audit", "verify", "--key", key, *since_then)).code == 0

    async with Operator.moving(pair, shell) as operator:
        await operator.write_again(connections.log, without=quarter.workflow)
        moved = operator.shell
        await period_bundle(moved, "signed.zip", *quarter.asked)
        await write(operator.connections, [typical(f"later {number}") for number in range(10)])
        forged = await period_bundle(moved, "forged.zip", *quarter.asked, *since_then)
        assert (len(listed(first)), listed(first) - listed(forged)) == (1_000, {quarter.workflow})
        assert (len(listed(forged)), await operator.traces(quarter.workflow)) == (999, [])

        assert await key_of(moved) == key
        alone = verified(shell.folder, forged, key, *quarter.asked)
        assert (alone["verdict"], alone["period"]["workflows"]) == ("ok", 999)
        assert size(forged) > size(first)
        assert failed(verified(shell.folder, forged, key, *quarter.asked, *since_then, code=1)) == {"V9"}
        everything = ("audit", "verify", "--key", key, "--json")
        assert (await moved(*everything)).code == 0
        ended = await moved(*everything, *since_then)
        assert (ended.code, failed(ended.lines[0])) == (1, {"V9"})
