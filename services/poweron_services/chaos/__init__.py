"""Chaos: load and random faults on servers of its own, and a verdict on what the laws are worth.

Everything is real: Kafka, Postgres and the role processes are started, killed, frozen and emptied. What
counts is said by witnesses outside the service: who asked for what, and a journal of every effect.
"""
