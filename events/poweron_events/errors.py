"""What can go wrong, cut by what the caller can do about it.

PowerOnError
├── Refused      it will fail again: change the input
│   └── MissingContent  nothing is stored under that name
├── Conflict     somebody else was first: read again, decide again
└── Unavailable  it may pass by itself: try again later
    ├── DiskFull  a disk has no room left: somebody has to make some
    ├── UnusableStore  the content store takes nothing until somebody sets something
    ├── Unserved  nobody does the work now; the request stands, so do not ask again
    └── LogLost   events that were in the log are not there: restore it, or recover
"""

from poweron_events.codes import Code


class PowerOnError(Exception):
    """Every error that PowerOn raises on purpose: a sentence for people, and a code (`codes`) for programs.

    `detail` says more for the log, such as which rule is in the way: no model is shown it.
    """

    code: Code = "unexpected_error"

    def __init__(self, sentence: str, *, code: Code | None = None, detail: str = "") -> None:
        super().__init__(sentence)
        self.code = code or self.code
        self.detail = detail


class Refused(PowerOnError):
    """The input cannot be accepted and will not be next time either."""

    code = "refused"


class MissingContent(Refused):
    """Nothing is stored under that name: it was never stored, or it was erased."""

    code = "document_missing"


class Conflict(PowerOnError):
    """Somebody else was first; what was read is no longer true."""

    code = "conflict"


class Unavailable(PowerOnError):
    """A service could not be reached or did not answer in time; its outcome may be unknown."""

    code = "unavailable"

    def __init__(
        self, sentence: str, *, code: Code | None = None, detail: str = "", retry_after: float | None = None
    ) -> None:
        """`retry_after`: in how many seconds it may be tried again, where whoever is unavailable says so."""
        super().__init__(sentence, code=code, detail=detail)
        self.retry_after = retry_after


class DiskFull(Unavailable):
    """Kafka, Postgres or the content store has no room left on its disk; the work goes on once there is some."""


class UnusableStore(Unavailable):
    """The content store takes nothing until somebody sets something; work that has begun waits for that."""

    code = "content_store_unavailable"


class Unserved(Unavailable):
    """Nobody has done within the time what was asked for; the request stands in the log, and all servers answer."""


class LogLost(Unavailable):
    """Events that were in the log are not there any more; nobody may append until it is whole again."""

    code = "log_lost"
