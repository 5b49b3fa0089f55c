"""Outages that an operator has to end: a full disk, and a server that stays unavailable. Both are logged as errors."""

import logging
import time
from typing import Final

from poweron_events.codes import Code
from poweron_events.errors import DiskFull, Unavailable

log = logging.getLogger(__name__)

LONG_OUTAGE: Final = 60.0  # seconds; restarts and elections take less
OF_SERVERS: Final[frozenset[Code]] = frozenset({"unavailable", "content_store_unavailable"})
"""The codes of errors of Kafka, Postgres and the content store; a model that does not answer has other codes."""


class Outage:
    """The failures of one piece of work, from its first failure until it succeeds."""

    def __init__(self) -> None:
        self._since: float | None = None

    def failed(self, error: Exception) -> None:
        """Log an error line if the disk is full, or the server has been unavailable for a minute."""
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if isinstance(error, DiskFull):
            log.error("disk_full", extra={"error": str(error)})
        elif isinstance(error, Unavailable) and error.code in OF_SERVERS and now - self._since >= LONG_OUTAGE:
            log.error("server_outage", extra={"error": str(error), "seconds": round(now - self._since)})

    def ended(self) -> None:
        """Forget the failures: the work succeeded."""
        self._since = None
