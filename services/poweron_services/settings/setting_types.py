"""The types of settings: lists of entries separated by commas, addresses of servers, URLs, and programs.

A program is split from its arguments as a shell would.
"""

import os
import shlex
import shutil
from typing import Final
from urllib.parse import urlsplit

from pydantic import TypeAdapter, ValidationError

from poweron_events.event import ActionPattern

_PATTERN: Final = TypeAdapter[str](ActionPattern)


def listed(entries: str) -> tuple[str, ...]:
    """Return the entries, without surrounding blanks and without empty ones."""
    return tuple(entry.strip() for entry in entries.split(",") if entry.strip())


def action_patterns(patterns: str) -> tuple[str, ...]:
    """Return the action patterns in a list.

    Raises:
        ValueError: an entry is not a pattern; whether its actions exist is known only once the actions are opened.
    """
    result = listed(patterns)
    for pattern in result:
        try:
            _PATTERN.validate_python(pattern)
        except ValidationError as error:
            raise ValueError(f"{pattern!r} is no pattern; write `web.*`, `ai.process`, or `*` for all") from error
    return result


MAX_PORT: Final = 65_535
NO_URL: Final = "is not a URL: set it to one that begins with `http://` or `https://`."
NO_PORT: Final = f"is a URL with a wrong port: set it to one whose port is a number from 1 to {MAX_PORT}."


def is_broker(address: str) -> bool:
    """Return whether this is `host` or `host:port`, with a port from 1 to 65535."""
    host, colon, port = address.strip().rpartition(":")
    if not colon or address.endswith("]"):  # an IPv6 address or a name, without a port
        return bool(address.strip())
    return bool(host) and port.isascii() and port.isdecimal() and 0 < int(port[:6]) <= MAX_PORT


def host_and_port(place: str) -> tuple[str, int]:
    """Return the host, without brackets, and the port of `host:port`.

    Raises:
        ValueError: it is not of this form.
    """
    host, _, port = place.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    is_bare = ":" in host and f"[{host}]" not in place
    if not host or is_bare or not is_broker(place):
        raise ValueError(f"{place!r} is not HOST:PORT; write it like `127.0.0.1:9464` or `[::]:9464`")
    return host, int(port)


def has_usable_ports(dsn: str) -> bool:
    """Return whether all ports in an address of Postgres are usable; hosts may have none."""
    hosts = urlsplit(dsn).netloc.rpartition("@")[2]
    return not hosts or all(is_broker(host) for host in hosts.split(","))


def wrong_address(url: str) -> str | None:
    """Return why clients cannot use this address, and what to do; None if they can."""
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


def command_of(line: str, *, like: str) -> tuple[str, ...]:
    """Return the program, with its absolute path, and its arguments.

    Raises:
        ValueError: it cannot be run on this machine; the message says why, and shows the example `like`.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise ValueError(f"{line!r} has a quote that is not closed; write it like `{like}`") from error
    program = shutil.which(words[0]) if words else None
    if program is None:
        raise ValueError(f"{line!r} begins with no program of this machine; write it like `{like}`")
    return (os.path.abspath(program), *words[1:])  # noqa: PTH100 - a link is kept: some programs look at their name
