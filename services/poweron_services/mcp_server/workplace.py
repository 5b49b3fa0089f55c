"""Where the tools work: servers, connections and roles, opened when first needed, and again after a failure."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

from poweron_events.errors import Unavailable
from poweron_events.task_cancellation import cancel_task, retrieve_error
from poweron_services.client.connect import Connections
from poweron_services.client.pending_request import pending_requests_reported

Result = TypeVar("Result")


class Workplace:
    """One set of connections for all calls, which the roles use as well."""

    def __init__(
        self,
        opening: Callable[[], AbstractAsyncContextManager[Connections]],
        serving: Callable[[Connections], Awaitable[None]],
    ) -> None:
        """`opening` opens connections, `serving` plays the roles on them until it is cancelled."""
        self._opening = opening
        self._serving = serving
        self._ready: asyncio.Future[Connections] | None = None
        self._kept: asyncio.Task[None] | None = None

    async def do(self, work: Callable[[Connections], Coroutine[Any, Any, Result]]) -> Result:
        """Run `work` on the connections; it ends if they are closed or the roles stop.

        Raises:
            Unavailable: a server cannot be reached or started.
            Refused: something must be corrected first.
        """
        ready, open_task = self._open()
        connections = await asyncio.shield(ready)
        working = asyncio.create_task(_reporting_pending(connections, work))
        try:
            await asyncio.wait({working, open_task}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                open_task.result()
                raise Unavailable("The connections were closed meanwhile")
            return working.result()
        finally:
            await cancel_task(working)

    def _open(self) -> "tuple[asyncio.Future[Connections], asyncio.Task[None]]":
        if self._ready is None or self._kept is None or self._kept.done():
            self._ready = asyncio.get_running_loop().create_future()
            self._kept = asyncio.create_task(self._keep(self._ready))
            retrieve_error(self._kept)
        return self._ready, self._kept

    async def _keep(self, ready: "asyncio.Future[Connections]") -> None:
        try:
            async with self._opening() as connections:
                ready.set_result(connections)
                await self._serving(connections)
        except Exception as error:
            if ready.done():
                raise
            ready.set_exception(error)
            ready.exception()  # marks it as retrieved, since possibly no caller is waiting any more
        finally:
            ready.cancel()

    async def close(self) -> None:
        """Close the connections and stop the roles."""
        if self._kept is not None:
            await cancel_task(self._kept)


@asynccontextmanager
async def workplace(
    opening: Callable[[], AbstractAsyncContextManager[Connections]], serving: Callable[[Connections], Awaitable[None]]
) -> AsyncGenerator[Workplace, None]:
    """Provide a workplace, and close it at the end."""
    place = Workplace(opening, serving)
    try:
        yield place
    finally:
        await place.close()


async def _reporting_pending(
    connections: Connections, work: Callable[[Connections], Coroutine[Any, Any, Result]]
) -> Result:
    async with pending_requests_reported(connections):
        return await work(connections)
