"""Benchmarks of PowerOn on this machine, compared with the best that Kafka and Postgres achieve in the same run.

The measured system is real: it has its own servers, all roles in one process or in several, the projector in another
process, and prompts and answers in the content store. Only the model and the action answer instantly, so that the
figures measure nothing but PowerOn.
"""
