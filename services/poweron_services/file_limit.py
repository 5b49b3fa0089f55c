"""How many files and connections this process may have open: as many as the system allows, not its lower default."""

import resource
from typing import Final

ENOUGH: Final = 65_536


def raise_file_limit() -> None:
    """Raise the limit to what the system allows, at most to `ENOUGH`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
