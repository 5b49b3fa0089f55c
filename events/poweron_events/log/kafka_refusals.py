"""Errors that keep a client out of Kafka until a setting is changed; aiokafka reports them like a dead server."""

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import Final

from aiokafka.conn import collect_hosts, create_conn
from aiokafka.errors import (
    AuthenticationFailedError,
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)

from poweron_events.errors import Refused, Unavailable
from poweron_events.log.kafka_settings import KafkaSettings

PROBE_TIMEOUT: Final = 3.0  # seconds that a server has to answer a probe
POSTGRES_TLS_REQUEST: Final = bytes.fromhex("00000008 04d2162f")  # Postgres answers S or N, Kafka closes the connection

_LOGIN: Final = (
    AuthenticationFailedError,
    IllegalSaslStateError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)


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
