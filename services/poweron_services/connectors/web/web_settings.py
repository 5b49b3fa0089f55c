"""The operator's settings for the web: which hosts and ports are allowed, and how much is read."""

from dataclasses import dataclass
from importlib.metadata import version
from typing import Self

from poweron_services.connectors.web.host_patterns import HostPattern
from poweron_services.settings.config import Settings

USUAL_PORTS = frozenset({80, 443})
MAX_BYTES = 10_000_000
TIMEOUT = 30.0  # seconds
MAX_PAGES = 50
PAUSE = 0.25  # seconds


@dataclass(frozen=True, slots=True)
class WebSettings:
    """The web settings, as clients of the web receive them."""

    allow: tuple[HostPattern, ...] = ()
    """The allowed hosts; if empty, every public host is allowed."""
    deny: tuple[HostPattern, ...] = ()
    """The denied hosts; overrides `allow` and `private_hosts`."""
    private_hosts: tuple[HostPattern, ...] = ()
    """Hosts that are allowed although they are on a private network."""
    ports: frozenset[int] = USUAL_PORTS
    max_bytes: int = MAX_BYTES
    """The size limit of a page, decompressed."""
    timeout: float = TIMEOUT
    """Seconds for a page, including all its redirects."""
    max_pages: int = MAX_PAGES
    """The most pages that one action fetches."""
    pause: float = PAUSE
    """Seconds between two requests to one host, after the first few."""
    contact: str = ""
    """Where operators of other servers can reach the operator of this one."""

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(
            allow=HostPattern.listed(settings.web_allow),
            deny=HostPattern.listed(settings.web_deny),
            private_hosts=HostPattern.listed(settings.web_private_hosts),
            ports=USUAL_PORTS | settings.web_more_ports,
            max_bytes=settings.web_max_bytes,
            timeout=settings.web_timeout,
            max_pages=settings.web_max_pages,
            pause=settings.web_pause,
            contact=settings.web_contact,
        )

    @property
    def user_agent(self) -> str:
        """The User-Agent header, which identifies us to servers."""
        return f"PowerOn/{version('poweron-services')}" + (f" (+{self.contact})" if self.contact else "")
