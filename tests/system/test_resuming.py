"""How long nothing happens after `kill -9`, with the settings that everybody has."""

import time
from pathlib import Path

import pytest
from surviving import Survival, all_at_work, until, witnesses

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

RESUMED_WITHIN = 25.0  # seconds, on a machine that has much else to do; by itself it takes less than 12


@pytest.mark.req("E-08")
async def test_the_work_of_a_killed_process_goes_on_within_seconds_with_default_settings(
    survival: Survival, environment: dict[str, str], tmp_path: Path
) -> None:
    del environment["POWERON_KAFKA_SESSION_TIMEOUT_MS"]
    with witnesses(environment, tmp_path, ["killed", "other"]) as processes:
        await all_at_work(survival, processes)
        held = [await survival.request("pure", gate="gate") for _ in range(12)]
        await until(lambda: all(survival.running(id_) for id_ in held), "all are at work")
        killed = processes.pid("killed")
        interrupted = [id_ for id_ in held if survival.running(id_) == [killed]]
        assert interrupted
        processes.kill("killed")
        began = time.monotonic()
        requested = [await survival.request() for _ in range(12)]
        await until(lambda: all(survival.running(id_) != [killed] for id_ in interrupted), "the other takes over")
        acting = time.monotonic() - began
        await until(lambda: survival.ended(*requested), "requests are taken")
        asking = time.monotonic() - began
        survival.open_gate("gate")
        await survival.all_ended()
    assert acting < RESUMED_WITHIN
    assert asking < RESUMED_WITHIN
    await survival.expect_all_well()
