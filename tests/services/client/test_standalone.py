"""A request in a process that plays all roles itself: nothing is asked before it can be taken."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from test_wiring import SilentPool, connections

from poweron_events.request import RequestWorkflow
from poweron_services import standalone, wiring
from poweron_services.client.follow import Callbacks
from poweron_services.standalone import WAITING_FOR_TOOLS, local_identity, run_request


@pytest.mark.parametrize("mcp", ["servers.json", None])
async def test_while_our_own_service_starts_nobody_is_said_not_to_serve_but_what_it_waits_for(
    mcp: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    happened: list[str] = []
    tools_are_told = asyncio.Event()

    async def serve(*_: object, started: Any, opens: bool) -> None:
        await tools_are_told.wait()
        happened.append("started")
        started()
        await asyncio.Event().wait()

    async def ask(*_: object, **__: object) -> Any:
        happened.append("asked")

    def progress(said: str) -> None:
        happened.append(said)
        tools_are_told.set()

    monkeypatch.setattr(wiring, "serve", serve)
    monkeypatch.setattr(standalone, "ask", ask)
    monkeypatch.setattr(standalone, "STARTED_WITHIN", 0.0)
    if mcp is None:
        tools_are_told.set()
    await run_request(
        connections(SilentPool(), mcp=mcp and tmp_path / mcp),
        RequestWorkflow(prompt="Read it."),
        [],
        identity=local_identity(),
        serving=True,
        callbacks=Callbacks(),
        progress=progress,
    )

    assert happened == [*([WAITING_FOR_TOOLS] if mcp else []), "started", "asked"]
