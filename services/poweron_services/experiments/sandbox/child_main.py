"""The main program of a child process: it works until SIGTERM and ends at once if its parent dies."""

import asyncio
import os
import threading
from collections.abc import Coroutine, Sequence
from typing import Any

import structlog

from poweron_services import wiring
from poweron_services.actions.registry import OpenActions
from poweron_services.models.chat_model import ChatModel
from poweron_services.process_memory import tune_memory
from poweron_services.settings.config import Settings
from poweron_services.signals import until_stopped
from poweron_services.standalone import open_connections

log = structlog.get_logger()


def run(work: Coroutine[Any, Any, None]) -> None:
    """Do this work until SIGTERM; if the parent is killed, end the process at once."""
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    asyncio.run(until_stopped(work))


async def serve(settings: Settings, roles: Sequence[str], model: ChatModel, open_actions: OpenActions) -> None:
    """Play these roles with this model and these actions."""
    async with open_connections(settings, lambda _: None, wait=True) as connections:
        tune_memory()
        log.info("service_started", roles=",".join(roles))
        await wiring.serve(connections, roles, model, open_actions)


def _end_with_the_parent() -> None:
    """Exit when standard input ends; read it without Python's own buffer, which a thread must not hold."""
    while os.read(0, 1):
        pass
    os._exit(1)
