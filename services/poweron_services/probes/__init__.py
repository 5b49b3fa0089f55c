"""Metrics and probes of one process, for Prometheus and for orchestrators that start and stop processes."""
