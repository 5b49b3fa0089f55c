"""Hypothesis on a busy machine: no example has a deadline, and slow generation is no failure."""

from hypothesis import HealthCheck, settings

settings.register_profile("events", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("events")
