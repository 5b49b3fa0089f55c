"""Chaos experiments: load and random faults on separate servers, and a verdict on whether the guarantees hold.

Everything is real: Kafka, Postgres and the role processes are started, killed, frozen and emptied. The evidence
comes from outside the service: from the requests that were sent and from a journal of every effect.
"""
