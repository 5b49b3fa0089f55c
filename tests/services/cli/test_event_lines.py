"""What a person reads while a workflow goes on."""

from collections.abc import Sequence

import pytest

from builders import CALL, COMMITMENT, TIME, At, Told, cancellation, planned, requested
from poweron_events import codec
from poweron_events.client import Heard
from poweron_events.envelope import Recorded, envelop
from poweron_events.event import RECORDED
from poweron_events.request import ForkedFrom
from poweron_events.round_events import RoundCancelled, RoundFailed, Totals
from poweron_events.stream import WorkflowEvent
from poweron_services.cli.event_lines import Narrator

READY = (requested(), planned(), At().selected(), At().parameters())


def narrated(
    capsys: pytest.CaptureFixture[str], *events: WorkflowEvent, after: Sequence[WorkflowEvent] = READY
) -> tuple[str, list[str]]:
    """The workflow, and the lines that tell its events from the question whether the action may run."""
    told, narrator = Told().tell(*after), Narrator()
    for event in events:
        told.tell(event)
        envelope = envelop(event, workflow_id=told.id, source="/poweron/test/1", time=TIME)
        narrator(Heard(Recorded(envelope, 0, 0, 0, codec.sha256(b"")), told.verdicts[-1], told.workflow))
    return told.id, capsys.readouterr().err.splitlines()


def test_the_commands_that_answer_stand_whole_on_lines_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    workflow, lines = narrated(capsys, At().approval_requested())
    assert lines == [
        "task 1 step 1 approval    document.extract waits for a person. Answer it with one of these:",
        f'              poweron approve {workflow} --reason "…"',
        f'              poweron deny {workflow} --reason "…"',
    ]
    assert all(len(line) <= 80 for line in lines[1:])


@pytest.mark.req("E-08")
@pytest.mark.parametrize(
    ("request_id", "reason", "denied", "not_run"),
    [
        (None, "Nobody approved the action in time.", "Nobody approved the action in time.", "Nobody approved it."),
        ("6", "Not now.", "by somebody who gave no name: Not now.", "The action was denied."),
    ],
)
def test_nobody_reads_that_a_denied_action_was_started(
    capsys: pytest.CaptureFixture[str], request_id: str | None, reason: str, denied: str, not_run: str
) -> None:
    _, lines = narrated(
        capsys,
        At().approval_requested(),
        At().approval_denied(request_id, reason=reason),
        At().started(),
        At().done(success=False, outcome="denied", error=not_run, documents=()),
    )
    assert lines[3:] == [f"task 1 step 1 denied      {denied}", f"task 1 step 1 not run     {not_run}"]


def test_what_was_approved_is_started(capsys: pytest.CaptureFixture[str]) -> None:
    _, lines = narrated(capsys, At().approval_requested(), At().approval_granted(reason="Go on."), At().started())
    assert lines[3:] == [
        "task 1 step 1 approved    by somebody who gave no name: Go on.",
        "task 1 step 1 started     document.extract",
    ]


FORKED = ForkedFrom(workflow="0fbb88c3-b4e3-51e0-a4db-5ce20a9335cf", seq=7, head=COMMITMENT)
STOPPED = "The workflow that this one was forked from has no result of document.extract with these parameters."


def test_a_fork_says_what_it_was_forked_from_and_what_was_taken_over(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned()
    taken_over = plan.model_copy(update={"model_call": CALL.model_copy(update={"provider": RECORDED})})
    _, lines = narrated(
        capsys,
        requested(forked_from=FORKED, prompt="Who repaired it?"),
        taken_over,
        At().selected(),
        At().parameters(),
        At().started(claim=RECORDED, worker=RECORDED),
        At().done(reused_from=5),
        after=(),
    )
    assert lines == [
        f"              requested   round 1, 1 document; forked from workflow {FORKED.workflow} at event 7",
        "              planned     task 1, lookup: Find the total (taken over)",
        "task 1 step 1 selected    document.extract: Read the estimate",
        "task 1 step 1 parameters  documentList: docList:round1_request",
        "task 1 step 1 result      text.md (1 kB), taken over",
    ]


def test_why_a_fork_stops_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    _, lines = narrated(
        capsys,
        At().started(claim=RECORDED, worker=RECORDED),
        At().done(success=False, outcome="not_begun", error=STOPPED, code="fork_needs_live", documents=()),
        At().failed("observe", STOPPED, "fork_needs_live"),
        RoundFailed(round=1, message=STOPPED, reason=STOPPED, code="fork_needs_live", totals=Totals(steps=2)),
    )
    assert lines == [
        f"task 1 step 1 not run     {STOPPED}",
        "task 1 step 1 stopped     The fork ends here.",
        "              failed      2 steps, 0 tokens",
    ]


def test_why_a_round_ends_is_said_where_it_happens_and_not_again_at_its_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reason = "The model does not answer."
    totals = Totals(steps=1, input_tokens=100, output_tokens=20)
    ended = RoundFailed(round=1, message=reason, reason=reason, totals=totals)
    _, failed = narrated(capsys, At().failed("select", reason), ended, after=READY[:2])
    assert failed == [
        f"task 1 step 1 failed      The stage 'select' could not be done: {reason}",
        "              failed      1 step, 120 tokens",
    ]
    _, cancelled = narrated(
        capsys, cancellation(), RoundCancelled(round=1, message="", reason="No longer needed.", totals=totals)
    )
    assert cancelled == [
        "              cancelling  No longer needed.",
        "              cancelled   1 step, 120 tokens",
    ]
