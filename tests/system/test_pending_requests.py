"""Workflows that are requested and not open yet: every command says so, and a cancellation stops them before any work."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from beside import beside
from commands import NOBODY, Shell, ended, told

from poweron_events.actor import Actor
from poweron_events.client import send
from poweron_events.request import CancellationRequested, RequestWorkflow, WorkflowRequested
from poweron_events.round_events import RoundCancelled
from poweron_projections import reader
from poweron_services.client.ask import ask, follow_up
from poweron_services.client.cancel import cancel
from poweron_services.client.client_errors import PendingRequest
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Callbacks, Outcome
from poweron_services.standalone import local_identity
from poweron_services.wiring import ROLES, serve

pytestmark = [pytest.mark.system]

COMMANDS = {
    "history": ("history",),
    "events": ("events",),
    "documents": ("documents",),
    "documents to a folder": ("documents", "--output", "folder"),
    "show": ("show",),
    "export": ("export",),
    "replay": ("replay",),
    "sources": ("sources",),
    "approve": ("approve",),
    "a follow-up": ("ask", "And now?", "--no-serve", "--workflow"),
    "fork": ("fork", "--at", "0", "--no-serve"),
}


async def sent(connections: Connections, key: bytes | None = None) -> str:
    """Send a request; its workflow's id."""
    identity = local_identity()
    request = RequestWorkflow(prompt="Write it.")
    return (await send(connections.log, request, source=identity.source, request_id=identity.id, key=key)).workflow_id


@pytest.mark.req("E-15")
async def test_every_command_reports_a_workflow_that_is_only_requested_yet(
    connections: Connections, shell: Shell
) -> None:
    workflow = await sent(connections)
    for name, (command, *options) in COMMANDS.items():
        arguments = (command, *options, workflow) if options else (command, workflow)
        found = await shell(*arguments, "--json") if command != "export" else await shell(*arguments)
        assert found.code == 1, (name, found)
        assert f"Workflow {workflow} was requested" in found.err, (name, found)
        assert "no process is serving. Start `poweron serve` on these servers" in found.err, (name, found)
        assert command == "export" or found.lines[-1]["code"] == "workflow_pending", (name, found)
    unknown = await shell("history", NOBODY, "--json")
    assert unknown.lines[-1]["code"] == "unknown_workflow"


@pytest.mark.req("E-15")
async def test_a_workflow_that_is_cancelled_before_anybody_serves_does_no_work(
    connections: Connections, shell: Shell, model
) -> None:
    model.gate.clear()
    workflow = await sent(connections, b"a key of the sender")
    watching = await shell.start("watch", workflow)
    assert "no process is serving" in await told(watching, f"Workflow {workflow} was requested")
    async with cancelling(connections, workflow) as cancelled, beside(serve(connections, ROLES, model)):
        outcome, watched = await cancelled, await ended(watching)
    assert (outcome.status, outcome.round, watched.code, model.waiting) == ("cancelled", 1, 0, 0)
    kinds = [event.type for event in await reader.events(connections.pool, workflow)]
    assert kinds == [WorkflowRequested.TYPE, CancellationRequested.TYPE, RoundCancelled.TYPE]


@pytest.mark.req("E-15")
async def test_a_follow_up_that_is_only_requested_yet_is_cancelled(connections: Connections, model) -> None:
    request = RequestWorkflow(prompt="Write it.")
    async with beside(serve(connections, ROLES, model)):
        first = await ask(connections, request, (), identity=local_identity(), callbacks=Callbacks())
    further = await follow_up(connections, request, first.workflow_id)
    model.gate.clear()
    identity = local_identity()
    await send(connections.log, further, source=identity.source, request_id=identity.id)
    async with cancelling(connections, first.workflow_id) as cancelled, beside(serve(connections, ROLES, model)):
        outcome = await cancelled
    assert (outcome.status, outcome.round, model.waiting) == ("cancelled", 2, 0)


@asynccontextmanager
async def cancelling(connections: Connections, workflow: str) -> AsyncGenerator["asyncio.Task[Outcome]", None]:
    """A cancellation under way, which is in the log and was said to be about a pending request."""
    pending, requested = list[PendingRequest](), asyncio.Event()
    task = asyncio.create_task(
        cancel(
            connections,
            workflow,
            reason="",
            actor=Actor(id="Ada"),
            identity=local_identity(),
            callbacks=Callbacks(requested=lambda _: requested.set(), pending=pending.append),
        )
    )
    async with asyncio.timeout(30):
        await requested.wait()
    assert [request.is_served for request in pending] == [False]
    yield task
