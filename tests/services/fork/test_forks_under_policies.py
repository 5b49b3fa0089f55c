"""What a fork takes over of people's answers: those that count under its own rules, and only with the result."""

import pytest

from builders import At, Told, person, planned, requested, under_policy
from poweron_events.codec import decode, dumps, sha256
from poweron_events.envelope import Cause
from poweron_events.fold.state import Workflow
from poweron_events.stream import WorkflowEvent
from poweron_services.fork.original import AcceptedEvent, Original

FORK = Told("fork")
CHANGED = {"documentList": ["docList:round1_request"], "prompt": "Only the total."}


def accepted(told: Told) -> list[AcceptedEvent]:
    events = [decode(value).event for value in told.values]
    return [
        AcceptedEvent(seq, "", event)
        for seq, (event, verdict) in enumerate(zip(events, told.verdicts, strict=True))
        if verdict == "accepted" and event is not None
    ]


def original(*events: WorkflowEvent, **fields: object) -> Original:
    at = At()
    told = Told().tell(requested(**fields), planned(), at.selected(), at.parameters(), at.approval_requested(), *events)
    return Original(FORK.id, len(told.values), accepted(told))


def waiting(*events: WorkflowEvent, requester: str = "ada") -> Workflow:
    """The fork, as its own step waits for two members of `risk`."""
    at = At()
    fork = Told("fork").tell(requested("fork", **under_policy(requester=requester)), planned(), at.selected())
    return fork.tell(at.parameters(), at.approval_requested(), *events).workflow


def granted(name: str, **fields: object) -> WorkflowEvent:
    return At().approval_granted(f"by-{name}", actor=person(name), **fields)


BOTH = (granted("bob"), granted("dora"), At().started(), At().done())


def test_each_answer_is_taken_over_once_until_there_are_enough() -> None:
    run = original(*BOTH, **under_policy())
    assert [run.answer(waiting()).event.actor.id, run.answer(waiting(granted("bob"))).event.actor.id] == ["bob", "dora"]
    assert run.answer(waiting(granted("bob"), granted("eve"))).event.actor.id == "dora"


def test_an_answer_that_does_not_count_here_is_not_taken_over() -> None:
    assert original(*BOTH, **under_policy()).answer(waiting(granted("dora"), requester="bob")) is None
    anyone = original(granted("mallory"), At().started(), At().done())
    assert anyone.answer(waiting()) is None


@pytest.mark.parametrize(("events", "taken_over"), [(BOTH, True), (BOTH[:2], False), (BOTH[:3], False)])
def test_an_approval_without_a_result_is_not_that_of_another_run(
    events: tuple[WorkflowEvent, ...], taken_over: bool
) -> None:
    run = original(*events, **under_policy())
    next_event = run.next_event(waiting()._replace(head=_copied_head(run)))
    assert (next_event is not None) == taken_over


def _copied_head(run: Original) -> Cause:
    """The copy of the question to people."""
    asked = next(position for position in run._positions if run._positions[position] == 4)
    return Cause(asked, "")


def test_a_result_belongs_to_the_parameters_that_were_approved_last() -> None:
    digest = sha256(dumps(CHANGED))
    changed = At().parameters_changed(actor=person("bob"))
    answers = (granted("dora", parameters_sha256=digest), granted("eve", parameters_sha256=digest))
    run = original(At().escalated(), changed, *answers, At().started(), At().done(), **under_policy())
    (result,) = run._results
    assert result.parameters == CHANGED
    assert run.result(waiting()) is None
