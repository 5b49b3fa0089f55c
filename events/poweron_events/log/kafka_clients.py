"""Start Kafka clients, take the records that they fetch, and close them in time even if the broker is unavailable.

If a client cannot connect, `raise_if_refused` finds out whether a retry may help.
"""

import asyncio
import hashlib
import logging
import socket
import ssl
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Final

import aiokafka.client
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.conn import collect_hosts, create_conn
from aiokafka.errors import (
    AuthenticationFailedError,
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)

from poweron_events import topics
from poweron_events.errors import Refused, Unavailable
from poweron_events.log import Record
from poweron_events.log.kafka_batches import UnreadableBatch, limit_batches
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_events.task_cancellation import cancel_task, finish, retrieve_error

STOP_TIMEOUT = 5.0  # seconds that closing a client may take


async def closed(client: Any) -> None:
    """Close a client within a time limit; callers must repeat what it has not sent by then."""
    stop = getattr(client, "stop", None) or client.close  # an admin client has only `close`
    ended = False
    try:
        ended = await _ended(stop())
    finally:
        if not ended:
            await _abandoned(client)
            await _ended(stop())  # returns at once, unless the first call was cancelled before it began


async def given_up(client: Any) -> None:
    """Close a client at once; what it has not sent is discarded."""
    await _abandoned(client)
    await closed(client)


async def _abandoned(client: Any) -> None:
    """Stop the background work of a client without notifying its broker."""
    for name in ("_sender", "_fetcher", "_client", "client"):
        part = getattr(client, name, None)
        if part is not None:
            await _ended(part.close())


async def _ended(closing: Coroutine[Any, Any, None]) -> bool:
    """Close in a task of its own, since aiokafka then swallows cancellations; return whether that succeeds in time."""
    task = asyncio.create_task(closing)
    retrieve_error(task)
    try:
        await asyncio.wait({task}, timeout=STOP_TIMEOUT)
    finally:
        task.cancel()
    return task.done() and not task.cancelled() and task.exception() is None


PROBE_TIMEOUT: Final = 3.0  # seconds that a server has to answer a probe
POSTGRES_TLS_REQUEST: Final = bytes.fromhex("00000008 04d2162f")  # Postgres answers S or N, Kafka closes the connection
_LOGIN: Final = (
    AuthenticationFailedError,
    IllegalSaslStateError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
CONNECT_TIMEOUT = 1.0  # seconds that a client which is no longer needed has to connect, and to stop
MAX_RECORDS = 2_000  # in one poll
MAX_BYTES = 8_388_608  # in one poll, approximately: the first records show how many fit
FIRST_RECORDS = 8
MAX_READ = 2 * topics.MAX_RECORD  # bytes of one record with its key and headers; PowerOn's own have at most half of it

_NO_HEADERS: Final[Mapping[str, bytes]] = {}  # shared by all records without headers

logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # errors that matter are raised as our own


def unreachable(settings: KafkaSettings, error: Exception) -> Unavailable:
    """Return the error that Kafka cannot be reached, with the reason if the client knows one."""
    why = "" if isinstance(error, KafkaConnectionError | TimeoutError) else f": {error!r}"
    return Unavailable(f"Kafka at {settings.bootstrap} does not answer, or does not let us in{why}")


async def reach(settings: KafkaSettings, timeout: float) -> None:
    """Return once Kafka has answered.

    Raises:
        Unavailable: it has not answered within `timeout` seconds, or denies access.
        Refused: the settings are unusable, or Kafka refuses them.
    """
    admin = AIOKafkaAdminClient(**settings.client_options())
    try:
        await started(admin, settings, timeout)
    except Unavailable:
        await raise_if_refused(settings)
        raise
    await closed(admin)


async def take_records(
    consumer: Any,
    topic: str,
    taken: list[Record],
    *,
    timeout: float,
    partitions: Sequence[TopicPartition] = (),
    limit: int = MAX_RECORDS,
) -> None:
    """Take fetched records, waiting at most `timeout` seconds for some; a few at a time, since each may be huge.

    `taken` receives the records as they arrive, so that none is lost if the wait is interrupted.
    """
    count = size = 0
    limit = min(limit, MAX_RECORDS)
    most, timeout_ms = min(FIRST_RECORDS, limit), int(timeout * 1000)
    while most > 0:
        fetched = await consumer.getmany(*partitions, timeout_ms=timeout_ms, max_records=most)
        came = [_record(topic, record) for records in fetched.values() for record in records]
        taken += came
        if len(came) < most:
            return
        count, size, timeout_ms = count + len(came), size + sum(record.size for record in came), 0
        most = min(limit - count, 8 * len(came), (MAX_BYTES - size) * count // (size + 1))


def _record(topic: str, fetched: Any) -> Record:
    headers = dict(fetched.headers) if fetched.headers else _NO_HEADERS
    record = Record(topic, fetched.partition, fetched.offset, fetched.timestamp, fetched.key, fetched.value, headers)
    if isinstance(fetched.value, UnreadableBatch):
        return record._replace(value=None, unreadable=fetched.value.decode())
    return record if record.size <= MAX_READ else _too_large(record)


def _too_large(record: Record) -> Record:
    said = (
        f"the record takes {record.size:,} bytes, and at most {MAX_READ:,} are read; "
        f"the SHA-256 of its value is {hashlib.sha256(record.value or b'').hexdigest()}"
    )
    return record._replace(key=None, value=None, headers={}, unreadable=said)


async def started(client: Any, settings: KafkaSettings, timeout: float) -> None:
    """Start a client; close it if it does not start or if the caller is cancelled.

    It gets a moment to start before it is interrupted.
    """
    starting = asyncio.create_task(_start(client))
    retrieve_error(starting)
    try:
        async with asyncio.timeout(timeout):
            await asyncio.shield(starting)
    except (KafkaError, OSError, TimeoutError) as error:
        await finish(_stop_starting(client, starting))
        raise unreachable(settings, error) from error
    except BaseException:
        await finish(_stop_starting(client, starting))
        raise


async def _start(client: Any) -> None:
    """Start a client; if that is interrupted, close its first connection, which the client itself leaves open."""
    limit_batches()
    first: list[Any] = []
    _first_connections.set(first)
    try:
        await client.start()
    except BaseException:
        for connection in first:
            connection.close()
        raise


async def _create_connection(*arguments: Any, **options: Any) -> Any:
    connection = await create_conn(*arguments, **options)
    if "on_close" not in options:  # the client does not hold this one
        _first_connections.get([]).append(connection)
    return connection


_first_connections: ContextVar[list[Any]] = ContextVar("poweron_first_connections")
aiokafka.client.create_conn = _create_connection  # aiokafka has no setting for this


async def _stop_starting(client: Any, starting: "asyncio.Future[None]") -> None:
    try:
        await asyncio.wait({starting}, timeout=CONNECT_TIMEOUT)
        await cancel_task(starting, CONNECT_TIMEOUT)
    finally:  # also if the event loop ends meanwhile
        await closed(client)


async def raise_if_refused(settings: KafkaSettings) -> None:
    """Connect to each broker once; return if a retry may help.

    Raises:
        Refused: a broker refuses the login, its certificate is not valid, or it is Postgres.
        Unavailable: no broker's name resolves; the cause is the `socket.gaierror`.
    """
    brokers = [(host, port) for host, port, _ in collect_hosts(settings.bootstrap)]
    errors = await asyncio.gather(*(_connect(settings, host, port) for host, port in brokers))
    for (host, port), error in zip(brokers, errors, strict=True):
        if (why := await _refusal(settings, host, port, error)) is not None:
            raise Refused(f"Kafka at {host}:{port} cannot be used: {why}") from error
    for error in errors:
        if not isinstance(error, socket.gaierror):
            return
    raise Unavailable(f"The name of Kafka at {settings.bootstrap} does not resolve") from errors[0]


async def _connect(settings: KafkaSettings, host: str, port: int) -> Exception | None:
    """Return the error that connecting and logging in raises; None if both succeed."""
    options = settings.client_options()
    del options["bootstrap_servers"]
    try:
        async with asyncio.timeout(PROBE_TIMEOUT):
            (await create_conn(host, port, **options)).close()
    except (KafkaError, OSError, TimeoutError) as error:
        return error
    return None


async def _refusal(settings: KafkaSettings, host: str, port: int, error: Exception | None) -> str | None:
    if isinstance(error, _LOGIN):
        return (
            f"it refuses the login of {settings.sasl_username!r} by {settings.sasl_mechanism} ({error}). Check the "
            "user, the password and the mechanism (`POWERON_KAFKA_SASL_...`), and POWERON_KAFKA_SECURITY_PROTOCOL."
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid: {error.verify_message}. Check POWERON_KAFKA_CA_FILE."
    if error is not None and await _is_postgres(host, port):
        return "that is the address of a Postgres server. Check POWERON_KAFKA."
    return None


async def _is_postgres(host: str, port: int) -> bool:
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(PROBE_TIMEOUT):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(POSTGRES_TLS_REQUEST)
                return await reader.read(1) in {b"S", b"N"}
            finally:
                writer.close()
    return False
