"""Approvals by stories: a question, its answers, and answers that have no effect."""

import pytest

from builders import At, planned, refused, requested
from poweron_events.fold.stage_specs import due
from poweron_events.request import WorkflowRequested
from poweron_events.stream import WorkflowEvent
from story import given

AT = At()
READY: tuple[WorkflowEvent, ...] = (requested(), planned(), AT.selected(), AT.parameters())
ASKED = (*READY, AT.approval_requested())


@pytest.mark.req("E-03")
def test_an_approval_is_waited_for() -> None:
    given(*READY).when(AT.approval_requested(expires_ms=500)).then(
        phase="approve", turn="executor", approval="asked", approval_due_ms=4_500
    )


@pytest.mark.req("E-03")
@pytest.mark.parametrize(
    ("answer", "approval"),
    [(AT.approval_granted(), "granted"), (AT.approval_denied("6"), "denied"), (AT.approval_denied(), "denied")],
)
def test_an_answer_gives_the_turn_back_to_the_executor(answer: WorkflowEvent, approval: str) -> None:
    given(*ASKED).when(answer).then(phase="ready", turn="executor", approval=approval)


@pytest.mark.req("E-03")
def test_a_second_answer_and_a_second_question_have_no_effect() -> None:
    given(*ASKED, AT.approval_granted()).when(AT.approval_denied("6")).then_superseded()
    given(*ASKED, AT.approval_granted()).when(AT.approval_requested()).then_superseded()


def test_an_answer_that_nobody_asked_for_has_no_effect() -> None:
    given(*READY).when(AT.approval_granted()).then_superseded()
    given(*ASKED).when(At(2).approval_granted()).then_superseded()


@pytest.mark.req("E-08")
def test_answers_about_other_parameters_leave_the_question_open() -> None:
    other = {"parameters_sha256": "0" * 64}
    forged = (AT.approval_granted(**other), AT.approval_denied("6", **other), AT.approval_denied(**other))
    story = given(*ASKED)
    for answer in forged:
        story.when(answer).then_superseded()
    assert [each.what for each in due(story.workflow)] == ["approval"]
    story.when(AT.approval_granted()).then(phase="ready", turn="executor", approval="granted")


@pytest.mark.req("E-08")
def test_a_question_about_other_parameters_is_none() -> None:
    story = given(*READY).when(AT.approval_requested(parameters_sha256="0" * 64))
    story.then_superseded().when(AT.approval_requested()).then(phase="approve", approval="asked")


@pytest.mark.req("E-08")
def test_a_round_of_the_first_rules_takes_any_answer() -> None:
    """Recorded histories keep their verdicts; the executor refuses the action then."""
    other = {"parameters_sha256": "0" * 64}
    before = (requested(laws=1), *READY[1:], AT.approval_requested(**other))
    given(*before).when(AT.approval_granted(**other)).then(phase="ready", approval="granted")


@pytest.mark.req("E-16")
@pytest.mark.parametrize("answer", [AT.approval_granted(), AT.approval_denied("6"), AT.approval_denied()])
def test_the_time_that_a_person_took_is_none_of_the_rounds(answer: WorkflowEvent) -> None:
    opening, *rest = READY
    assert isinstance(opening, WorkflowRequested)
    story = given(opening.model_copy(update={"deadline_ms": 60_000}), *rest, AT.approval_requested())
    story.given(refused("7"), refused("8")).given(answer).then(waited_ms=3_000, due={"round": ("reviewer", 63_000)})


@pytest.mark.req("E-16")
def test_every_wait_of_a_round_is_left_out() -> None:
    denied = (*ASKED, AT.approval_denied("6"), AT.started(), AT.done(), AT.observed())
    again = (AT.refined(decision="continue"), At(2).selected(), At(2).parameters(), At(2).approval_requested())
    given(*denied, *again, At(2).approval_granted()).then(waited_ms=2_000)


def test_nothing_starts_while_an_approval_is_open() -> None:
    given(*ASKED).when(AT.started()).then_superseded()
