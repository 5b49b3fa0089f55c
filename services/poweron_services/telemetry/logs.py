"""Structured log lines: a code of `log_events` as `event`, the varying parts as fields."""

import logging
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import NoneType
from typing import Any, Final, cast

import structlog
from structlog.typing import Processor

from poweron_events.redaction import redacted
from poweron_services.settings.secret_redaction import NO_SECRETS, SecretRedaction
from poweron_services.telemetry.instrumentation import add_place
from poweron_services.telemetry.log_events import MODEL_WAITS, OUTAGES, STAGE_WAITS

log = structlog.get_logger()
OURS: Final = "poweron_"
CLIENTS: Final = frozenset({"aiokafka", "asyncpg"})
"""The libraries whose connections end when a server does; they reconnect by themselves."""
_hidden: SecretRedaction = NO_SECRETS
MAX_FIELD = 2_000  # characters
WITHOUT_TEXT: Final = (int, float, NoneType)
A_SECOND = 10  # lines of the same warning per second
FACTS_A_SECOND = 100  # lines of the same event per second, below the level of a warning
OUTAGE_PERIOD = 60.0  # seconds between two lines of the same outage
MESSAGES = 1_000  # different events to count lines for
OWNER_ONLY = 0o600
HTTP_CLIENTS: Final = frozenset(
    {"httpx", "httpx2", "httpcore", "httpcore2", "openai", "anthropic", "mistralai", "requests", "urllib3"}
)
"""Loggers of libraries that log addresses, headers and bodies below the level of a warning."""


REPEATING: Final = frozenset({"opentelemetry.util.re"})
"""Loggers that repeat an unreadable header of `OTEL_EXPORTER_OTLP_HEADERS`, which is therefore left out."""


class LogFile:
    """A file for its owner only, which is opened for each line and created with the first one."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, line: str) -> None:
        with suppress(OSError):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, OWNER_ONLY)
            with os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace") as file:
                os.fchmod(descriptor, OWNER_ONLY)  # releases before 0.3 let others read it
                file.write(line)

    def flush(self) -> None:
        """Do nothing, as lines are not buffered."""


class _Stderr:
    """Standard error, which may be on a full disk or a pipe without a reader: lines are lost, but no work fails."""

    def write(self, line: str) -> None:
        with suppress(OSError):
            sys.stderr.write(line)

    def flush(self) -> None:
        with suppress(OSError):
            sys.stderr.flush()


class _Structured(logging.Handler):
    """Passes on log lines of the standard library, except those that HTTP clients write about every request."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno < logging.WARNING and record.name.partition(".")[0] in HTTP_CLIENTS:
            return
        known = {*logging.makeLogRecord({}).__dict__, "message", "event", "level"}
        fields: dict[str, Any] = {name: value for name, value in record.__dict__.items() if name not in known}
        level = min(record.levelno // 10 * 10, logging.CRITICAL)  # a library may have levels between those of Python
        try:
            message = record.msg if record.name in REPEATING else record.getMessage()
            if not log_library_line(record, message, **fields):
                structlog.get_logger().log(level, message, exc_info=record.exc_info, **fields)
        except Exception:  # noqa: BLE001 - no work fails because of a log line
            self.handleError(record)


class Thinned:
    """Lets each event pass a few times a second: if a server is unavailable, a thousand workflows log the same line.

    Lines about ongoing work pass more often, but are limited too: the workflow's events contain everything.
    After lines were dropped, the next line of that event has their number in `left_out`. Errors always pass, except
    for outages, which all work waiting for a server logs: these pass once a minute.
    """

    def __init__(self) -> None:
        self._told: dict[str, tuple[int, int]] = {}
        self._outages: dict[str, float] = {}

    def __call__(self, _: object, level: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
        event = str(line.get("event"))
        if level not in ("debug", "info", "warning"):
            return self._error(event, line)
        most = A_SECOND if level == "warning" else FACTS_A_SECOND
        now = int(time.monotonic())
        if len(self._told) >= MESSAGES and event not in self._told:
            self._told.clear()
        second, count = self._told.get(event, (now, 0))
        if second == now and count >= most:
            self._told[event] = (now, count + 1)
            raise structlog.DropEvent
        self._told[event] = (now, count + 1 if second == now else 1)
        return {**line, "left_out": count - most} if second != now and count > most else line

    def _error(self, event: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
        now = time.monotonic()
        if event in OUTAGES:
            if now < self._outages.get(event, -OUTAGE_PERIOD) + OUTAGE_PERIOD:
                raise structlog.DropEvent
            self._outages[event] = now
        return line


class StageWaitReporter:
    """Reports the stages that wait: for a model at each try, otherwise once per stage and code; passes all lines on."""

    def __init__(self, tell: Callable[[str, str, str, float | None], None]) -> None:
        """`tell` receives the workflow's id, the stage, the error and, for a model, the seconds until the next try."""
        self._tell = tell
        self._told: dict[str, tuple[str, set[str]]] = {}

    def __call__(self, _: object, __: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
        id_, stage, trouble, code = (str(line.get(name, "")) for name in ("workflow_id", "stage", "error", "code"))
        if line.get("event") == MODEL_WAITS and (seconds := line.get("seconds")) is not None:
            self._tell(id_, stage, trouble, seconds)
        elif line.get("event") == STAGE_WAITS:
            before, codes = self._told.get(id_, ("", set()))
            if before != stage:
                _, codes = self._told[id_] = (stage, set[str]())
            if code not in codes:
                codes.add(code)
                self._tell(id_, stage, trouble, None)
        return line


def _cap(_: object, __: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Keep every field on one line, of limited length, and without secrets of addresses and connections."""
    return {name: _short(value) for name, value in line.items()}


def _short(value: object) -> object:
    return value if isinstance(value, WITHOUT_TEXT) else redacted(_hidden.redacted(str(value)))[:MAX_FIELD]


def hide_secrets(secrets: SecretRedaction) -> None:
    """Remove these secrets from every line that this process writes from now on."""
    global _hidden  # noqa: PLW0603 - log lines belong to the whole process, too
    _hidden = secrets


def configure(level: str = "info", file: LogFile | None = None, *watching: Processor, lasting: bool = False) -> None:
    """Write log lines of this level and above to stderr or a file, one JSON object per line.

    Args:
        level: the lowest level to write.
        file: the file to write to; stderr by default.
        watching: processors that receive every line before any is dropped.
        lasting: whether the process never calls this again, so that each logger is built only once.
    """
    numeric = logging.getLevelNamesMapping()[level.upper()]
    _configure(numeric, file, *watching, lasting=lasting)
    logging.basicConfig(level=numeric, handlers=[_Structured()], force=True)


def configure_for_library() -> None:
    """Write warnings to stderr unless the program that uses PowerOn has configured structlog; leave `logging` alone."""
    if not structlog.is_configured():
        _configure(logging.WARNING, None)


def _configure(level: int, file: LogFile | None, *watching: Processor, lasting: bool = False) -> None:
    structlog.configure(
        processors=[
            *watching,
            Thinned(),
            structlog.contextvars.merge_contextvars,
            add_place,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _cap,
            structlog.processors.JSONRenderer(sort_keys=True),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(cast("Any", file or _Stderr())),
        cache_logger_on_first_use=lasting,
    )


def log_library_line(record: logging.LogRecord, message: str, **fields: Any) -> bool:
    """Log a library's error line as a warning, or one of the event loop with a code; return False for other lines."""
    if record.levelno < logging.ERROR or record.name.startswith(OURS):
        return False
    if record.name == "asyncio":
        _log_loop_error(record, message)
    else:
        structlog.get_logger().log(logging.WARNING, message, exc_info=record.exc_info, **fields)
    return True


def _log_loop_error(record: logging.LogRecord, message: str) -> None:
    """Log what asyncio reports about tasks and transports that no code awaits."""
    error = record.exc_info[1] if record.exc_info else None
    if error is not None and _is_lost_connection(error):
        log.info("connection_lost", error=f"{type(error).__name__}: {error}")
    elif message.startswith("Unclosed AIOKafkaConnection"):  # a start that was cancelled left it; it is closed by now
        log.info("connection_lost", error=message)
    else:
        log.error("background_task_error", error=message, exc_info=record.exc_info)


def _is_lost_connection(error: BaseException) -> bool:
    return isinstance(error, OSError | EOFError) or type(error).__module__.partition(".")[0] in CLIENTS
