"""What a request takes over from the settings of the process that sends it."""

import pytest

from poweron_events.request import RequestWorkflow
from poweron_services.client.ask import with_settings
from poweron_services.settings.config import Settings


@pytest.mark.parametrize(("model_timeout", "stage_timeout_ms"), [(120, 300_000), (900, 1_800_000)])
def test_a_slow_model_gets_the_time_for_two_calls_in_a_stage(model_timeout: float, stage_timeout_ms: int) -> None:
    request = RequestWorkflow(prompt="When does it open?")
    assert with_settings(request, Settings(model_timeout=model_timeout)).stage_timeout_ms == stage_timeout_ms


def test_a_request_that_allows_more_time_keeps_it() -> None:
    request = RequestWorkflow(prompt="When does it open?", stage_timeout_ms=3_600_000)
    assert with_settings(request, Settings(model_timeout=900)).stage_timeout_ms == 3_600_000
