"""Chaos: load and random faults on servers of its own, and a verdict on what the laws are worth.

Everything is real: Kafka, Postgres and the role processes are started, killed, frozen and emptied. The evidence
comes from outside the service: from who sent which request, and from a journal of every effect.
"""
