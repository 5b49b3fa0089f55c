"""The errors, grouped by what the caller can do about them.

PowerOnError
├── Refused      it will fail again: change the input
│   └── MissingContent  nothing is stored under that name
├── Conflict     another process was first: read again, decide again
└── Unavailable  it may resolve by itself: try again later
    ├── DiskFull  a disk is full: an operator has to free space
    ├── UnusableStore  the content store cannot be used until its configuration is corrected
    ├── Unserved  no process is serving the request; it remains in the log, so do not send it again
    └── LogLost   events that were in the log are missing: restore it, or recover
"""

from poweron_events.codes import Code


class PowerOnError(Exception):
    """Base of the errors that PowerOn raises deliberately: a sentence for people, and a code (`codes`) for programs.

    `detail` adds information for the log, such as which rule forbids the work; it is never shown to a model.
    """

    code: Code = "unexpected_error"

    def __init__(self, sentence: str, *, code: Code | None = None, detail: str = "") -> None:
        super().__init__(sentence)
        self.code = code or self.code
        self.detail = detail


class Refused(PowerOnError):
    """The input cannot be accepted, now or later."""

    code = "refused"


class MissingContent(Refused):
    """Nothing is stored under that name: it was never stored, or it was erased."""

    code = "document_missing"


class Conflict(PowerOnError):
    """Another process was first; what the caller has read is stale."""

    code = "conflict"


class Unavailable(PowerOnError):
    """A service could not be reached or did not answer in time; its outcome may be unknown."""

    code = "unavailable"

    def __init__(
        self, sentence: str, *, code: Code | None = None, detail: str = "", retry_after: float | None = None
    ) -> None:
        """`retry_after`: seconds until the call may be retried, if the unavailable service reports them."""
        super().__init__(sentence, code=code, detail=detail)
        self.retry_after = retry_after


class DiskFull(Unavailable):
    """Kafka, Postgres or the content store has no disk space left; the work goes on once there is some."""


class UnusableStore(Unavailable):
    """The content store cannot be used until its configuration is corrected; work that has begun waits for that."""

    code = "content_store_unavailable"


class Unserved(Unavailable):
    """No process has done the requested work in time, although all servers respond; the request remains in the log."""


class LogLost(Unavailable):
    """Events that were in the log are missing; no process may append until it is complete again."""

    code = "log_lost"
