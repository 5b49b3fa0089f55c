"""What can go wrong, cut by what the caller can do about it.

PowerOnError
├── Refused      it will fail again: change the input
├── Conflict     somebody else was first: read again, decide again
└── Unavailable  it may pass by itself: try again later
"""


class PowerOnError(Exception):
    """Every error that PowerOn raises on purpose."""


class Refused(PowerOnError):
    """The input cannot be accepted and will not be next time either."""


class Conflict(PowerOnError):
    """Somebody else was first; what was read is no longer true."""


class Unavailable(PowerOnError):
    """A service could not be reached or did not answer in time; its outcome may be unknown."""
