"""Bundles on the real servers: of workflows, of a period, and of a sample of it, verified by Python alone."""

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from commands import NOBODY, Shell

from builders import Told, typical
from poweron_events import topics
from poweron_events.archive_events import WorkflowExported
from poweron_events.envelope import rfc3339_of
from poweron_projections.audit.verify_script import verify_script
from poweron_services.client.connect import Connections

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
    shell: Shell, connections: Connections
) -> None:
    for first in range(0, 1_000, 100):
        await write(connections, [typical(str(number)) for number in range(first, first + 100)])
    asked = ("--since", SINCE, "--until", now(), "--sample", "25", "--seed", SEED)
    began = time.perf_counter()
    (told,) = (await shell(*EXPORT, *asked, "--output", "sample.zip")).lines
    exported = time.perf_counter()
    found = verified(shell.folder, shell.folder / "sample.zip", await key_of(shell), *asked)
    took = (exported - began, time.perf_counter() - exported)
    print(f"\nexported in {took[0]:.1f} s, verified in {took[1]:.1f} s")  # noqa: T201 - for people who run it by hand
    assert (told["population"], len(found["workflows"]), found["verdict"]) == (1_000, 25, "ok")
    assert max(took) < 60
