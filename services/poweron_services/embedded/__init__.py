"""Kafka and Postgres on this machine, with nothing but Python installed.

These are the real servers: a Java runtime and Postgres come as wheels, and the broker's jars are downloaded once. All
their data is in one data directory, and all processes that use that directory share one pair of servers.
"""

from poweron_services.embedded.pair import Servers, down, lease, status, up

__all__ = ["Servers", "down", "lease", "status", "up"]
