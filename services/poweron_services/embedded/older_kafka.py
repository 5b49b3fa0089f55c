"""A Kafka that a release before 0.3 left running: it accepts all clients until it is restarted with a password."""

import asyncio
from collections.abc import Callable

from poweron_events.errors import Refused
from poweron_services.embedded.folders import Folders
from poweron_services.embedded.kafka_server import Kafka
from poweron_services.embedded.server_process import Running
from poweron_services.embedded.users import living


def refuse(kafka: Kafka, folders: Folders) -> None:
    """Refuse to continue if it is running.

    Raises:
        Refused: it is running.
    """
    if _running(kafka) is not None:
        raise Refused(f"{_description(folders)} The next command that uses it restarts it, with a password.")


async def stop(kafka: Kafka, folders: Folders, progress: Callable[[str], None]) -> None:
    """Stop it if it is running and has no other user. Call this under the lock, as a user.

    Raises:
        Refused: it has other users.
    """
    process = await asyncio.to_thread(_running, kafka)
    if process is None:
        return
    others = living(folders.users) - 1
    if others:
        raise Refused(
            f"{_description(folders)} It must restart to get a password, and {others} more of your commands or "
            "services use it: end them and try again."
        )
    progress(f"{_description(folders)} Stopping it…")
    await kafka.stop(process)


def _running(kafka: Kafka) -> Running | None:
    process = kafka.find()
    return None if process is None or kafka.asks_for_password() else process


def _description(folders: Folders) -> str:
    return f"The Kafka of {str(folders.home)!r} was started by an older PowerOn and accepts every user of this machine."
