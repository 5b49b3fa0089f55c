"""A role process for scenarios: `python -m poweron_services.chaos.scenario_worker JOURNAL ROLE…`.

It ends when its standard input does, so that no process is left where the command that started it was killed.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import structlog

from poweron_services import telemetry, wiring
from poweron_services.actions.registry import only
from poweron_services.chaos.scenarios import ErrandModel, Journal, errand_actions
from poweron_services.config import Settings
from poweron_services.standalone import opened

log = structlog.get_logger()


def main(journal: Path, roles: Sequence[str]) -> None:
    settings = Settings()
    telemetry.configure(settings.log_level)
    threading.Thread(target=_end_with_the_command, daemon=True).start()
    asyncio.run(_until_stopped(settings, journal, roles))


def _end_with_the_command() -> None:
    """Read nothing from standard input until it ends; without Python's own buffer, which a thread must not hold."""
    while os.read(0, 1):
        pass
    os._exit(1)


async def _until_stopped(settings: Settings, journal: Path, roles: Sequence[str]) -> None:
    serving = asyncio.ensure_future(_serve(settings, journal, roles))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
    with suppress(asyncio.CancelledError):
        await serving


async def _serve(settings: Settings, journal: Path, roles: Sequence[str]) -> None:
    async with opened(settings, lambda _: None, patient=True) as connections:
        log.info("serving", roles=",".join(roles))
        await wiring.serve(connections, roles, ErrandModel(), only(*errand_actions(Journal(journal)).values()))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
