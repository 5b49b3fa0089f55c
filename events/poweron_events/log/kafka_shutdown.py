"""Closing a client of a broker that may be unavailable: it ends in time and leaves nothing running."""

import asyncio
from contextlib import suppress
from typing import Any

STOP_TIMEOUT = 5.0  # seconds that closing a client may take


async def closed(client: Any) -> None:
    """Close a client, but not for ever: what it still held is repeated by whoever needs it."""
    stop = getattr(client, "stop", None) or client.close  # an admin client has only `close`
    try:
        async with asyncio.timeout(STOP_TIMEOUT):
            await stop()
    except Exception:  # noqa: BLE001 - whatever it complains of on its way out, it goes
        await _abandoned(client)
    except asyncio.CancelledError:
        await _abandoned(client)
        raise


async def given_up(client: Any) -> None:
    """Close a client at once; what it still held is never sent."""
    await _abandoned(client)
    await closed(client)


async def _abandoned(client: Any) -> None:
    """End what a client does in the background, without a good-bye to its broker."""
    for name in ("_sender", "_fetcher", "_client", "client"):
        part = getattr(client, name, None)
        if part is not None:
            with suppress(Exception):
                async with asyncio.timeout(STOP_TIMEOUT):
                    await part.close()
