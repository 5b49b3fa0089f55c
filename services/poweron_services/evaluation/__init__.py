"""Evaluation: a table of requests with expected facts, answered by one or more models and judged by code."""
