"""Everything in one process: the servers of this machine, all roles, and a request followed to its end.

`poweron ask` and `execute_unified_workflow` use this module.
"""

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar

import structlog

from poweron_events import topics
from poweron_events.client import Heard
from poweron_events.content import ContentStore
from poweron_events.errors import Refused, Unavailable
from poweron_events.log.kafka_clients import reach as reach_kafka
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_events.request import RequestIdentity
from poweron_events.retry import Backoff, Failure, retry
from poweron_events.task_cancellation import cancel_task
from poweron_projections import projector
from poweron_projections.audit import ledger_role
from poweron_projections.connection import reach as reach_postgres
from poweron_services import embedded, telemetry
from poweron_services.client.ask import File, OpeningRequest, ask
from poweron_services.client.cancel import pending_requests_reported
from poweron_services.client.connect import Connections, connect, unopened
from poweron_services.client.follow import Callbacks, Outcome, not_taken_yet, waits_for_quota
from poweron_services.client.fork_request import Forked, ForkWish, fork, plan_fork
from poweron_services.log_redaction import hide_configured_secrets
from poweron_services.settings.action_connections import ActionConnections
from poweron_services.settings.config import Settings, local_user

log = structlog.get_logger()


REACH_TIMEOUT = 5.0  # seconds in which a server must answer before it is used
STARTED_WITHIN = 3.0  # seconds until the user is informed what our own service waits for at its start
WAITING_FOR_TOOLS = (
    "Waiting for the configured tool servers: they are asked which tools they have. A first start may download what "
    "they need. The request is sent then."
)
RECORDING: Final[Mapping[str, tuple[str, str]]] = {
    "intake": (topics.REQUESTS.name, topics.URGENT_INTAKE_GROUP),
    "projector": (topics.EVENTS.name, projector.GROUP),
    "ledger": (topics.LEDGER.name, ledger_role.GROUP),
}
"""The roles that record a request beside the work of a workflow and sign it, each with its topic and group."""
Result = TypeVar("Result")
RESOLVED_WITHIN = 60.0  # seconds in which the name of a server must resolve while we wait for it
RETRY_PERIOD = 1.0  # seconds between two tries to reach a server while we wait for it


async def execute_unified_workflow(
    request: OpeningRequest,
    *,
    files: Sequence[File] = (),
    settings: Settings | None = None,
    identity: RequestIdentity | None = None,
    serving: bool = True,
    heard: Callable[[Heard], None] = lambda _: None,
    requested: Callable[[str], None] = lambda _: None,
    progress: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Request a workflow, or a further round of one, follow the round to its end and return the outcome (L-01).

    Args:
        request: the request; a `RequestRound` follows up on a workflow whose rounds have ended.
        files: documents to send in addition to those that the request names.
        settings: read from the environment if not given.
        identity: the sender's source and own id of this request, never used before; generated if not given.
        serving: play all roles in this process; otherwise another process must play them.
        heard: called with every event as it happens.
        requested: called with the workflow's id once the request is in the log.
        progress: called with sentences about the progress around the workflow.

    Raises:
        Unavailable: a server cannot be reached or started, or another process did not act in time.
        Refused: something must be fixed first; the message says what. This includes a `RequestRound` whose workflow
            is unknown or still has a running round.
            The errors of `poweron_services.client.client_errors`, of both kinds, have a code and facts.
    """
    telemetry.configure_for_library()
    settings = settings or Settings()
    await asyncio.to_thread(hide_configured_secrets, settings)
    await check_content(settings)
    if serving:
        check_files(settings)
    async with open_connections(settings, progress) as connections:
        return await run_request(
            connections,
            request,
            files,
            identity=identity or local_identity(),
            serving=serving,
            callbacks=Callbacks(
                heard,
                requested,
                untaken=lambda asked: progress(not_taken_yet(asked)),
                quota_reached=lambda reason: progress(waits_for_quota(reason)),
            ),
            progress=progress,
        )


async def run_request(
    connections: Connections,
    request: OpeningRequest,
    files: Sequence[File],
    *,
    identity: RequestIdentity,
    serving: bool,
    callbacks: Callbacks,
    progress: Callable[[str], None],
) -> Outcome:
    """Run a request over connections that are already open, with a content store that has been checked."""
    asking = partial(ask, connections, request, files, identity=identity, callbacks=callbacks)
    return await (while_serving(connections, asking, progress) if serving else asking())


async def run_fork(
    connections: Connections,
    wish: ForkWish,
    *,
    serving: bool,
    callbacks: Callbacks,
    progress: Callable[[str], None],
) -> Forked:
    """Fork a workflow and follow the fork to its end; raises the errors of `run_request` and `plan_fork`."""
    plan = await plan_fork(connections, wish)
    actor = connections.settings.acting_through("cli")
    forking = partial(fork, connections, wish, plan, actor=actor, identity=local_identity(), callbacks=callbacks)
    return await (while_serving(connections, forking, progress) if serving else forking())


def check_files(settings: Settings) -> None:
    """Check that the files in the settings are usable, before servers are started for work that needs them.

    Raises:
        Refused: a file is unusable; the message says why.
    """
    ActionConnections.read(settings.connections, os.environ)
    if settings.mcp is not None:
        from poweron_services.connectors.mcp.server_list import read_servers  # noqa: PLC0415 - only where asked for

        read_servers(settings.mcp, os.environ)


async def check_content(settings: Settings) -> None:
    """Check that an external content store is usable, before servers are started for work that needs it.

    Raises:
        Refused: something must be set first; the message says what.
        Unavailable: it does not answer now.
    """
    await ContentStore.at(*settings.content_places).check()


async def while_serving(
    connections: Connections, asking: Callable[[], Coroutine[Any, Any, Result]], progress: Callable[[str], None]
) -> Result:
    """Return the result of `asking` while this process plays all roles; it is called once the roles have started."""
    from poweron_services.wiring import ROLES_OF_A_REQUEST  # noqa: PLC0415 - following needs no roles

    if names := connections.settings.provided_models:
        progress(f"Loading {' and '.join(names)}…")  # the clients of providers take seconds to import
    return await _while_playing(connections, ROLES_OF_A_REQUEST, connections.settings, asking, progress)


async def while_recording(
    connections: Connections,
    asking: Callable[[], Coroutine[Any, Any, Result]],
    progress: Callable[[str], None],
    *,
    restart: bool = False,
) -> Result:
    """Return the result of `asking` while some process records requests beside the work and keeps the ledger.

    This process plays the roles which that takes and no other plays, or all of them to `restart` the ledger.
    It opens no rounds, on which it would do no work.
    """
    roles = [role for role in RECORDING if restart or not await is_played(connections, role)]
    if not roles:
        return await asking()
    without_model = connections.settings.with_model("builtin")
    return await _while_playing(connections, roles, without_model, asking, progress, opens=False)


async def is_played(connections: Connections, role: str) -> bool:
    """Return whether a process plays this role of `RECORDING`, or this client may not see that."""
    topic, group = RECORDING[role]
    try:
        return (await connections.log.group_state(topic, group)).has_members
    except Refused:
        return True


async def _while_playing(
    connections: Connections,
    roles: Collection[str],
    models: Settings,
    asking: Callable[[], Coroutine[Any, Any, Result]],
    progress: Callable[[str], None],
    *,
    opens: bool = True,
) -> Result:
    from poweron_services.wiring import open_model, serve  # noqa: PLC0415 - as above

    async with open_model(models) as model:
        started = asyncio.Event()
        tell_wait = partial(progress, WAITING_FOR_TOOLS) if connections.settings.mcp else lambda: None
        service = asyncio.create_task(serve(connections, roles, model, started=started.set, opens=opens))
        work = asyncio.create_task(_ask_once(started, asking, tell_wait))
        try:
            await asyncio.wait({service, work}, return_when=asyncio.FIRST_COMPLETED)
            if service.done() and not work.done():
                service.result()
            return await work
        finally:
            await cancel_task(work)
            await cancel_task(service)


async def _ask_once(
    started: asyncio.Event, asking: Callable[[], Coroutine[Any, Any, Result]], tell_wait: Callable[[], None]
) -> Result:
    """Return the result of `asking` once our own service has started; report what it waits for if that takes long."""
    hint = asyncio.get_running_loop().call_later(STARTED_WITHIN, tell_wait)
    try:
        await started.wait()
    finally:
        hint.cancel()
    return await asking()


def local_identity() -> RequestIdentity:
    """Return an identity for a new request by the user of this machine."""
    return RequestIdentity(source=f"/poweron/cli/{local_user()}", id=secrets.token_hex(16))


@asynccontextmanager
async def open_connections(
    settings: Settings, progress: Callable[[str], None], *, wait: bool = False, recreate_events: bool = False
) -> AsyncGenerator[Connections, None]:
    """Open all connections, to the servers in the settings or else to embedded ones.

    Args:
        settings: which servers to use.
        progress: called with sentences that describe the progress.
        wait: whether to wait for unavailable servers, as a service does.
        recreate_events: whether to recreate the topic of the events if it was deleted.

    Raises:
        Unavailable: a server cannot be reached or started.
        Refused: something must be fixed first; the message says what.
        WorkflowPending: the block uses a workflow whose request is still pending.
    """
    async with _servers(settings, progress) as (kafka, postgres), AsyncExitStack() as stack:

        async def connected() -> Connections:
            await _reach(kafka, postgres)
            return await stack.enter_async_context(
                connect(settings, kafka=kafka, postgres=postgres, recreate_events=recreate_events)
            )

        connections = await (_wait_for(connected) if wait else connected())
        async with pending_requests_reported(connections):
            yield connections


@asynccontextmanager
async def early_connections(
    settings: Settings, progress: Callable[[str], None]
) -> AsyncGenerator[tuple[Connections, Callable[[], Awaitable[None]], Callable[[], Awaitable[None]]], None]:
    """Provide connections to servers that may not answer yet, and what waits for Kafka, and then for Postgres.

    What needs Kafka raises Unavailable until it was waited for. Both waits raise the errors of `open_connections`.
    """
    async with (
        _servers(settings, progress) as (kafka, postgres),
        unopened(settings, kafka=kafka, postgres=postgres) as (connections, log),
    ):

        async def open_log() -> None:
            await _answers(f"Kafka at {kafka.bootstrap}", reach_kafka(kafka, REACH_TIMEOUT))
            await log.open(recreate_events=False)

        async def expect_postgres() -> None:
            await _answers("Postgres", reach_postgres(postgres, REACH_TIMEOUT))

        async with pending_requests_reported(connections):
            yield connections, partial(_wait_for, open_log), partial(_wait_for, expect_postgres)


async def _wait_for(connecting: Callable[[], Awaitable[Result]]) -> Result:
    """Connect once the servers answer; log why they do not at the 1st try, the 2nd, the 4th and so on.

    Raises:
        Refused: the servers' answer will not change by itself, or a name has not resolved for a minute.
    """
    unresolved = _Unresolved()

    def failed(failure: Failure) -> None:
        unresolved.check(failure.error)
        if failure.tries.bit_count() == 1:
            log.warning("server_unavailable", error=str(failure.error), tries=failure.tries)

    return await retry(connecting, failed=failed, backoff=Backoff(RETRY_PERIOD, RETRY_PERIOD))


class _Unresolved:
    """How long the name of a server has not resolved."""

    def __init__(self) -> None:
        self._since: float | None = None

    def check(self, error: BaseException) -> None:
        """Raise `Refused` if this error, like all those of the last minute, says that a name does not resolve."""
        now, cause = asyncio.get_running_loop().time(), _resolution_error(error)
        if cause is None:
            self._since = None
        elif self._since is None:
            self._since = now
        elif now - self._since > RESOLVED_WITHIN:
            raise Refused(f"{error}, and has not for {RESOLVED_WITHIN:g} s: {cause}") from error


def _resolution_error(error: BaseException | None) -> socket.gaierror | None:
    while error is not None and not isinstance(error, socket.gaierror):
        error = error.__cause__
    return error


@asynccontextmanager
async def _servers(
    settings: Settings, progress: Callable[[str], None]
) -> AsyncGenerator[tuple[KafkaSettings, str], None]:
    """Yield the settings of Kafka and the address of Postgres."""
    kafka, postgres = settings.named_kafka, settings.postgres.get_secret_value() if settings.postgres else None
    if kafka and postgres:
        yield kafka, postgres
        return
    async with embedded.lease(settings.home, progress, mend=True) as servers:
        yield kafka or settings.clients_of(servers.kafka), postgres or servers.postgres


async def _reach(kafka: KafkaSettings, postgres: str) -> None:
    """Check in parallel that both servers answer, so that no later call waits in vain for one of them."""
    results = await asyncio.gather(
        _answers(f"Kafka at {kafka.bootstrap}", reach_kafka(kafka, REACH_TIMEOUT)),
        _answers("Postgres", reach_postgres(postgres, REACH_TIMEOUT)),
        return_exceptions=True,
    )
    for error in results:
        if error is not None:
            raise error


async def _answers(server: str, reaching: Awaitable[None]) -> None:
    try:
        await reaching
    except Unavailable as error:
        reason = "its name does not resolve" if _resolution_error(error) else type(error.__cause__ or error).__name__
        raise Unavailable(f"{server} does not answer, or does not let us in ({reason})") from error
