"""The fold by stories: what is reserved for calls of models counts until the calls are reported."""

import pytest

from builders import CALL, FAILED_CALLS, At, completed, follow_up, planned, requested, reserved, reviewed, step
from poweron_events.event import ModelCall
from poweron_events.round_events import Totals
from story import given

AT = At()
SELECTED = (requested(), planned(), AT.selected())
REVIEWED = (requested(), planned(), *step(), reviewed())
ENDED = (*REVIEWED, completed())

MOST = {"input_tokens": 5_000, "output_tokens": 1_000, "cost_nano_usd": 90_000}
"""What `reserved` reserves."""


def settling(*reservations: int) -> ModelCall:
    return CALL.model_copy(update={"reservations": reservations})


def totals(**more: int) -> Totals:
    """Of a round in which one step was selected and two calls were answered, and more."""
    both = {name: 2 * getattr(CALL, name) + more.get(name, 0) for name in MOST}
    return Totals(steps=1, **both)


@pytest.mark.req("B-02")
def test_a_reserved_call_counts_at_its_most_and_nobody_elses_turn_begins() -> None:
    story = given(*SELECTED)
    head, head_ms = story.workflow.head, story.workflow.head_ms
    story.when(reserved(story.workflow)).then(phase="parameterize", head=head, head_ms=head_ms, totals=totals(**MOST))
    assert story.workflow.task.used.tokens == 120 + 6_000


@pytest.mark.req("B-02")
def test_what_a_call_used_takes_the_place_of_what_was_reserved_for_it() -> None:
    story = given(*SELECTED)
    story.given(reserved(story.workflow)).when(AT.parameters(model_call=settling(1)))
    story.then(reservations=(), totals=totals(**{name: getattr(CALL, name) for name in MOST}))
    assert story.workflow.task.used.tokens == 240


@pytest.mark.req("B-02")
def test_a_call_that_no_event_reports_has_used_its_most() -> None:
    """Killed twice; the third process reports its own call."""
    story = given(*SELECTED)
    for _ in range(3):
        story.given(reserved(story.workflow))
    story.given(AT.parameters(model_call=settling(3)), AT.started(), AT.done(), AT.observed(), AT.refined())
    story.given(reviewed(), completed())
    twice = {name: 2 * most + 3 * getattr(CALL, name) for name, most in MOST.items()}
    story.then(phase="ended", totals=totals(**twice))


@pytest.mark.req("B-02")
def test_a_call_that_failed_settles_its_reservation_too() -> None:
    story = given(*SELECTED)
    story.given(reserved(story.workflow)).given(reserved(story.workflow))
    failed = FAILED_CALLS.model_copy(update={"reservations": (1, 2)})
    story.when(AT.failed("parameterize").model_copy(update={"failed_calls": (failed,)}))
    story.then(phase="closing", reservations=())
    assert story.workflow.current.totals.input_tokens == 200 + FAILED_CALLS.input_tokens


@pytest.mark.req("B-02")
@pytest.mark.parametrize("number", [1, 3])
def test_a_number_that_is_taken_or_not_next_reserves_nothing(number: int) -> None:
    story = given(*SELECTED)
    story.given(reserved(story.workflow))
    story.when(reserved(story.workflow, reservation=number)).then_superseded()
    assert not story.workflow.superseded


@pytest.mark.req("B-02")
def test_nothing_is_reserved_where_the_workflow_is_not() -> None:
    late = reserved(given(*SELECTED).workflow)
    given(*ENDED).when(late).then_superseded()
    given(*REVIEWED).when(late.model_copy(update={"step": 2})).then_superseded()
    given(*ENDED, follow_up()).when(late).then_superseded()


@pytest.mark.req("B-02")
def test_a_reservation_of_the_final_message_is_of_no_task() -> None:
    story = given(*REVIEWED)
    used = story.workflow.task.used
    story.when(reserved(story.workflow)).then(phase="closing", used=used)
    assert story.workflow.current.totals.input_tokens == 500 + 5_000
