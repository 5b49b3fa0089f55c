"""A run of `poweron bench`, from the first to the last part, with very little of everything."""

from pathlib import Path

import pytest
from servers import furnished

from poweron_services.bench.benchmark import BenchmarkPlan, measure
from poweron_services.bench.figures import Figures

LITTLE = BenchmarkPlan(
    times=1, workflows=4, steps=2, at_once=2, alone=1, alone_steps=3, laps_alone=5,
    asks=1, events=80, page_rows=200, page_workflows=2,
)  # fmt: skip


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.system
@pytest.mark.timeout(600)
async def test_a_run_measures_everything_and_leaves_nothing_behind(tmp_path: Path, software: Path) -> None:
    said: list[str] = []

    figures = await measure(furnished(tmp_path, software), said.append, plan=LITTLE)

    assert [name for name in Figures.model_fields if getattr(figures, name) is None] == []
    assert figures.bytes_ratio_step_40_to_4 == pytest.approx(1, abs=0.2)
    assert said[-1] == "Removing what the measurement wrote…"
    assert names(tmp_path) <= {"servers", "bench.lock"}
