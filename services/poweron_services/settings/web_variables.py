"""The settings of the web, as `POWERON_WEB_…` in the environment."""

import re
from typing import Final

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

from poweron_services.settings.setting_addresses import MAX_PORT
from poweron_services.settings.setting_lists import listed

HOST: Final = re.compile(r"([\w*.-]{1,253}|\[[0-9A-Fa-f:.]+\])")
HOST_AND_PORT: Final = re.compile(rf"(?=[^:]*\w|\[){HOST.pattern}(:[1-9][0-9]{{0,4}})?")
CONTACT: Final = re.compile(r"[!-'*-~]{0,200}")  # characters allowed in parentheses in a header


class WebVariables(BaseSettings):
    """Which web hosts may be accessed, and how much is read from them."""

    web_allow: str = ""
    """Hosts that may be accessed, separated by commas: `example.com`, `*.example.com`; unset: every public host."""
    web_deny: str = ""
    """Hosts that may not be accessed, regardless of the other settings."""
    web_private_hosts: str = ""
    """Hosts that may be accessed although their IP addresses are not public: `wiki.internal`, `127.0.0.1:8080`."""
    web_ports: str = ""
    """Ports that may be accessed in addition to 80 and 443, separated by commas."""
    web_max_bytes: int = Field(default=10_000_000, ge=10_000, le=100_000_000)
    """The most bytes to read of one page, decompressed."""
    web_timeout: float = Field(default=30, gt=0, le=600)
    """Seconds in which a page must be answered, including all redirects."""
    web_max_pages: int = Field(default=50, ge=1, le=1_000)
    """The most pages that one action fetches."""
    web_pause: float = Field(default=0.25, ge=0, le=10)
    """Seconds between two requests to one host, after the first four; none for hosts in `web_private_hosts`."""
    web_enrich: bool = False
    """Whether a model assesses the pages that an action has read: their order, key points and entities."""
    web_contact: str = ""
    """A URL or an e-mail address for the operators of the servers accessed; it is part of the User-Agent."""

    @field_validator("web_allow", "web_deny")
    @classmethod
    def _are_hosts(cls, hosts: str) -> str:
        return _hosts(hosts, HOST, "`example.com`, or `*.example.com` for all below it")

    @field_validator("web_private_hosts")
    @classmethod
    def _are_hosts_with_ports(cls, hosts: str) -> str:
        return _hosts(hosts, HOST_AND_PORT, "`wiki.internal`, or `127.0.0.1:8080` for one port of it")

    @field_validator("web_ports")
    @classmethod
    def _are_ports(cls, ports: str) -> str:
        for port in listed(ports):
            if not (port.isascii() and port.isdecimal() and 0 < int(port[:6]) <= MAX_PORT):
                raise ValueError(f"{port!r} is no port; write numbers from 1 to {MAX_PORT}, such as `8080,8443`")
        return ports

    @field_validator("web_contact")
    @classmethod
    def _is_a_contact(cls, contact: str) -> str:
        if not CONTACT.fullmatch(contact):
            raise ValueError("that is no URL or e-mail address; write `https://example.com/bot` or `web@example.com`")
        return contact

    @property
    def web_more_ports(self) -> frozenset[int]:
        return frozenset(map(int, listed(self.web_ports)))


def _hosts(hosts: str, pattern: re.Pattern[str], form: str) -> str:
    """Return a list of hosts unchanged; refuse it if one does not have the form."""
    for host in listed(hosts):
        if not pattern.fullmatch(host):
            raise ValueError(f"{host!r} is no host; write {form}")
    return hosts
