"""Stories about the fold: what was given, what comes, what follows.

given(requested(), planned()).when(At().selected()).then(phase="parameterize", turn="parameterizer")
given(requested()).when(At().selected()).then_superseded()
"""

from typing import Any

from builders import SOURCE, TIME, Told
from poweron_events import codec
from poweron_events.envelope import Cause, Recorded, envelop
from poweron_events.fold.evolve import evolve
from poweron_events.fold.stage_specs import due, turn
from poweron_events.fold.state import Verdict, Workflow
from poweron_events.request import workflow_id
from poweron_events.stream import WorkflowEvent


class Story:
    """A workflow with what has happened so far. The broker's time is 1,000 ms for each record."""

    def __init__(self) -> None:
        self.told = Told()
        self.before = self.workflow
        self.verdict: Verdict = "accepted"

    @property
    def workflow(self) -> Workflow:
        return self.told.workflow

    def given(self, *events: WorkflowEvent) -> "Story":
        """What happened before: all of it was accepted."""
        for event in events:
            self.when(event)
            assert self.verdict == "accepted", f"{event!r} is not expected while {self.workflow.phase!r}"
        return self

    def when(self, event: WorkflowEvent, **envelope: Any) -> "Story":
        """Something is told, with its honest cause unless the envelope is given one."""
        enveloped = self.told.envelope(event)._replace(**envelope)
        return self.when_written(codec.encode(enveloped))

    def when_written(self, value: bytes) -> "Story":
        """A record comes, as it stands."""
        self.before = self.workflow
        self.told.workflow, self.verdict = evolve(self.workflow, self._recorded(value))
        self.told.values.append(value)
        self.told.verdicts.append(self.verdict)
        return self

    def _recorded(self, value: bytes) -> Recorded:
        offset = len(self.told.values)
        return Recorded(codec.decode(value), 0, offset, offset * 1_000, codec.sha256(value))

    def then(self, **expected: Any) -> "Story":
        """It was accepted, and now these hold: of the turn, the task, the step, the round or the workflow."""
        assert self.verdict == "accepted"
        assert {name: self._found(name) for name in expected} == expected
        return self

    def then_superseded(self) -> "Story":
        """It has no effect; only the count of records and the last offset go on."""
        assert self.verdict == "superseded"
        return self.then_nothing_changed()

    def then_nothing_changed(self) -> "Story":
        counted = {"seq": self.before.seq + 1, "last": len(self.told.values) - 1}
        assert self.workflow == self.before._replace(superseded=self.workflow.superseded, **counted)
        return self

    def _found(self, name: str) -> Any:
        if name == "turn":
            return turn(self.workflow)
        if name == "due":
            return {each.what: (each.role, each.at_ms) for each in due(self.workflow)}
        if name == "says":
            return self.workflow.current.messages[-1].message
        if name == "kinds":
            return [message.kind for message in self.workflow.current.messages]
        holders = (self.workflow, self.workflow.round, self.workflow.round and self.workflow.round.task)
        step = holders[2].step if holders[2] else None
        return next(getattr(holder, name) for holder in (*holders, step) if hasattr(holder, name))


def given(*events: WorkflowEvent) -> Story:
    """A story that begins with these events."""
    return Story().given(*events)


def told_by(event: WorkflowEvent, cause: Cause | None, request_id: str = "1") -> bytes:
    """A record of the story's workflow with any cause."""
    workflow = workflow_id(SOURCE, request_id)
    return codec.encode(
        envelop(event, workflow_id=workflow, source="/poweron/rival/1", time=TIME, cause=cause),
    )
