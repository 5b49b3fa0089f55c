"""The commands that start, stop and ask after Kafka and Postgres. They need little, so that they are quick."""

import asyncio
import re
from collections.abc import Coroutine
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

import typer

from poweron_events.errors import LogLost, PowerOnError
from poweron_events.log.kafka import connect as connect_kafka
from poweron_events.log.kafka_clients import reach as reach_kafka
from poweron_projections.connection import connect as connect_postgres
from poweron_projections.connection import reach as reach_postgres
from poweron_projections.guarded_log import GuardedLog
from poweron_services import embedded
from poweron_services.cli.advice import LOG_LOST, WHERE
from poweron_services.cli.context import FAILED
from poweron_services.cli.error_messages import load_settings, sentence, sentences
from poweron_services.cli.output import print_json, stdout, tell
from poweron_services.config import Settings

REACH_TIMEOUT = 5.0  # seconds that a server has to answer

LogState = Literal["complete", "lost", "unknown"]
"""Whether the log holds what the rows were made of."""

_SECRET = re.compile(r"((?:^|&)(?:ssl)?password=)[^&]*")


@sentences()
def up(*, as_json: bool) -> None:
    """Start the embedded servers and leave them running."""
    servers = asyncio.run(embedded.up(load_settings().home, tell))
    _print_servers(servers.kafka, servers.postgres, str(servers.home), as_json=as_json)


@sentences()
def down() -> None:
    """Stop the embedded servers."""
    stopped = asyncio.run(embedded.down(load_settings().home, tell))
    tell("Kafka and Postgres are stopped." if stopped else "Nothing was running.")


@sentences()
def status(*, as_json: bool) -> None:
    """Ask the servers whether they answer, and say where; and whether the log holds what the rows were made of."""
    settings = load_settings()
    kafka, postgres, log = asyncio.run(_seen(settings))
    _print_servers(kafka, postgres, str(settings.home), as_json=as_json, log=log)
    if log != "complete":
        raise typer.Exit(FAILED)


async def _seen(settings: Settings) -> tuple[str | None, str | None, LogState]:
    kafka, postgres = await _answering(settings)
    if kafka is None or postgres is None:
        return kafka, postgres, "unknown"
    return kafka, postgres, await _log_state(settings, kafka, postgres)


async def _log_state(settings: Settings, kafka: str, postgres: str) -> LogState:
    try:
        async with (
            asyncio.timeout(REACH_TIMEOUT),
            connect_kafka(settings.kafka_settings(kafka)) as log,
            connect_postgres(postgres, statement_cache_size=settings.postgres_statement_cache) as pool,
        ):
            await GuardedLog(log, pool).check()
    except LogLost as error:
        tell(f"{sentence(error)} {LOG_LOST}", style="bold red")
        return "lost"
    except PowerOnError as error:
        tell(sentence(error))
        return "unknown"
    except TimeoutError:
        tell(f"Whether the log is complete was not found out within {REACH_TIMEOUT:g} s.")
        return "unknown"
    return "complete"


async def _answering(settings: Settings) -> tuple[str | None, str | None]:
    """The addresses of Kafka and Postgres, None for the one that does not answer."""
    given = settings.postgres.get_secret_value() if settings.postgres else None
    own = None
    if not (settings.kafka and given):
        own = await asyncio.to_thread(embedded.status, settings.home)
        if own is None:
            tell("No Kafka and no Postgres run on this machine for this data directory. Start them with `poweron up`.")
    kafka, postgres = own.kafka if own else None, own.postgres if own else None
    if settings.kafka:
        kafka = (
            settings.kafka
            if await _reached(reach_kafka(settings.kafka_settings(settings.kafka), REACH_TIMEOUT))
            else None
        )
    if given:
        postgres = given if await _reached(reach_postgres(given, REACH_TIMEOUT)) else None
    if (settings.kafka and kafka is None) or (given and postgres is None):
        tell(WHERE)
    return kafka, postgres


async def _reached(reaching: Coroutine[Any, Any, None]) -> bool:
    try:
        await reaching
    except PowerOnError as error:
        tell(sentence(error))
        return False
    return True


def _print_servers(
    kafka: str | None, postgres: str | None, home: str, *, as_json: bool, log: LogState | None = None
) -> None:
    shown = {"kafka": kafka, "postgres": masked(postgres) if postgres else None, "home": home}
    shown |= {"log": log} if log else {}
    if as_json:
        print_json(shown)
        return
    for name, value in shown.items():
        stdout.print(f"{name:<9} {value or 'does not answer'}")


def masked(dsn: str) -> str:
    """A DSN without its passwords, be they before the host or among the parameters."""
    parts = urlsplit(dsn)
    host = parts.netloc.rpartition("@")[2]
    netloc = parts.netloc if parts.password is None else f"{parts.username or ''}:***@{host}"
    return urlunsplit(parts._replace(netloc=netloc, query=_SECRET.sub(r"\1***", parts.query)))
