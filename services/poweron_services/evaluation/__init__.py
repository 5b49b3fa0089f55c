"""Evaluation: a table of requests with expected facts, asked of one or several models and judged by code."""
