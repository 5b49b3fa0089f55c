"""Kafka and Postgres on this machine, with nothing but Python installed.

The real servers: a Java runtime and Postgres come as wheels, the broker's jars are fetched once. Everything they
write lies under one data directory, and all processes that use that directory share one pair.
"""

from poweron_services.embedded.pair import Servers, down, lease, status, up

__all__ = ["Servers", "down", "lease", "status", "up"]
