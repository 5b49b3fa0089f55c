"""Whether the fold of auditors says the same of a story as the first one."""

import orjson

from poweron_events.envelope import Recorded
from poweron_events.fold.state import Verdict
from poweron_projections.audit.verifier.second_fold import second_verdict
from poweron_projections.audit.verifier.workflow_fold import FoldedWorkflow


class SecondJudge:
    """Judges each event of a workflow again."""

    def __init__(self, workflow_id: str) -> None:
        self._fold = FoldedWorkflow(workflow_id)

    def agree(self, value: bytes, recorded: Recorded, verdict: Verdict) -> None:
        """Judge the next event; fail unless the verdict is that of the first fold."""
        found = second_verdict(self._fold, orjson.loads(value), recorded.sha256, recorded.time_ms)
        assert found == verdict, f"the second fold says {found}, the first one {verdict}: {value!r}"
