"""The commands that start, stop and check Kafka and Postgres. They import little, so that they are quick."""

import re
import shlex
from collections.abc import Collection, Coroutine
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import typer

from poweron_events.errors import PowerOnError
from poweron_events.log.kafka_clients import reach as reach_kafka
from poweron_projections.connection import reach as reach_postgres
from poweron_services import embedded
from poweron_services.cli.advice import WHERE
from poweron_services.cli.content_state import content_state
from poweron_services.cli.context import FAILED
from poweron_services.cli.error_messages import load_settings, run_work, sentence, sentences
from poweron_services.cli.log_state import LogState, log_state
from poweron_services.cli.output import print_json, stdout, tell
from poweron_services.cli.problems import Problems
from poweron_services.embedded import Servers
from poweron_services.settings.config import Settings

REACH_TIMEOUT = 5.0  # seconds that a server has to answer
START: Final = "`poweron up` starts what does not run."
WITHHELD: Final = "POWERON_KAFKA_SASL_PASSWORD"
GET_IN: Final = """
This Kafka lets in only who has its password, which nobody but you can read. Clients of your own get in with:"""

_SECRET = re.compile(r"((?:^|&)(?:ssl)?password=)[^&]*")


@sentences()
def up(*, as_json: bool) -> None:
    """Start the embedded servers and leave them running."""
    servers = run_work(embedded.up(load_settings().home, tell))
    _print(_places(servers.kafka.bootstrap, servers.postgres, servers.home), None, as_json=as_json)


@sentences()
def down(*, as_json: bool) -> None:
    """Stop the embedded servers."""
    stopped = run_work(embedded.down(load_settings().home, tell))
    tell("Kafka and Postgres are stopped." if stopped else "Nothing was running.")
    if as_json:
        print_json({"stopped": bool(stopped)})


@sentences()
def status(*, as_json: bool) -> None:
    """Check whether the servers answer, and print where; for our own Kafka, also how clients log in."""
    settings, problems = load_settings(), Problems()
    own, silent = _own_servers(settings, problems)
    kafka, postgres, log = run_work(_seen(settings, own, silent, problems))
    content = run_work(content_state(settings.content_place, postgres, problems)) if postgres else "unknown"
    places = _places(kafka, postgres, settings.home) | {"log": log, "content": content}
    _print(places, own if kafka and not settings.kafka else None, problems, as_json=as_json)
    if log != "complete" or content != "reachable":
        raise typer.Exit(FAILED)


def _own_servers(settings: Settings, problems: Problems) -> tuple[Servers | None, Collection[str]]:
    """Return the servers of this machine, if they are needed, and which of them do not answer."""
    needed = {"Kafka": not settings.kafka, "Postgres": not settings.postgres}
    if not any(needed.values()):
        return None, ()
    own, silent = embedded.status(settings.home)
    missing = [name for name in silent if needed[name]]
    if len(missing) == len(needed):
        problems.report(f"No Kafka and no Postgres run on this machine for this data directory. {START}", "unavailable")
    elif missing:
        problems.report(f"{missing[0]} does not answer on this machine for this data directory. {START}", "unavailable")
    return own, silent


async def _seen(
    settings: Settings, own: Servers | None, silent: Collection[str], problems: Problems
) -> tuple[str | None, str | None, LogState]:
    """Return the addresses of Kafka and Postgres, and the state of the log."""
    kafka, postgres = await _answering(settings, own, silent, problems)
    clients = settings.named_kafka or (settings.clients_of(own.kafka) if own else None)
    if kafka is None or postgres is None or clients is None:
        return kafka, postgres, "unknown"
    return kafka, postgres, await log_state(clients, postgres, problems)


async def _answering(
    settings: Settings, own: Servers | None, silent: Collection[str], problems: Problems
) -> tuple[str | None, str | None]:
    """Return the addresses of Kafka and Postgres, None for one that does not answer."""
    kafka = own.kafka.bootstrap if own and "Kafka" not in silent else None
    postgres = own.postgres if own and "Postgres" not in silent else None
    named, given = settings.named_kafka, settings.postgres.get_secret_value() if settings.postgres else None
    if named:
        kafka = named.bootstrap if await _reached(reach_kafka(named, REACH_TIMEOUT), problems) else None
    if given:
        postgres = given if await _reached(reach_postgres(given, REACH_TIMEOUT), problems) else None
    if (named and kafka is None) or (given and postgres is None):
        tell(WHERE)
    return kafka, postgres


async def _reached(reaching: Coroutine[Any, Any, None], problems: Problems) -> bool:
    try:
        await reaching
    except PowerOnError as error:
        problems.report(sentence(error), error.code)
        return False
    return True


def _places(kafka: str | None, postgres: str | None, home: Path) -> dict[str, str | None]:
    return {"kafka": kafka, "postgres": masked(postgres) if postgres else None, "home": str(home)}


def _print(
    places: dict[str, str | None], own: Servers | None, problems: Problems | None = None, *, as_json: bool
) -> None:
    """Print where the servers are, and how a client logs in to our own Kafka."""
    if as_json:
        print_json(places | (_login(own) if own else {}) | (problems.as_object() if problems else {}))
        return
    for name, value in places.items():
        stdout.print(f"{name:<9} {value or 'does not answer'}")
    if own:
        stdout.print(GET_IN, soft_wrap=True)
        for line in _exports(own):
            stdout.print(line, soft_wrap=True)


def _login(own: Servers) -> dict[str, Any]:
    """Return how a program logs in to our own Kafka: all settings but the password, and the file that holds it."""
    settings = {**own.kafka.environment(), WITHHELD: "***"}
    return {"kafka_settings": settings, "kafka_password_file": str(own.kafka_password_file)}


def _exports(own: Servers) -> list[str]:
    """Return the same as shell commands, which read the password from its file."""
    password = f'"$(cat {shlex.quote(str(own.kafka_password_file))})"'
    settings = {**own.kafka.environment(), WITHHELD: password}
    return [f"export {name}={value}" for name, value in settings.items()]


def masked(dsn: str) -> str:
    """Return a DSN without its passwords, both before the host and among the parameters."""
    parts = urlsplit(dsn)
    host = parts.netloc.rpartition("@")[2]
    netloc = parts.netloc if parts.password is None else f"{parts.username or ''}:***@{host}"
    return urlunsplit(parts._replace(netloc=netloc, query=_SECRET.sub(r"\1***", parts.query)))
