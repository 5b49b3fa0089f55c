"""What several of the tests of the services share."""

from collections.abc import Generator
from typing import Any

import pytest
from structlog.testing import capture_logs

from poweron_services.roles import folding, role


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Generator[list[Any], None, None]:
    """Short waits; what is logged is kept, not shown."""
    monkeypatch.setattr(role, "DRAIN_TIMEOUT", 0.05)
    monkeypatch.setattr(folding, "LONGEST_PAUSE", 0.05)
    with capture_logs() as entries:
        yield entries
