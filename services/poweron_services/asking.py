"""Asking: request a workflow, follow it, return what came of it. `poweron ask` is this function."""

import asyncio
import getpass
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import structlog

from poweron_events.asking import Heard, hear, send
from poweron_events.errors import Unavailable
from poweron_events.event import DocumentRef
from poweron_events.fold.state import Ending, Workflow
from poweron_events.log.kafka_clients import reach as reach_kafka
from poweron_events.outcome import RoundCancelled, RoundCompleted, RoundFailed, Totals
from poweron_events.request import RequestRefused, RequestWorkflow, StoredDocument, workflow_id
from poweron_projections import snapshots
from poweron_projections.connection import reach as reach_postgres
from poweron_services import embedded, telemetry
from poweron_services.config import Settings
from poweron_services.connections import Connections, connect

log = structlog.get_logger()

POSITION_PERIOD = 0.02  # seconds between looks at the projector's position
REACH_TIMEOUT = 5.0  # seconds that a server has to answer, before anything is asked of it
RETRY_PERIOD = 1.0  # seconds between two tries to reach a server that is waited for
PATIENCE = 10.0  # seconds without any event until the user is told that nobody may be serving
TAKEN_WITHIN = 60.0  # seconds until nobody is waited for any longer
GRACE = 60.0  # seconds after a round's deadline until its end is not waited for any longer
PROJECTED_WITHIN = 60.0  # seconds from the last event until it must be in the rows

NOBODY_YET = (
    "Nobody has taken the request yet. Start `poweron serve` on these servers, if none runs there; "
    "Ctrl-C stops waiting and leaves the request standing."
)


@dataclass(frozen=True, slots=True)
class Told:
    """Who is told what while a workflow runs."""

    heard: Callable[[Heard], None]
    """Every event as it happens."""
    requested: Callable[[str], None]
    """The workflow's id, once the request is in the log: it stands from now on."""
    progress: Callable[[str], None]
    """In sentences, what is going on around the workflow."""


@dataclass(frozen=True, slots=True)
class File:
    """A document handed over: its name and its bytes."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a request."""

    workflow_id: str
    status: Ending
    message: str
    documents: tuple[DocumentRef, ...]
    totals: Totals
    duration_ms: int


@asynccontextmanager
async def opened(
    settings: Settings, progress: Callable[[str], None], *, patient: bool = False
) -> AsyncGenerator[Connections, None]:
    """Everything open, on the servers that the settings name, else on embedded ones.

    Args:
        settings: which servers.
        progress: told in sentences what is going on.
        patient: whether servers that are away are waited for, as a service does.

    Raises:
        Unavailable: a server cannot be reached or started.
        Refused: something must be mended first; the message says what.
    """
    async with _servers(settings, progress) as (kafka, postgres), AsyncExitStack() as stack:

        async def connected() -> Connections:
            return await stack.enter_async_context(connect(settings, kafka=kafka, postgres=postgres))

        if patient:
            yield await _waited_for(connected)
        else:
            await _reached(settings, kafka, postgres)
            yield await connected()


async def _waited_for(connecting: Callable[[], Awaitable[Connections]]) -> Connections:
    """What is open once the servers answer; why they do not is said once."""
    said = ""
    while True:
        try:
            return await connecting()
        except Unavailable as error:
            if str(error) != said:
                said = str(error)
                log.warning("a server is waited for", error=said)
            await asyncio.sleep(RETRY_PERIOD)


@asynccontextmanager
async def _servers(settings: Settings, progress: Callable[[str], None]) -> AsyncGenerator[tuple[str, str], None]:
    """The addresses of Kafka and Postgres."""
    postgres = settings.postgres.get_secret_value() if settings.postgres else None
    if settings.kafka and postgres:
        yield settings.kafka, postgres
        return
    async with embedded.lease(settings.home, progress, mend=True) as servers:
        yield settings.kafka or servers.kafka, postgres or servers.postgres


async def _reached(settings: Settings, kafka: str, postgres: str) -> None:
    """Ask both servers at once, so that neither is waited for in vain later."""
    met = await asyncio.gather(
        _answers(f"Kafka at {kafka}", reach_kafka(settings.kafka_settings(kafka), REACH_TIMEOUT)),
        _answers("Postgres", reach_postgres(postgres, REACH_TIMEOUT)),
        return_exceptions=True,
    )
    for error in met:
        if error is not None:
            raise error


async def _answers(server: str, reaching: Awaitable[None]) -> None:
    try:
        await reaching
    except Unavailable as error:
        why = type(error.__cause__ or error).__name__
        raise Unavailable(f"{server} does not answer, or does not let us in ({why})") from error


async def execute_unified_workflow(
    request: RequestWorkflow,
    *,
    files: Sequence[File] = (),
    settings: Settings | None = None,
    serving: bool = True,
    heard: Callable[[Heard], None] = lambda _: None,
    requested: Callable[[str], None] = lambda _: None,
    progress: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Request a workflow, follow its first round to the end, return the outcome (L-01).

    Args:
        request: what is asked for.
        files: documents to hand over beside those that the request names.
        settings: read from the environment if not given.
        serving: play all roles in this process; else some `poweron serve` must do it.
        heard: told of every event as it happens.
        requested: told the workflow's id once the request is in the log.
        progress: told in sentences what is going on around the workflow.

    Raises:
        Unavailable: a server cannot be reached or started.
        Refused: something must be mended first; the message says what.
    """
    telemetry.configure_for_library()
    async with opened(settings or Settings(), progress) as connections:
        told = Told(heard, requested, progress)
        return await ask(connections, request, files, serving=serving, told=told)


async def ask(
    connections: Connections, request: RequestWorkflow, files: Sequence[File], *, serving: bool, told: Told
) -> Outcome:
    """The same over connections that are open already."""
    if not serving:
        return await _ask(connections, request, files, told)
    from poweron_services.wiring import ROLES, build_model, serve  # noqa: PLC0415 - who only follows needs no roles

    model = build_model(connections.settings)
    served = asyncio.create_task(serve(connections, ROLES, model))
    asked = asyncio.create_task(_ask(connections, request, files, told))
    try:
        await asyncio.wait({served, asked}, return_when=asyncio.FIRST_COMPLETED)
        if served.done() and not asked.done():
            served.result()
        return await asked
    finally:
        await _cancelled(asked)
        await _cancelled(served)


async def _cancelled(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()  # whoever waits for the other task hears of that one


async def _ask(connections: Connections, request: RequestWorkflow, files: Sequence[File], told: Told) -> Outcome:
    source, request_id = f"/poweron/cli/{_user()}", secrets.token_hex(16)
    workflow = workflow_id(source, request_id)
    stored = [await _stored(connections, workflow, file) for file in files]
    request = request.model_copy(update={"documents": (*request.documents, *stored)})
    began = time.monotonic()
    sent = await send(connections.log, request, source=source, request_id=request_id)
    told.requested(workflow)
    heard = await _Following(workflow, told).until_answered(hear(connections.log, sent))
    await _projected(connections, sent.partition, heard.workflow)
    return _outcome(heard, round((time.monotonic() - began) * 1000))


def _user() -> str:
    with suppress(OSError, KeyError, ImportError):
        return getpass.getuser()
    return "unknown"


async def _stored(connections: Connections, workflow: str, file: File) -> StoredDocument:
    return StoredDocument(document_name=file.name, content=await connections.content.put(workflow, file.data))


async def _projected(connections: Connections, partition: int, workflow: Workflow) -> None:
    """Wait until the rows hold the workflow's last event."""
    try:
        async with asyncio.timeout(PROJECTED_WITHIN):
            while await _position(connections, partition) <= workflow.last:  # noqa: ASYNC110 - Postgres tells nobody
                await asyncio.sleep(POSITION_PERIOD)
    except TimeoutError as error:
        raise Unavailable(
            f"Workflow {workflow.id} has ended, but the rows in Postgres do not hold its end after "
            f"{PROJECTED_WITHIN:g} s. `poweron history {workflow.id}` brings them there and shows it."
        ) from error


async def _position(connections: Connections, partition: int) -> int:
    with suppress(Unavailable):
        return (await snapshots.positions(connections.pool)).get(partition, 0)
    return 0


class _Following:
    """A request that is followed, but not for ever."""

    def __init__(self, workflow_id: str, told: Told) -> None:
        self._id = workflow_id
        self._told = told
        self._last: Heard | None = None

    async def until_answered(self, hearing: AsyncGenerator[Heard, None]) -> Heard:
        """The record that answers the request.

        Raises:
            Unavailable: nobody has taken the request, or nobody has ended it; it stands.
        """
        hint = asyncio.get_running_loop().call_later(PATIENCE, self._hint)
        try:
            async with asyncio.timeout(TAKEN_WITHIN) as deadline, aclosing(hearing):
                async for heard in hearing:
                    self._take(heard, deadline)
        except TimeoutError as error:
            raise Unavailable(self._standing()) from error
        finally:
            hint.cancel()
        assert self._last is not None
        return self._last

    def _take(self, heard: Heard, deadline: asyncio.Timeout) -> None:
        taken = self._last is not None and self._last.workflow.is_open
        self._last = heard
        self._told.heard(heard)
        if heard.workflow.is_open and not taken:
            ends_within = heard.workflow.current.opening.deadline_ms / 1000 + GRACE
            deadline.reschedule(asyncio.get_running_loop().time() + ends_within)

    def _hint(self) -> None:
        if self._last is None:
            self._told.progress(NOBODY_YET)

    def _standing(self) -> str:
        if self._last is None:
            return (
                f"Nobody has taken the request within {TAKEN_WITHIN:g} s. It stands: as soon as a `poweron serve` "
                f"runs on these servers, it does the work, and `poweron watch {self._id}` shows it."
            )
        return (
            f"The time for workflow {self._id} is over, and nobody has ended it. "
            f"As soon as a `poweron serve` runs on these servers, it does."
        )


def _outcome(heard: Heard, duration_ms: int) -> Outcome:
    workflow = heard.workflow
    match heard.event:
        case RoundCompleted() | RoundFailed() | RoundCancelled() as end:
            assert workflow.current.ending is not None
            return Outcome(workflow.id, workflow.current.ending, end.message, end.documents, end.totals, duration_ms)
        case RequestRefused(reason=reason, detail=detail):
            message = f"The request was refused ({reason.replace('_', ' ')}). {detail}"
            return Outcome(workflow.id, "failed", message, (), Totals(), duration_ms)
        case other:
            raise AssertionError(f"{other!r} answers no request")
