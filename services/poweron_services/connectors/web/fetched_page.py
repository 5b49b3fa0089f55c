"""What fetching a page brings, and how whoever wants one asks for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """What a server answered, as it was read."""

    requested: str
    """The address that was asked for."""
    url: str
    """The address that answered, after all redirects."""
    status: int
    headers: Mapping[str, str]
    """Those that matter, by their names in lower case."""
    body: bytes
    """Decompressed."""
    fetched_at: str
    """The moment in UTC, to the second: `2026-11-23T10:00:00Z`."""
    sha256: str
    """Of the body."""
    content: str
    """What the body is kept as in the content of the workflow."""
    truncated: bool = False
    """Whether the server had more to send than may be read."""

    @property
    def media_type(self) -> str:
        """What the server says it is, such as `text/html`; empty where it does not say."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class FetchPage(Protocol):
    """How an action has a page: guarded, politely, and nothing twice.

    The same address is fetched once for a workflow; a step that is tried again is given what was kept.
    Raises `Refused` with a sentence and a code where it may not be fetched or there is nothing to be had (the allow
    and deny lists, a forbidden address, robots.txt, a status that is an error, a body beyond all limits, a server that
    did not answer in time); `Unavailable` only where this machine or the content store is in trouble.
    """

    async def __call__(self, url: str, /) -> FetchedPage: ...
