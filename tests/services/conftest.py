"""What several of the tests of the services share."""

import functools
from collections.abc import Generator
from typing import Any
from unittest.mock import patch

import httpcore2
import pytest
from intake_world import Rows
from structlog.testing import capture_logs

from poweron_events import retry
from poweron_events.log.memory import MemoryLog
from poweron_services.models import call
from poweron_services.runtime import worker


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Generator[list[Any], None, None]:
    """Short waits; what is logged is kept, not shown."""
    monkeypatch.setattr(worker, "DRAIN_TIMEOUT", 0.05)
    monkeypatch.setattr(retry, "LONGEST_PAUSE", 0.05)
    monkeypatch.setattr(call, "FIRST_PAUSE", 0.05)
    with capture_logs() as entries:
        yield entries


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


@pytest.fixture
def rows(log: MemoryLog) -> Rows:
    return Rows(log)


_ssl_context = functools.cache(httpcore2.default_ssl_context)


@pytest.fixture(scope="module")
def one_ssl_context() -> Generator[None, None, None]:
    """Load the certificates once: that is most of what it takes to open a model, whose server here speaks plain HTTP."""
    with patch.object(httpcore2, "default_ssl_context", _ssl_context):
        yield
