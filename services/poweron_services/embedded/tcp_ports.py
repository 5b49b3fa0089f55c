"""Ports of this machine, and whether a broker answers on one."""

import errno
import random
import socket
import struct

PORTS = range(20_000, 32_000)  # below those that the system gives to outgoing connections
PROBE_TIMEOUT = 1.0  # seconds

METADATA_REQUEST = struct.pack(">hhihi", 3, 1, 1, -1, 0)  # key, version, correlation, no client id, no topics


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


def living_brokers(port: int) -> int:
    """How many living brokers the one on this port knows; 0 too where nothing, or something else, listens."""
    try:
        with socket.create_connection(("127.0.0.1", port), PROBE_TIMEOUT) as connection:
            connection.sendall(struct.pack(">i", len(METADATA_REQUEST)) + METADATA_REQUEST)
            with connection.makefile("rb") as answer:
                header = answer.read(12)
    except OSError:
        return 0
    if len(header) < 12:
        return 0
    _size, correlation, brokers = struct.unpack(">iii", header)
    return int(brokers) if correlation == 1 else 0
