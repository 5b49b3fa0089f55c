"""Free ports on this machine."""

import errno
import random
import socket

PORTS = range(20_000, 32_000)  # below the range that the system uses for outgoing connections


def free_port(apart_from: int | None = None) -> int:
    return next(port for port in random.sample(PORTS, len(PORTS)) if port != apart_from and is_free(port))


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Java does: old connections do not count
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise
        return True
