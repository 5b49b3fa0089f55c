"""The HTTP server of a witness: it answers `add-checkpoint`, as C2SP `tlog-witness` says, and nothing else."""

import asyncio
import socket
from functools import partial
from typing import Final

import structlog
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from poweron_events.errors import Refused
from poweron_events.task_cancellation import cancel_task
from poweron_projections.audit.checkpoint_witness import CONFLICT, Witness
from poweron_projections.audit.witness_request import WitnessAnswer
from poweron_services.probes.probe_server import QuietServer

MAX_BODY: Final = 300_000  # bytes: 63 hashes and 64 signatures
READ_WITHIN: Final = 10.0  # seconds for a client to send its request
CLOSED_WITHIN: Final = 1  # seconds for running requests once the server stops
AT_ONCE: Final = 200  # connections; further ones are answered with 503
SIZE_TYPE: Final = "text/x.tlog.size"
TEXT: Final = "text/plain; charset=utf-8"

log = structlog.get_logger()


def witness_application(witness: Witness) -> Starlette:
    """Return the application that asks this witness."""
    return Starlette(routes=[Route("/add-checkpoint", partial(_add_checkpoint, witness), methods=["POST"])])


def listening_at(host: str, port: int) -> socket.socket:
    """Return a socket that listens at the address.

    Raises:
        Refused: the address cannot be used.
    """
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise Refused(
            f"The witness cannot listen at {host}:{port}: {error.strerror or error}. "
            "Name another address with --listen HOST:PORT."
        ) from error


async def serve_witness(witness: Witness, sock: socket.socket) -> None:
    """Answer requests at this socket until cancelled."""
    config = uvicorn.Config(
        witness_application(witness),
        http="httptools",
        ws="none",
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        limit_concurrency=AT_ONCE,
        timeout_graceful_shutdown=CLOSED_WITHIN,
    )
    server = QuietServer(config)
    served = asyncio.create_task(server.serve(sockets=[sock]))
    try:
        await asyncio.wait({served})
        served.result()
    finally:
        server.should_exit = True
        await asyncio.wait({served}, timeout=CLOSED_WITHIN + 1)
        await cancel_task(served)


async def _add_checkpoint(witness: Witness, request: Request) -> Response:
    try:
        async with asyncio.timeout(READ_WITHIN):
            body = await _read(request)
    except (TimeoutError, ClientDisconnect):
        return _response(WitnessAnswer(408, b"The request did not arrive in time.\n"))
    if body is None:
        return _response(WitnessAnswer(413, b"The request is larger than a checkpoint.\n"))
    try:
        return _response(await asyncio.to_thread(witness.add_checkpoint, body))
    except (OSError, ValueError) as error:
        log.error("witness_error", error=str(error))  # noqa: TRY400 - its frames tell nothing
        return _response(WitnessAnswer(500, b"The witness cannot use its state.\n"))


async def _read(request: Request) -> bytes | None:
    """Return the body; None if it is too large."""
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_BODY:
            return None
    return bytes(data)


def _response(answer: WitnessAnswer) -> Response:
    kind = SIZE_TYPE if answer.status == CONFLICT else TEXT
    return Response(answer.body, answer.status, headers={"Content-Type": kind})
