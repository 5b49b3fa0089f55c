"""Old events live for ever: a table of steps lifts them, whoever wrote them."""

from typing import Any

import pytest

from poweron_events.codec import STEPS, upcast

Data = dict[str, Any]


def _renamed(data: Data) -> Data:
    return {**{name: value for name, value in data.items() if name != "why"}, "reason": data["why"]}


def _filled(data: Data) -> Data:
    return {"mood": "calm", **data}


TABLE = {
    "poweron.action.chosen.v1": ("poweron.action.chosen.v2", _renamed),
    "poweron.action.chosen.v2": ("poweron.action.picked.v1", _filled),
}


@pytest.mark.req("E-13")
def test_steps_are_taken_until_there_is_none() -> None:
    lifted = upcast("poweron.action.chosen.v1", {"why": "no source yet", "step": 1}, TABLE)
    assert lifted == ("poweron.action.picked.v1", {"reason": "no source yet", "step": 1, "mood": "calm"})


@pytest.mark.req("E-13")
def test_a_newer_version_takes_only_the_steps_it_lacks() -> None:
    assert upcast("poweron.action.chosen.v2", {"reason": "x"}, TABLE) == (
        "poweron.action.picked.v1",
        {"reason": "x", "mood": "calm"},
    )


@pytest.mark.req("E-13")
def test_a_type_without_a_step_stays_as_it_is() -> None:
    data = {"step": 1}
    assert upcast("poweron.action.selected.v1", data, TABLE) == ("poweron.action.selected.v1", data)


@pytest.mark.req("E-13")
def test_lifting_leaves_the_stored_data_alone() -> None:
    data = {"why": "no source yet"}
    upcast("poweron.action.chosen.v1", data, TABLE)
    assert data == {"why": "no source yet"}


@pytest.mark.req("E-13")
def test_in_this_release_every_event_is_at_its_first_version() -> None:
    assert dict(STEPS) == {}
