"""Logging, which commands set up and tests have of their own."""

import logging
from collections.abc import Generator
from contextlib import contextmanager

import structlog


@contextmanager
def logging_as_before() -> Generator[None, None, None]:
    """Afterwards it is as it was before the block."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        structlog.reset_defaults()
