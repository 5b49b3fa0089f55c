"""What the ledger of a simulated world makes of requests that are sent long after they were reserved."""

from typing import Any

import pytest
from simulation.ledger import Ledger

from builders import At, Told, follow_up, planned, requested, reserved
from poweron_events import codec
from poweron_events.envelope import Recorded
from poweron_events.round_events import RoundFailed, Totals
from poweron_events.stream import WorkflowEvent

CALL, LIMIT, GRANTED = 800, 3_500, 500
BUDGETS = ("task_tokens", "round_tokens", "workflow_tokens")


class Kept(Told):
    """A story whose accepted events a ledger takes in."""

    def __init__(self) -> None:
        super().__init__()
        self.flags: list[tuple[Any, ...]] = []
        self.ledger = Ledger(lambda *found: self.flags.append(found))

    def tell(self, *events: WorkflowEvent) -> "Kept":
        for event in events:
            super().tell(event)
            assert self.verdicts[-1] == "accepted"
            offset = len(self.values) - 1
            recorded = Recorded(codec.decode(self.values[-1]), 0, offset, offset, codec.sha256(self.values[-1]))
            self.ledger.take(recorded, self.workflow)
        return self

    def call(self) -> "Kept":
        """Reserve a call and send it at once."""
        self.tell(reserved(self.workflow, 700, 100))
        self.ledger.take_request(self.workflow, CALL)
        return self


def asking(budget: str) -> Kept:
    """Three calls were sent, and a fourth was reserved by a process that stood still before it could send it."""
    kept = Kept().tell(requested(budgets={budget: LIMIT}, on_budget="ask"), planned(), At().selected())
    return kept.call().call().call().tell(reserved(kept.workflow, 700, 100))


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_call_reserved_before_a_grant_may_be_sent_when_another_process_has_spent_the_grant(budget: str) -> None:
    kept = asking(budget)
    known_then = kept.workflow
    kept.tell(At().budget_requested("parameterize"), At().budget_granted(tokens=GRANTED)).call()
    kept.ledger.take_request(known_then, CALL)
    assert kept.flags == []


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_call_that_is_sent_in_addition_to_all_that_was_granted_is_found(budget: str) -> None:
    kept = asking(budget)
    known_then = kept.workflow
    kept.tell(At().budget_requested("parameterize"), At().budget_granted(tokens=GRANTED - 1)).call()
    kept.ledger.take_request(known_then, CALL)
    assert [(name, taken, limit) for name, *_, taken, limit in kept.flags] == [("OVERSPENT", 4_000, 3_999)]


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_call_too_many_without_a_grant_is_found(budget: str) -> None:
    kept = asking(budget).call()
    kept.ledger.take_request(kept.workflow, CALL)
    assert [(name, taken, limit) for name, *_, taken, limit in kept.flags] == [("OVERSPENT", 4_000, 3_500)]


def test_what_one_round_was_granted_is_not_there_for_the_next_one() -> None:
    kept = asking("workflow_tokens")
    kept.tell(At().budget_requested("parameterize"), At().budget_granted(tokens=GRANTED), At().failed("parameterize"))
    kept.tell(RoundFailed(round=1, message="It failed.", reason="No.", totals=Totals()))
    kept.tell(follow_up(budgets={"workflow_tokens": LIMIT})).call()
    assert kept.flags == []
    kept.ledger.take_request(kept.workflow, CALL)
    assert [(name, taken, limit) for name, *_, taken, limit in kept.flags] == [("OVERSPENT", 4_000, 3_500)]


def test_a_call_reserved_in_one_round_may_be_sent_in_a_later_one_without_its_limit() -> None:
    kept = asking("workflow_tokens")
    known_then = kept.workflow
    kept.tell(At().failed("parameterize"), RoundFailed(round=1, message="It failed.", reason="No.", totals=Totals()))
    kept.tell(follow_up()).ledger.take_request(kept.workflow, CALL)
    kept.ledger.take_request(known_then, CALL)
    assert kept.flags == []
