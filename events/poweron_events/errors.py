"""What can go wrong, cut by what the caller can do about it.

PowerOnError
├── Refused      it will fail again: change the input
├── Conflict     somebody else was first: read again, decide again
└── Unavailable  it may pass by itself: try again later
    └── Unserved  nobody does the work now; the request stands, so do not ask again
"""

from typing import Final

CONTENT_STORE: Final = "The content store"
"""What an error that tells of it calls it, so that a person can be told where to look."""


class PowerOnError(Exception):
    """Every error that PowerOn raises on purpose."""


class Refused(PowerOnError):
    """The input cannot be accepted and will not be next time either."""


class Conflict(PowerOnError):
    """Somebody else was first; what was read is no longer true."""


class Unavailable(PowerOnError):
    """A service could not be reached or did not answer in time; its outcome may be unknown."""


class Unserved(Unavailable):
    """Nobody has done within the time what was asked for; the request stands in the log, and all servers answer."""
