"""The executor and approvals: what waits for a person, what runs once it was approved, and what never does."""

import hashlib

import pytest
from doubles import Counting
from test_executor import PLACES, Stand, executor, places, ran, ready

from builders import At, Told, planned, requested
from poweron_events.request import Requester
from poweron_events.step_events import ApprovalRequested
from poweron_services.decider.approval import Approval
from poweron_services.roles.executor import Executor


def asking(action: Counting) -> Executor:
    """An executor whose settings mark the action."""
    return executor(action, approval=Approval(frozenset({"test.*"}), expires_ms=500))


NO_PARAMETERS = hashlib.sha256(b"{}").hexdigest()


def approved(told: Told) -> Told:
    """A person has approved what the executor asked for."""
    return told.tell(At().approval_granted(parameters_sha256=NO_PARAMETERS))


@pytest.mark.req("E-08")
async def test_a_marked_action_is_asked_for_before_anybody_claims_it() -> None:
    one, told = asking(Counting()), ready()
    (asked,) = await one(told.workflow, Stand()())
    assert isinstance(asked, ApprovalRequested)
    assert (asked.action, asked.expires_ms) == ("test.pure", 500)
    assert asked.parameters_sha256 == NO_PARAMETERS
    assert await places(one) == PLACES


@pytest.mark.req("E-08")
async def test_a_marked_action_is_not_claimed_along_with_its_parameters() -> None:
    parameters = At().parameters(parameters={})
    told = Told().tell(requested(), planned(), At().selected(action="test.pure"))
    assert await asking(Counting()).claim_at_once(told.workflow, [parameters]) == []
    assert len(await executor(Counting()).claim_at_once(told.workflow, [parameters])) == 1


@pytest.mark.req("E-08")
async def test_what_was_approved_runs() -> None:
    action, told = Counting(), ready()
    one = asking(action)
    told.tell(*await one(told.workflow, Stand()()))
    approved(told)
    (completed,) = await ran(one, told)
    assert (completed.outcome, len(action.runs)) == ("done", 1)


@pytest.mark.req("E-08")
async def test_what_was_denied_does_not_run_and_the_result_says_who_denied_it_and_why() -> None:
    action, told = Counting(), ready()
    one = asking(action)
    told.tell(*await one(told.workflow, Stand()()))
    ada = Requester(name="Ada")
    denied = {"parameters_sha256": NO_PARAMETERS, "requester": ada, "reason": "Not on a Friday.\nAsk on Monday."}
    told.tell(At().approval_denied("6", **denied))
    (completed,) = await ran(one, told)
    assert (completed.outcome, action.runs) == ("denied", [])
    assert completed.error == "The action was denied by Ada: Not on a Friday. Ask on Monday."


@pytest.mark.req("E-08")
async def test_an_approval_of_other_parameters_lets_nothing_run() -> None:
    """In a round of the first transition rules, which take any answer."""
    action = Counting()
    told = Told().tell(requested(laws=1), planned(), At().selected(action="test.pure"), At().parameters(parameters={}))
    one = asking(action)
    told.tell(*await one(told.workflow, Stand()()))
    (completed,) = await ran(one, told.tell(At().approval_granted(parameters_sha256="0" * 64)))
    assert (completed.outcome, action.runs) == ("denied", [])
    assert completed.error == "What was approved are other parameters than these."


@pytest.mark.req("E-08")
async def test_a_marked_action_that_nobody_was_asked_about_does_not_run() -> None:
    action = Counting()
    told = ready().tell(At().started(claim="of a worker without the setting", effect_class="pure"))
    one = asking(action)
    told.tell(*await one(told.workflow, Stand(99)()))
    (completed,) = await one(told.workflow, Stand()())
    assert (completed.outcome, action.runs) == ("denied", [])


def demanded(*patterns: str) -> Told:
    """The action is at hand, and its round's opening says who must be asked."""
    opening = requested(approve=patterns)
    return Told().tell(opening, planned(), At().selected(action="test.pure"), At().parameters(parameters={}))


@pytest.mark.req("E-08")
@pytest.mark.parametrize("pattern", ["*", "test", "test.*", "test.pure"])
async def test_what_the_opening_marks_is_asked_for_also_by_a_process_without_the_setting(pattern: str) -> None:
    one, told = executor(Counting()), demanded(pattern)
    assert await one.claim_at_once(told.workflow, [At().parameters(parameters={})]) == []
    (asked,) = await one(told.workflow, Stand()())
    assert isinstance(asked, ApprovalRequested)
    assert await places(one) == PLACES


@pytest.mark.req("E-08")
async def test_what_the_opening_marks_and_nobody_was_asked_about_does_not_run() -> None:
    action = Counting()
    one = executor(action)
    told = demanded("test.pure").tell(At().started(claim="of an older release", effect_class="pure"))
    told.tell(*await one(told.workflow, Stand(99)()))
    (completed,) = await one(told.workflow, Stand()())
    assert (completed.outcome, action.runs) == ("denied", [])


@pytest.mark.req("E-16")
async def test_what_nobody_answers_in_time_is_denied_and_holds_no_place_meanwhile() -> None:
    one, told = asking(Counting()), ready()
    told.tell(*await one(told.workflow, Stand()()))
    assert await one(told.workflow, Stand(in_time=False)()) == []
    assert await places(one) == PLACES
    stand = Stand()
    told.tell(*await one(told.workflow, stand()))
    assert stand.waited == [told.workflow.step.approval_due_ms]
    (completed,) = await ran(one, told)
    assert (completed.outcome, completed.error) == ("denied", "Nobody approved the action in time.")
