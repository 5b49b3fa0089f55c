"""The log lines of libraries: one is an error only if this process has a bug, and then it has a code."""

import logging
from typing import Any, Final

import structlog

log = structlog.get_logger()

OURS: Final = "poweron_"
CLIENTS: Final = frozenset({"aiokafka", "asyncpg"})
"""The libraries whose connections end when a server does; they reconnect by themselves."""


def log_library_line(record: logging.LogRecord, said: str, **fields: Any) -> bool:
    """Log a library's error line as a warning, or one of the event loop with a code; return False for other lines."""
    if record.levelno < logging.ERROR or record.name.startswith(OURS):
        return False
    if record.name == "asyncio":
        _log_loop_error(record, said)
    else:
        structlog.get_logger().log(logging.WARNING, said, exc_info=record.exc_info, **fields)
    return True


def _log_loop_error(record: logging.LogRecord, said: str) -> None:
    """Log what asyncio reports about tasks and transports that no code awaits."""
    error = record.exc_info[1] if record.exc_info else None
    if error is not None and _is_lost_connection(error):
        log.info("connection_lost", error=f"{type(error).__name__}: {error}")
    else:
        log.error("background_task_error", error=said, exc_info=record.exc_info)


def _is_lost_connection(error: BaseException) -> bool:
    return isinstance(error, OSError | EOFError) or type(error).__module__.partition(".")[0] in CLIENTS
