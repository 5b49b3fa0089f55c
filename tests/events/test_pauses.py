"""A pause suspends every time limit, from the moment at which both the limit and the pause run."""

from second_judge import SecondJudge

from builders import SOURCE, TIME, At, cancellation, honest_cause, paused, planned, requested, resumed
from poweron_events import codec
from poweron_events.envelope import Recorded, envelop
from poweron_events.fold.evolve import evolve
from poweron_events.fold.stage_specs import turn
from poweron_events.fold.state import Verdict, Workflow
from poweron_events.request import workflow_id
from poweron_events.round_events import DeadlinePassed
from poweron_events.stream import WorkflowEvent

SECOND = 1_000  # milliseconds


class Timed:
    """A workflow whose events come at given broker times, in seconds."""

    def __init__(self) -> None:
        self.workflow = Workflow(workflow_id(SOURCE, "1"))
        self._offset = 0
        self._second = SecondJudge(self.workflow.id)

    def at(self, seconds: int, event: WorkflowEvent, expected: Verdict = "accepted") -> Workflow:
        cause = honest_cause(self.workflow, event)
        value = codec.encode(envelop(event, workflow_id=self.workflow.id, source="/x", time=TIME, cause=cause))
        recorded = Recorded(codec.decode(value), 0, self._offset, seconds * SECOND, codec.sha256(value))
        self.workflow, verdict = evolve(self.workflow, recorded)
        assert verdict == expected
        self._second.agree(value, recorded, verdict)
        self._offset += 1
        return self.workflow


def ready() -> Timed:
    """A step that is ready at 3 s; its round was opened at 0 s."""
    story, at = Timed(), At()
    for seconds, event in enumerate((requested("1"), planned(), at.selected(), at.parameters())):
        story.at(seconds, event)
    return story


def test_the_round_and_its_stage_have_the_time_left_that_they_had() -> None:
    story = Timed()
    opened = story.at(0, requested("1", deadline_ms=60 * SECOND))
    assert opened.current.due_ms == 60 * SECOND
    story.at(10, paused())
    assert turn(story.workflow) is None
    after = story.at(1_010, resumed())
    assert (after.current.due_ms, after.head_ms, turn(after)) == (1_060 * SECOND, 1_000 * SECOND, "planner")


def test_a_deadline_from_before_a_pause_that_is_recorded_after_it_does_not_end_the_round() -> None:
    """A process that stood still during the pause may write what was due before it."""
    story = Timed()
    story.at(0, requested("1", deadline_ms=60 * SECOND))
    story.at(10, paused())
    story.at(100, DeadlinePassed(round=1, due_ms=60 * SECOND), "superseded")
    story.at(1_010, resumed())
    story.at(1_011, DeadlinePassed(round=1, due_ms=60 * SECOND), "superseded")
    assert story.at(1_060, DeadlinePassed(round=1, due_ms=1_060 * SECOND, moves=2)).current.ending == "failed"


def test_a_task_that_begins_in_a_pause_gets_no_time_from_before_it_began() -> None:
    story = Timed()
    story.at(0, requested("1"))
    story.at(1, paused())
    story.at(61, planned())
    after = story.at(1_000, resumed())
    assert (after.task.waited_ms, after.current.waited_ms) == (939 * SECOND, 999 * SECOND)
    assert after.head_ms - after.task.began_ms - after.task.waited_ms == 0


def test_an_approval_expires_later_by_the_pause_and_its_answer_may_come_in_it() -> None:
    story, at = ready(), At()
    assert story.at(5, at.approval_requested(expires_ms=100 * SECOND)).step.approval_due_ms == 105 * SECOND
    story.at(10, paused())
    story.at(50, resumed())
    assert story.workflow.step.approval_due_ms == 145 * SECOND
    story.at(60, paused(request_id="again"))
    answered = story.at(500, at.approval_granted())
    assert (answered.phase, answered.step.approval_due_ms) == ("ready", 585 * SECOND)
    after = story.at(600, resumed(request_id="later"))
    assert after.step.approval_due_ms == 585 * SECOND, "it is answered"
    assert after.current.waited_ms == (600 - 5) * SECOND


def test_a_claim_that_a_pause_ends_leaves_its_step_as_ready_as_before_and_has_no_other_end() -> None:
    story, at = ready(), At()
    story.at(4, at.started())
    story.at(5, paused())
    assert turn(story.workflow) == "executor"
    given_up = at.done(success=False, outcome="not_begun", code="paused", documents=())
    assert story.at(6, given_up).phase == "ready"
    story.at(7, resumed())
    story.at(8, at.started(2))
    late = codec.encode(
        envelop(
            at.done(), workflow_id=story.workflow.id, source="/x", time=TIME, cause=story.workflow.step.starts[0].cause
        )
    )
    _, verdict = evolve(story.workflow, Recorded(codec.decode(late), 0, 99, 9 * SECOND, codec.sha256(late)))
    assert verdict == "superseded"
    assert story.at(9, at.done(2)).phase == "observe"


def test_a_round_that_was_paused_before_its_end_was_written_can_still_be_cancelled() -> None:
    story = ready()
    story.at(4, paused())
    cancelled = story.at(6, cancellation())
    assert (cancelled.phase, cancelled.is_paused, cancelled.current.ending) == ("closing", False, "cancelled")


def test_each_request_pauses_once() -> None:
    story = Timed()
    story.at(0, requested("1"))
    story.at(1, paused())
    story.at(2, resumed())
    value = codec.encode(envelop(paused(), workflow_id=story.workflow.id, source="/late", time=TIME))
    after, verdict = evolve(story.workflow, Recorded(codec.decode(value), 0, 9, 3 * SECOND, codec.sha256(value)))
    assert (verdict, after.is_paused) == ("superseded", False)
