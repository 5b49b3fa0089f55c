"""Schemathesis finds nothing: every answer is as the OpenAPI document says, also where the request is not."""

import asyncio
import sys
from pathlib import Path

import pytest
from limits import RateLimitItemPerMinute
from remote_door import RemoteDoor, bearer, remote

from poweron_projections.access_keys import SCOPES, AccessScope
from poweron_services.door import rate_limits
from poweron_services.settings.config import Settings

pytestmark = [pytest.mark.system]

SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")
DOCUMENT = "/api/v1/openapi.json"
BOUNDED = 20  # seconds
LONG = 240  # seconds
RATE = "50/s"
ALL = "examples,coverage,fuzzing,stateful"
SETTINGS = """
[[operations]]
include-method = "POST"
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "401", "403", "404", "409", "422", "429", "5xx"]

[[operations]]
include-operation-id = "startWorkflow"
parameters = { "header.prefer" = "wait=2" }

[[operations]]
include-path-regex = "stream$"
parameters = { "query.follow" = false }
"""
"""A repeated `Idempotency-Key` is refused with 422. A new workflow has time to open, and streams end
at the present."""


async def checked(door: RemoteDoor, key: str, folder: Path, *, seconds: int, examples: int, phases: str = ALL) -> None:
    """Run all checks, also along the links between operations, one request at a time."""
    settings = folder / "schemathesis.toml"
    settings.write_text(SETTINGS)
    options = {
        "checks": "all",
        "phases": phases,
        "max-time": seconds,
        "max-examples": examples,
        "workers": 1,
        "rate-limit": RATE,
        "request-timeout": 20,
        "generation-database": "none",
        "warnings": "off",
        "seed": 1,
    }
    process = await asyncio.create_subprocess_exec(
        SCHEMATHESIS,
        "--config-file",
        settings,
        "run",
        f"http://127.0.0.1:{door.port}{DOCUMENT}",
        *(f"--{name}={value}" for name, value in options.items()),
        "--no-color",
        "--header",
        f"Authorization: {bearer(key)['Authorization']}",
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, said.decode()
    assert b"Tested: " in said


async def begin(door: RemoteDoor, key: str) -> None:
    """Have a workflow with documents, for queries to find."""
    files = [("request", (None, b'{"prompt": "When does it open?"}')), ("file", ("a.txt", b"It opens on Monday."))]
    answer = await door.http.post("/api/v1/workflows", files=files, headers={**bearer(key), "Prefer": "wait=60"})
    assert answer.status_code == 200, answer.text


@pytest.fixture(autouse=True)
def _many_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """One address tries many wrong keys here."""
    monkeypatch.setattr(rate_limits, "TRIES", RateLimitItemPerMinute(100_000, namespace="tries"))


@pytest.mark.parametrize("phases", ["examples,coverage", pytest.param("stateful", marks=pytest.mark.soak)])
async def test_every_answer_is_as_the_document_says(door_settings: Settings, tmp_path: Path, phases: str) -> None:
    async with remote(door_settings, serving=True) as door:
        key = await door.key("all")
        await begin(door, key)
        await checked(door, key, tmp_path, seconds=BOUNDED, examples=5, phases=phases)


@pytest.mark.soak
@pytest.mark.timeout(LONG * 4)
async def test_every_answer_is_as_the_document_says_for_minutes(door_settings: Settings, tmp_path: Path) -> None:
    async with remote(door_settings, serving=True) as door:
        key = await door.key("all")
        await begin(door, key)
        await checked(door, key, tmp_path, seconds=LONG, examples=100)


@pytest.mark.soak
@pytest.mark.timeout(LONG)
@pytest.mark.parametrize("scope", SCOPES)
async def test_a_key_with_one_scope_gets_nothing_else(
    door_settings: Settings, tmp_path: Path, scope: AccessScope
) -> None:
    async with remote(door_settings, serving=True) as door:
        await begin(door, await door.key("all"))
        await checked(door, await door.key("one", scope), tmp_path, seconds=BOUNDED, examples=5)
