"""A fetched page, and the interface for fetching one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """A server's answer, as it was read."""

    requested: str
    """The requested address."""
    url: str
    """The address that answered, after all redirects."""
    status: int
    headers: Mapping[str, str]
    """The relevant ones, by their names in lower case."""
    body: bytes
    """Decompressed."""
    fetched_at: str
    """The moment in UTC, to the second: `2026-11-23T10:00:00Z`."""
    sha256: str
    """The digest of the body."""
    content: str
    """The reference of the body in the workflow's content."""
    truncated: bool = False
    """Whether the server had more to send than the limit allows."""

    @property
    def media_type(self) -> str:
        """The media type that the server names, such as `text/html`; empty if it names none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class FetchPage(Protocol):
    """Fetches a page for an action, guarded and politely.

    The steps of a workflow share a fetched page while it is fresh; a retried step always gets the stored one.
    Raises `Refused` with a message and a code if the page may not be fetched or is unavailable (the allow and deny
    lists, a forbidden address, robots.txt, an error status, a body that is too large, a server that does not answer in
    time). Raises `Unavailable` only if this machine or the content store fails.
    """

    async def __call__(self, url: str, /) -> FetchedPage: ...
