"""The state of the log, as `poweron status` shows it: whether it holds all events that the rows were built from."""

import asyncio
from typing import Final, Literal

from poweron_events.errors import LogLost, PowerOnError
from poweron_events.log.kafka import connect as connect_kafka
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_projections.connection import connect as connect_postgres
from poweron_projections.log_guard import GuardedLog
from poweron_services.cli.advice import LOG_LOST
from poweron_services.cli.error_messages import sentence
from poweron_services.cli.problems import Problems

LogState = Literal["complete", "lost", "unknown"]

CHECK_TIMEOUT: Final = 5.0  # seconds


async def log_state(kafka: KafkaSettings, postgres: str, problems: Problems) -> LogState:
    """Return whether the log holds all events that the rows were built from, and report any state but `complete`."""
    try:
        async with (
            asyncio.timeout(CHECK_TIMEOUT),
            connect_kafka(kafka) as log,
            connect_postgres(postgres, connections=1, statement_cache_size=0) as pool,
        ):
            await GuardedLog(log, pool).check()
    except LogLost as error:
        problems.report(f"{sentence(error)} {LOG_LOST}", error.code, style="bold red")
        return "lost"
    except PowerOnError as error:
        problems.report(sentence(error), error.code)
        return "unknown"
    except TimeoutError:
        problems.report(f"Whether the log is complete was not found out within {CHECK_TIMEOUT:g} s.", "unavailable")
        return "unknown"
    return "complete"
