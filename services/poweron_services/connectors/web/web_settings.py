"""What an operator says about the web: which hosts and ports may be asked, and how much of them is read."""

from dataclasses import dataclass
from importlib.metadata import version
from typing import Self

from poweron_services.config import Settings
from poweron_services.connectors.web.host_patterns import HostPattern

USUAL_PORTS = frozenset({80, 443})
MAX_BYTES = 10_000_000
TIMEOUT = 30.0  # seconds
MAX_PAGES = 50


@dataclass(frozen=True, slots=True)
class WebSettings:
    """The settings of the web, as whoever fetches something is given them."""

    allow: tuple[HostPattern, ...] = ()
    """The hosts that may be asked; none: every public one."""
    deny: tuple[HostPattern, ...] = ()
    """Those that may not, whatever else is said."""
    private_hosts: tuple[HostPattern, ...] = ()
    """Those that may be asked although they are in a network of ours."""
    ports: frozenset[int] = USUAL_PORTS
    max_bytes: int = MAX_BYTES
    """Of a page, decompressed."""
    timeout: float = TIMEOUT
    """Seconds that a page has, with all its redirects."""
    max_pages: int = MAX_PAGES
    """That one action fetches."""
    contact: str = ""
    """Where whoever runs a server reaches whoever runs this one."""

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
            contact=settings.web_contact,
        )

    @property
    def user_agent(self) -> str:
        """Who asks, for those who are asked."""
        return f"PowerOn/{version('poweron-services')}" + (f" (+{self.contact})" if self.contact else "")
