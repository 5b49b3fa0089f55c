"""The entry point of `poweron`, which handles signals before it imports anything slow."""

import json
import os
import sys
from typing import Final

from poweron_services import shutdown
from poweron_services.cli.context import AS_JSON, FAILED, NOTHING_YET, STOPPED, STOPPED_CODE
from poweron_services.cli.standard_streams import outlive_readers, unwritten

SERVICES: Final = ("serve", "door")
"""The commands that run until they are stopped, and end with exit code 0 then."""


def main() -> None:
    """Run `poweron` with the arguments of this process."""
    AS_JSON.set("--json" in sys.argv[1:])  # until the arguments are parsed
    shutdown.handle_signals(_exit_code, _handle_stop)
    outlive_readers()
    from poweron_services.cli import main as commands  # noqa: PLC0415 - takes long to import

    try:
        commands.main()
    finally:
        shutdown.ignore_signals()
        if (reason := unwritten()) is not None:
            message = f"Not everything could be printed: {reason}. Free some space, and see `poweron workflows`."
            print(message, file=sys.stderr)  # noqa: T201 - it concerns all commands
            raise SystemExit(FAILED)


def _is_service() -> bool:
    """Return whether this process runs a service."""
    return any(argument in SERVICES for argument in sys.argv[1:2])


def _exit_code(signum: int) -> int:
    """Return the exit code after a signal: that of shells, or 0 for a service, which is meant to end that way."""
    return 0 if _is_service() else 128 + signum


def _handle_stop(has_run: bool) -> None:
    """Print that the command was stopped, bypassing the buffered streams, which a signal handler must not touch."""
    if _is_service():
        return
    message = STOPPED if has_run else NOTHING_YET
    _write(2, message)
    if AS_JSON.get():
        _write(1, json.dumps({"error": message, "code": STOPPED_CODE}))


def _write(descriptor: int, line: str) -> None:
    try:
        os.write(descriptor, f"{line}\n".encode())
    except OSError:  # the reader is gone
        return
