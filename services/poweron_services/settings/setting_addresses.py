"""Addresses in settings: of brokers, of Postgres, and URLs."""

from typing import Final
from urllib.parse import urlsplit

MAX_PORT: Final = 65_535
NO_URL: Final = "is not a URL: set it to one that begins with `http://` or `https://`."
NO_PORT: Final = f"is a URL with a wrong port: set it to one whose port is a number from 1 to {MAX_PORT}."


def is_broker(address: str) -> bool:
    """Return whether this is `host` or `host:port`, with a port from 1 to 65535."""
    host, colon, port = address.strip().rpartition(":")
    if not colon or address.endswith("]"):  # an IPv6 address or a name, without a port
        return bool(address.strip())
    return bool(host) and port.isascii() and port.isdecimal() and 0 < int(port[:6]) <= MAX_PORT


def has_usable_ports(dsn: str) -> bool:
    """Return whether all ports in an address of Postgres are usable; hosts may have none."""
    hosts = urlsplit(dsn).netloc.rpartition("@")[2]
    return not hosts or all(is_broker(host) for host in hosts.split(","))


def wrong_address(url: str) -> str | None:
    """Return why clients cannot use this address, and what to do; most clients would raise errors of their own."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return NO_URL
    if parts.scheme not in {"http", "https"} or not parts.hostname or not url.isprintable():
        return NO_URL
    try:
        return NO_PORT if parts.port == 0 else None
    except ValueError:
        return NO_PORT
