"""The commands that start, stop and check Kafka and Postgres. They import little, so that they are quick."""

import asyncio
import re
import shlex
from collections.abc import Collection, Coroutine
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit, urlunsplit

import typer

from poweron_events.codes import Code
from poweron_events.content import ContentStore
from poweron_events.errors import LogLost, PowerOnError
from poweron_events.log.kafka import connect as connect_kafka
from poweron_events.log.kafka_clients import reach as reach_kafka
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_projections.connection import connect as connect_postgres
from poweron_projections.connection import reach as reach_postgres
from poweron_projections.log_guard import GuardedLog
from poweron_services import embedded
from poweron_services.cli.advice import LOG_LOST, WHERE, advice_for
from poweron_services.cli.arguments import AsJson
from poweron_services.cli.context import FAILED
from poweron_services.cli.error_messages import load_settings, run_work, sentence, sentences
from poweron_services.cli.output import print_json, stdout, tell
from poweron_services.client.content_check import ContentLost, expect_content
from poweron_services.embedded import Servers
from poweron_services.settings.config import Settings

ContentState = Literal["reachable", "lost", "unavailable", "unknown"]
LogState = Literal["complete", "lost", "unknown"]

REACH_TIMEOUT = 5.0  # seconds that a server has to answer
LOG_TIMEOUT: Final = 5.0  # seconds to check that the log is complete
CONTENT_TIMEOUT: Final = 10.0  # seconds to check the content store
START: Final = "`poweron up` starts what is not running."
WITHHELD: Final = "POWERON_KAFKA_SASL_PASSWORD"
GET_IN: Final = """
This Kafka accepts only clients that have its password, which only you can read. Your own clients log in with:"""

_SECRET = re.compile(r"((?:^|&)(?:ssl)?password=)[^&]*")


class _Problems(list[tuple[str, Code]]):
    """Sentences with their codes; programs get the first as `error` and `code`."""

    def report(self, message: str, code: Code, style: str = "") -> None:
        """Print the problem to the user, and keep it."""
        tell(message, style=style)
        self.append((message, code))

    def as_object(self) -> dict[str, Any]:
        """Return the first problem; empty if there is none."""
        return {"error": self[0][0], "code": self[0][1]} if self else {}


@sentences()
def up(as_json: AsJson = False) -> None:
    """Start Kafka and Postgres on this machine.

    They keep running until `poweron down`.
    """
    servers = run_work(embedded.up(load_settings().home, tell))
    _print(_places(servers.kafka.bootstrap, servers.postgres, servers.home), None, as_json=as_json)


@sentences()
def down(as_json: AsJson = False) -> None:
    """Stop the Kafka and Postgres of this machine."""
    stopped = run_work(embedded.down(load_settings().home, tell))
    tell("Kafka and Postgres are stopped." if stopped else "Nothing was running.")
    if as_json:
        print_json({"stopped": bool(stopped)})


@sentences()
def status(as_json: AsJson = False) -> None:
    """Show where Kafka and Postgres answer, and how to log in.

    Also checks the log and the content store. Exit 1 if a server or the content store does not answer, or if events
    or contents are missing.
    """
    settings, problems = load_settings(), _Problems()
    servers, silent = _own_servers(settings, problems)
    kafka, postgres, log = run_work(_look_up(settings, servers, silent, problems))
    content = run_work(_content_state(settings, postgres, problems)) if postgres else "unknown"
    places = _places(kafka, postgres, settings.home) | {"log": log, "content": content}
    _print(places, servers if kafka and not settings.kafka else None, problems, as_json=as_json)
    if log != "complete" or content != "reachable":
        raise typer.Exit(FAILED)


def _own_servers(settings: Settings, problems: _Problems) -> tuple[Servers | None, Collection[str]]:
    """Return the servers of this machine, if they are needed, and which of them do not answer."""
    is_needed = {"Kafka": not settings.kafka, "Postgres": not settings.postgres}
    if not any(is_needed.values()):
        return None, ()
    servers, silent = embedded.status(settings.home)
    missing = [name for name in silent if is_needed[name]]
    if len(missing) == len(is_needed):
        problems.report(f"No Kafka and no Postgres run on this machine for this data directory. {START}", "unavailable")
    elif missing:
        problems.report(f"{missing[0]} does not answer on this machine for this data directory. {START}", "unavailable")
    return servers, silent


async def _look_up(
    settings: Settings, servers: Servers | None, silent: Collection[str], problems: _Problems
) -> tuple[str | None, str | None, LogState]:
    """Return the addresses of Kafka and Postgres, and the state of the log."""
    kafka, postgres = await _answering(settings, servers, silent, problems)
    clients = settings.named_kafka or (settings.clients_of(servers.kafka) if servers else None)
    if kafka is None or postgres is None or clients is None:
        return kafka, postgres, "unknown"
    return kafka, postgres, await _log_state(clients, postgres, problems)


async def _answering(
    settings: Settings, servers: Servers | None, silent: Collection[str], problems: _Problems
) -> tuple[str | None, str | None]:
    """Return the addresses of Kafka and Postgres, None for one that does not answer."""
    kafka = servers.kafka.bootstrap if servers and "Kafka" not in silent else None
    postgres = servers.postgres if servers and "Postgres" not in silent else None
    kafka_settings, postgres_url = (
        settings.named_kafka,
        settings.postgres.get_secret_value() if settings.postgres else None,
    )
    if kafka_settings:
        kafka = kafka_settings.bootstrap if await _reach(reach_kafka(kafka_settings, REACH_TIMEOUT), problems) else None
    if postgres_url:
        postgres = postgres_url if await _reach(reach_postgres(postgres_url, REACH_TIMEOUT), problems) else None
    if (kafka_settings and kafka is None) or (postgres_url and postgres is None):
        tell(WHERE)
    return kafka, postgres


async def _reach(reaching: Coroutine[Any, Any, None], problems: _Problems) -> bool:
    try:
        await reaching
    except PowerOnError as error:
        problems.report(sentence(error), error.code)
        return False
    return True


async def _log_state(kafka: KafkaSettings, postgres: str, problems: _Problems) -> LogState:
    """Return whether the log holds all events that the rows were built from, and report any state but `complete`."""
    try:
        async with (
            asyncio.timeout(LOG_TIMEOUT),
            connect_kafka(kafka) as log,
            connect_postgres(postgres, connections=1, statement_cache_size=0) as pool,
        ):
            await GuardedLog(log, pool).check()
    except LogLost as error:
        problems.report(f"{sentence(error)} {LOG_LOST}", error.code, style="bold red")
        return "lost"
    except PowerOnError as error:
        problems.report(sentence(error), error.code)
        return "unknown"
    except TimeoutError:
        problems.report(f"Whether the log is complete was not found out within {LOG_TIMEOUT:g} s.", "unavailable")
        return "unknown"
    return "complete"


async def _content_state(settings: Settings, postgres: str, problems: _Problems) -> ContentState:
    """Return the state of the content store, and report any state but `reachable`."""
    try:
        async with asyncio.timeout(CONTENT_TIMEOUT):
            async with connect_postgres(postgres, connections=1, statement_cache_size=0) as pool:
                await expect_content(pool, ContentStore.at(*settings.content_places))
    except ContentLost as error:
        problems.report(f"{sentence(error)} {advice_for(error.code)}", error.code, style="bold red")
        return "lost"
    except PowerOnError as error:
        problems.report(f"{sentence(error)} {advice_for(error.code)}".rstrip(), error.code)
        return "unavailable" if error.code == "content_store_unavailable" else "unknown"
    except TimeoutError:
        problems.report(f"The content store did not answer within {CONTENT_TIMEOUT:g} s.", "content_store_unavailable")
        return "unavailable"
    return "reachable"


def _places(kafka: str | None, postgres: str | None, home: Path) -> dict[str, str | None]:
    return {"kafka": kafka, "postgres": masked(postgres) if postgres else None, "home": str(home)}


def _print(
    places: dict[str, str | None], servers: Servers | None, problems: _Problems | None = None, *, as_json: bool
) -> None:
    """Print where the servers are, and how a client logs in to our own Kafka."""
    if as_json:
        print_json(places | (_login(servers) if servers else {}) | (problems.as_object() if problems else {}))
        return
    for name, value in places.items():
        stdout.print(f"{name:<9} {value or 'does not answer'}")
    if servers:
        stdout.print(GET_IN, soft_wrap=True)
        for line in _exports(servers):
            stdout.print(line, soft_wrap=True)


def _login(servers: Servers) -> dict[str, Any]:
    """Return how a program logs in to our own Kafka: all settings but the password, and the file that holds it."""
    settings = {**servers.kafka.environment(), WITHHELD: "***"}
    return {"kafka_settings": settings, "kafka_password_file": str(servers.kafka_password_file)}


def _exports(servers: Servers) -> list[str]:
    """Return the login as shell commands, which read the password from its file."""
    password = f'"$(cat {shlex.quote(str(servers.kafka_password_file))})"'
    settings = {**servers.kafka.environment(), WITHHELD: password}
    return [f"export {name}={value}" for name, value in settings.items()]


def masked(dsn: str) -> str:
    """Return a DSN without its passwords, both before the host and among the parameters."""
    parts = urlsplit(dsn)
    host = parts.netloc.rpartition("@")[2]
    netloc = parts.netloc if parts.password is None else f"{parts.username or ''}:***@{host}"
    return urlunsplit(parts._replace(netloc=netloc, query=_SECRET.sub(r"\1***", parts.query)))
