"""The reviewer: judges a stopped task, and writes how the round ends."""

from typing import Any

import pytest
from doubles import script

from builders import At, Told, cancellation, document, planned, requested, step
from poweron_events import codec
from poweron_events.content import ContentStore
from poweron_services.models.call import Caller
from poweron_services.models.prompts import MessagePrompt
from poweron_services.models.scripted import ScriptedModel
from poweron_services.roles.reviewer import Reviewer, create_review_prompt


async def said(told: Told, **lines: Any) -> Any:
    content = ContentStore.at("memory:///")
    (event,) = await Reviewer(Caller(ScriptedModel(script(**lines)), content), content)(told.workflow)
    return event


def stopped() -> Told:
    return Told().tell(requested(), planned(), *step(1))


@pytest.mark.req("L-07")
@pytest.mark.parametrize("status", ["success", "retry", "failed"])
async def test_a_stopped_task_is_classified_with_its_improvements(status: str) -> None:
    event = await said(stopped(), review=[{"status": status, "reason": "So it is.", "improvements": ["Name the page"]}])
    assert (event.status, event.improvements, event.decided_by) == (status, ("Name the page",), "model")


@pytest.mark.req("L-07")
async def test_a_retry_keeps_the_progress_and_has_a_limit() -> None:
    told, retry = stopped(), {"status": "retry", "improvements": ["Again"]}
    for attempt in (1, 2, 3):
        told.tell(await said(told, review=[retry]))
        if attempt < 3:
            assert (told.workflow.task.attempt, told.workflow.task.improvements) == (attempt + 1, ("Again",))
            assert told.workflow.task.progress[0].met
            told.tell(*step(1, attempt=attempt + 1))
    assert (told.workflow.phase, told.workflow.current.ending) == ("closing", "failed")


@pytest.mark.req("L-02")
async def test_after_the_second_refusal_the_task_failed_without_asking_a_model() -> None:
    told = Told().tell(requested(), planned(), At().selection_rejected(1), At().selection_rejected(2))
    event = await said(told)
    assert (event.status, event.decided_by, event.model_call) == ("failed", "guard", None)
    assert event.reason == "The model's proposals were refused twice: No such action."


async def test_a_review_that_cannot_be_used_follows_the_criteria() -> None:
    event = await said(stopped(), review=["nonsense"])
    assert (event.status, event.decided_by, event.reason) == ("success", "guard", "All success criteria are met.")


@pytest.mark.req("P-06")
def test_the_review_sees_the_steps_of_its_task_between_fences() -> None:
    data = create_review_prompt(stopped().workflow).render(fence="F").data
    assert "<<< F\nstep 1, document.extract, success: Read one document.\nnote: The total is 42.\n>>> F" in data


@pytest.mark.req("L-08")
async def test_a_round_ends_with_the_models_message_and_its_call() -> None:
    event = await said(stopped().tell(At().reviewed()), message=["The total is 42."])
    assert (event.TYPE, event.message, len(event.model_calls)) == ("poweron.round.completed.v1", "The total is 42.", 1)


@pytest.mark.req("L-10")
async def test_a_failed_round_says_what_went_wrong_and_what_to_do() -> None:
    event = await said(Told().tell(requested(), planned(), At().failed("select")))
    assert event.message == (
        "The request could not be completed. The model does not answer.\n"
        "Nothing is lost: `poweron history` shows every step. Change the request or its documents and ask again."
    )


async def test_a_cancelled_round_repeats_the_reason() -> None:
    event = await said(stopped().tell(cancellation()))
    assert event.message == "The round was cancelled. Reason: No longer needed."


@pytest.mark.req("E-10")
async def test_an_ending_with_too_many_documents_and_words_is_cut_and_says_so() -> None:
    told = Told().tell(requested(max_steps=9), planned())
    for number in range(1, 6):
        files = tuple(document("ü" * 200 + f"{number}-{one}", document_id=f"{number}-{one}") for one in range(60))
        at = At(number)
        told.tell(at.selected(action="ai.process"), at.parameters(), at.started(), at.done(documents=files))
        told.tell(at.observed(), at.refined(decision="continue" if number < 5 else "stop"))
    told.tell(At(5).reviewed())
    event = await said(told, message=["\N{GRINNING FACE}" * 9_000])
    told.tell(event)
    assert len(told.values[-1]) < codec.MAX_EVENT
    assert event.documents[-1].document_id == "5-59"
    assert f"{300 - len(event.documents)} more documents were written" in event.message


@pytest.mark.req("X-05")
async def test_the_final_message_sees_names_and_summaries_between_fences_only() -> None:
    model = ScriptedModel(script())
    content = ContentStore.at("memory:///")
    await Reviewer(Caller(model, content), content)(stopped().tell(At().reviewed()).workflow)
    (prompt,) = [one for one in model.asked if isinstance(one, MessagePrompt)]
    data = prompt.render(fence="F").data
    assert "Find the total (success):\n<<< F\nRead one document.\n" in data
