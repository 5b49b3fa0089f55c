"""The commands that run and maintain the service."""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import structlog
import typer

from poweron_projections.rebuild import Rebuilt
from poweron_projections.rebuild import rebuild as rebuild_rows
from poweron_projections.shadow import Difference
from poweron_projections.verify import Verified
from poweron_projections.verify import verify as verify_rows
from poweron_services import shutdown, telemetry, wiring
from poweron_services.cli.content_faults import content_json, print_content
from poweron_services.cli.context import FAILED
from poweron_services.cli.error_messages import load_settings, run_work, sentences
from poweron_services.cli.output import one_line, print_json, stdout, tell
from poweron_services.cli.progress_bar import bar
from poweron_services.client.content_check import CheckedContent, check_content
from poweron_services.log_redaction import hide_configured_secrets
from poweron_services.process_memory import tune_memory
from poweron_services.settings.config import Settings, misspelled
from poweron_services.standalone import open_connections

log = structlog.get_logger()


@sentences()
def serve(roles: Sequence[str]) -> None:
    """Play roles until SIGTERM or Ctrl-C."""
    settings = Settings()
    telemetry.configure(settings.log_level)
    hide_configured_secrets(settings)
    if settings.deprecated is not None:
        log.warning("setting_deprecated", advice=settings.deprecated)
    for warning in misspelled(os.environ):
        log.warning("setting_unknown", advice=warning)
    with suppress(KeyboardInterrupt), shutdown.at_deadline(_log_given_up):
        shutdown.run(_serve(settings, roles or wiring.ROLES))


async def _serve(settings: Settings, roles: Sequence[str]) -> None:
    async with open_connections(settings, _tell_log, wait=True) as connections, wiring.open_model(settings) as model:
        tune_memory()
        await wiring.keep_serving(connections, roles, model)


def _log_given_up() -> None:
    log.warning("shutdown_incomplete", seconds=shutdown.CLOSE_DEADLINE)


def _tell_log(said: str) -> None:
    log.info("embedded_servers", said=said)


@sentences()
def rebuild(*, as_json: bool) -> None:
    """Rebuild the rows from the log and swap them in."""
    rebuilt = run_work(_rebuild(load_settings()))
    found = None if rebuilt.differences is None else [_difference(each) for each in rebuilt.differences]
    if as_json:
        print_json({"events": rebuilt.events, "deadLetters": rebuilt.dead_letters, "differences": found})
        return
    stdout.print(f"Rebuilt from {rebuilt.events} records and {rebuilt.dead_letters} dead letters.")
    if found is None:
        stdout.print("There were no rows to compare with.")
    else:
        _print_differences(found)
    if found:
        stdout.print("The rows that differed are replaced: they are now what the log says.")


async def _rebuild(settings: Settings) -> Rebuilt:
    async with open_connections(settings, tell) as connections:
        with bar("Rebuilding the rows", "records") as told:
            return await rebuild_rows(connections.log, connections.pool, told)


@sentences()
def verify(*, reading: bool, as_json: bool) -> None:
    """Compare the rows with the log, and the content store with what events refer to."""
    verified, content = run_work(_verify(load_settings(), reading=reading))
    found = [_difference(each) for each in verified.differences]
    if as_json:
        print_json({"events": verified.events, "differences": found, "content": content_json(content)})
    else:
        stdout.print(f"{verified.events} records folded.")
        _print_differences(found)
        print_content(content)
    raise typer.Exit(FAILED if found or content.faults else 0)


async def _verify(settings: Settings, *, reading: bool) -> tuple[Verified, CheckedContent]:
    async with open_connections(settings, tell) as connections:
        with bar("Folding the log", "records") as told:
            verified = await verify_rows(connections.log, connections.pool, told)
        with bar("Reading contents" if reading else "Listing contents", "contents") as told:
            return verified, await check_content(
                connections.pool, connections.content, reading=reading, on_progress=told
            )


def _difference(found: Difference) -> dict[str, Any]:
    """Return a difference as `--json` prints it."""
    return {
        "table": found.table,
        "key": {name: str(value) for name, value in found.key.items()},
        "column": found.column,
        "expected": _value(found.expected),
        "found": _value(found.found),
    }


def _value(value: Any) -> Any:
    return value if isinstance(value, int | str | bool | None) else repr(value)


def _print_differences(found: list[dict[str, Any]]) -> None:
    for each in found:
        key = ", ".join(f"{name} {value}" for name, value in each["key"].items())
        what = f"column {each['column']}: expected {each['expected']!r}, found {each['found']!r}"
        if each["column"] is None:
            what = "the row is missing" if each["found"] is None else "the row should not be there"
        stdout.print(one_line(f"{each['table']} ({key}): {what}", 400))
    counted = "1 difference." if len(found) == 1 else f"{len(found)} differences."
    stdout.print(counted if found else "The rows are what the log says.")
