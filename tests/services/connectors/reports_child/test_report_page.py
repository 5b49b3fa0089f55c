"""The page of `poweron bi report`, from figures written by hand."""

import re
from datetime import date
from typing import Any

import pytest

from poweron_services.analytics.html_report import ENDINGS, columns, report
from poweron_services.analytics.report_figures import Figures

DAY = "2026-11-24"
BLUE, ORANGE, PALE = (ENDINGS[ending][1] for ending in ("completed", "failed", "forks_stopped"))


def outcomes(**given: int) -> dict[str, Any]:
    ended = sum(given.values())
    return {"day": DAY, "opened": ended, "ended": ended, **dict.fromkeys(ENDINGS, 0), **given}


def page(**found: list[dict[str, Any]]) -> str:
    """The report of one day on which that was found, and nothing else."""
    nothing: dict[str, list[dict[str, Any]]] = {
        **{name: [] for name in ("outcomes", "costs", "stages", "spending", "stops", "times", "actions")},
        **{name: [] for name in ("transitions", "retries")},
        "durations": [{"p50_ms": None}],
        "tasks": [{"tasks": 0, "completed": 0}],
        "approvals": [{"asked": 0, "granted": 0, "denied": 0, "expired": 0, "p50_ms": None}],
        "dead": [{"dead_letters": 0}],
    }
    return report(Figures(date.fromisoformat(DAY), date.fromisoformat(DAY), nothing | found), "now")


def section(text: str, title: str) -> str:
    (found,) = re.findall(rf"<section><h2>{title}</h2>.*?</section>", text)
    return found


@pytest.mark.parametrize(
    ("most", "scale"),
    [
        (0, [0, 1, 2, 3, 4]),
        (1, [0, 1, 2, 3, 4]),
        (5, [0, 2, 4, 6, 8]),
        (9, [0, 3, 6, 9, 12]),
        (30, [0, 10, 20, 30, 40]),
    ],
)
def test_a_scale_of_counts_has_whole_numbers(most: int, scale: list[int]) -> None:
    chart = columns([DAY], {"Ended": [most]}, said=lambda value: f"{value:g}", title="Ended", is_count=True)
    assert [float(each) for each in re.findall(r'text-anchor="end">([^<]+)<', chart)] == scale


def test_a_fork_that_stopped_is_told_apart_and_is_no_failure() -> None:
    text = page(
        outcomes=[outcomes(completed=3, forks_stopped=2)],
        stops=[
            {"level": "round", "code": "criteria_met", "ending": "completed", "times": 3},
            {"level": "round", "code": "fork_needs_live", "ending": "forks_stopped", "times": 2},
        ],
    )
    assert "<b>100%</b>of those that ended completed" in text
    ended = section(text, "How requests ended")
    assert re.findall(r'<rect [^>]*fill="([^"]+)"><title>([^<]+)<', ended) == [
        (BLUE, f"{DAY}: Completed 3"),
        (PALE, f"{DAY}: Fork stopped 2"),
    ]
    assert "Fork stopped" not in page(outcomes=[outcomes(completed=3)])


def test_each_reason_has_the_colour_of_what_it_led_to() -> None:
    text = page(
        stops=[
            {"level": "round", "code": "criteria_met", "ending": "completed", "times": 9},
            {"level": "model_call", "code": "model_busy", "ending": "failed", "times": 2},
        ]
    )
    reasons = section(text, "Why things ended")
    assert re.findall(r'<rect [^>]*fill="([^"]+)"', reasons) == [BLUE, ORANGE]
    assert "Criteria met<" in reasons
    assert "Model busy, a call<" in reasons
    assert re.findall(r'background:([^"]+)"></i>(\w+)', reasons) == [(BLUE, "Completed"), (ORANGE, "Failed")]


def test_the_median_is_called_so() -> None:
    text = page(durations=[{"p50_ms": 404.0}])
    assert "<b>404 ms</b>median time of a request, without waiting for people" in text
    assert "half" not in text


def test_a_small_share_is_not_told_as_nothing() -> None:
    stages = [
        {"stage": stage, "by_people": False, "times": 10, "total_ms": total}
        for stage, total in (("execute", 99_900), ("claim", 100))
    ]
    times = section(page(times=stages), "Where the time went")
    assert "100%, 10.0 s each" in times
    assert "&lt;1%, 10 ms each" in times
