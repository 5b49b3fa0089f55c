"""What a person reads while a workflow goes on."""

import pytest

from builders import TIME, At, Told, planned, requested
from poweron_events import codec
from poweron_events.client import Heard
from poweron_events.envelope import Recorded, envelop
from poweron_events.stream import WorkflowEvent
from poweron_services.cli.event_lines import Narrator

READY = (requested(), planned(), At().selected(), At().parameters())


def narrated(capsys: pytest.CaptureFixture[str], *events: WorkflowEvent) -> tuple[str, list[str]]:
    """The workflow, and the lines that tell its events from the question whether the action may run."""
    told, narrator = Told().tell(*READY), Narrator()
    for event in events:
        told.tell(event)
        envelope = envelop(event, workflow_id=told.id, source="/poweron/test/1", time=TIME)
        narrator(Heard(Recorded(envelope, 0, 0, 0, codec.sha256(b"")), told.verdicts[-1], told.workflow))
    return told.id, capsys.readouterr().err.splitlines()


def test_the_commands_that_answer_stand_whole_on_lines_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    workflow, lines = narrated(capsys, At().approval_requested())
    assert lines == [
        "task 1 step 1 approval    document.extract waits for a person. One of these answers:",
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
