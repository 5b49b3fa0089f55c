"""An answer that is the whole result of its round is its final message: no model is asked to tell it again."""

from typing import Any

import pytest
from doubles import script

from builders import At, Told, document, planned, requested
from poweron_events.content import ContentStore
from poweron_events.step_events import Observation
from poweron_services.models.call import Caller
from poweron_services.models.scripted import ScriptedModel
from poweron_services.roles.reviewer import Reviewer

ANSWER = "The course takes 12 evenings and costs 96 euros [kursordnung.md, Spanish]."
RETOLD = "The Spanish course lasts for 10 days, and it costs 250 euros."
PLAIN: dict[str, Any] = {"prompt": "How long is the course?"}


async def ended(
    answer: str = ANSWER,
    *,
    mime_type: str = "text/markdown",
    action: str = "ai.process",
    failed_before: bool = False,
    met: bool = True,
    as_in_0_3: bool = False,
    **request: Any,
) -> Any:
    """The end of a round that wrote one text; a model that is asked for the message has other numbers."""
    content, told = ContentStore.at("memory:///"), Told().tell(requested(**{**PLAIN, **request}), planned())
    at = At()
    if failed_before:
        unseen = Observation(success=False, result_label="label", documents_count=0, notes=("It does not answer.",))
        told.tell(at.selected(), at.parameters(), at.started())
        told.tell(at.done(success=False, outcome="failed", documents=()), at.observed(observation=unseen))
        told.tell(at.refined(decision="continue"))
        at = At(2)
    written = document("answer.md", mime_type=mime_type, content=await content.put(told.id, answer.encode()))
    told.tell(at.selected(action=action), at.parameters(), at.started(), at.done(documents=(written,)), at.observed())
    told.tell(at.refined(), at.reviewed(code="criteria_met" if met else None))
    caller = Caller(ScriptedModel(script(message=[RETOLD])), content)
    (event,) = await Reviewer(caller, content, as_in_0_3)(told.workflow)
    return event


@pytest.mark.req("L-08")
@pytest.mark.parametrize("mime_type", ["text/markdown", "text/plain"])
async def test_an_answer_is_the_message_as_it_stands(mime_type: str) -> None:
    event = await ended(mime_type=mime_type)
    assert (event.TYPE, event.message, event.model_calls) == ("poweron.round.completed.v1", ANSWER, ())


@pytest.mark.req("L-08")
@pytest.mark.parametrize(
    "otherwise",
    [
        {"answer": "word " * 500},
        {"answer": " "},
        {"answer": '{"weeks": 12}', "mime_type": "application/json"},
        {"action": "document.generateReport"},
        {"failed_before": True},
        {"met": False},
        {"prompt": "Write it down as a PDF."},
        {"as_in_0_3": True},
    ],
    ids=lambda each: next(iter(each)),
)
async def test_a_model_tells_of_everything_else(otherwise: dict[str, Any]) -> None:
    event = await ended(**otherwise)
    assert event.message.startswith(RETOLD)
    assert len(event.model_calls) == 1


@pytest.mark.req("L-08")
@pytest.mark.parametrize(("as_in_0_3", "is_shown"), [(False, True), (True, False)])
async def test_a_round_that_only_read_is_told_by_what_it_read(as_in_0_3: bool, is_shown: bool) -> None:
    """Small models call a question answered once its document is read."""
    content, told, at = ContentStore.at("memory:///"), Told().tell(requested(**PLAIN), planned()), At()
    read = document("kursordnung.md", mime_type="text/markdown", content=await content.put(told.id, ANSWER.encode()))
    told.tell(at.selected(), at.parameters(), at.started(), at.done(documents=(read,)), at.observed(), at.refined())
    told.tell(at.reviewed(code="criteria_met"))
    model = ScriptedModel(script(message=[ANSWER]))
    (event,) = await Reviewer(Caller(model, content), content, as_in_0_3)(told.workflow)
    assert event.message.startswith(ANSWER)
    assert (ANSWER in model.asked[0].render(fence="F").data) == is_shown
