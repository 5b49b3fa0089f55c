"""A process of a run: `python -m poweron_services.bench.child_process serve ROLE…`, or `… project BOOTSTRAP DSN`.

It ends when its input ends, so that none outlives the run, however that ends.
"""

import asyncio
import sys
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

from poweron_services import telemetry, wiring
from poweron_services.actions.registry import only
from poweron_services.bench import yardsticks
from poweron_services.bench.instant import InstantAction, InstantModel
from poweron_services.config import Settings
from poweron_services.standalone import opened


async def serve(roles: Sequence[str]) -> None:
    """Play these roles with a model and an action that answer at once."""
    async with opened(Settings(), lambda _: None, patient=True) as connections:
        wiring.settle()
        await wiring.serve(connections, roles, InstantModel(), only(InstantAction()))


def main(what: str, *arguments: str) -> None:
    telemetry.configure("warning")
    work = serve(arguments) if what == "serve" else yardsticks.project(*arguments, ready=_tell_ready)
    with suppress(asyncio.CancelledError):
        asyncio.run(_until_input_ends(work))


async def _until_input_ends(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.ensure_future(work)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    ended = asyncio.ensure_future(reader.read())
    await asyncio.wait({task, ended}, return_when=asyncio.FIRST_COMPLETED)
    ended.cancel()
    if not task.done():
        task.cancel()
    await task


def _tell_ready() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
