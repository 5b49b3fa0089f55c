"""A `poweron serve` whose model is a researcher: `python research_process.py ROLE,ROLE,…`, settings from the environment.

`PYTHONPATH` names the folder where the model is.
"""

import asyncio
import sys

from researcher import Researcher

from poweron_services import telemetry
from poweron_services.settings.config import Settings
from poweron_services.signals import until_stopped
from poweron_services.standalone import open_connections
from poweron_services.wiring import serve


async def _serve(settings: Settings, roles: list[str]) -> None:
    async with open_connections(settings, print, wait=True) as connections:
        await serve(connections, roles, Researcher())


def main() -> None:
    settings = Settings()
    telemetry.configure(settings.log_level)
    asyncio.run(until_stopped(_serve(settings, sys.argv[1].split(","))))


if __name__ == "__main__":
    main()
