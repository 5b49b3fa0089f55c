"""A final message that came only in part, or not at all: what the user gets in its place, and why."""

import pytest
from doubles import script
from minds import completion

from builders import At, Told, document, planned, requested
from poweron_events.content import ContentStore
from poweron_events.errors import Refused
from poweron_services.models.call import Caller
from poweron_services.models.chat_model import Completion
from poweron_services.models.prompts import MessagePrompt, Prompt
from poweron_services.models.scripted import ScriptedModel
from poweron_services.roles.reviewer import Reviewer

NAMED = "acme:large-1 has trouble, see ACME_API_KEY."


class Refusing(ScriptedModel):
    """A provider whose final message is none, although it is paid for."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(script())
        self._refusal, self._text = Refused(NAMED, code=code), text

    async def complete(self, prompt: Prompt) -> Completion:
        if not isinstance(prompt, MessagePrompt):
            return await super().complete(prompt)
        return completion(prompt, self._text, refusal=self._refusal)


async def ended(code: str, text: str, answer: str = "The total is 42.", language: str = "en"):
    """The end of a round that wrote this answer."""
    content, at = ContentStore.at("memory:///"), At()
    told = Told().tell(requested(user_language=language), planned(), at.selected(action="ai.process"))
    kept = await content.put(told.id, answer.encode())
    done = at.done(documents=(document("answer.md", content=kept),))
    told.tell(at.parameters(), at.started(), done, at.observed(), at.refined(), at.reviewed())
    (event,) = await Reviewer(Caller(Refusing(code, text), content), content)(told.workflow)
    return event


@pytest.mark.req("L-08")
@pytest.mark.parametrize("came", ["", "The total is"])
@pytest.mark.parametrize(
    ("code", "language", "said"),
    [
        ("answer_cut_off", "en", "The final message was cut off at the limit of its length"),
        ("answer_cut_off", "de", "Die Schlussnachricht wurde an der Grenze ihrer Länge abgeschnitten"),
        ("answer_refused", "en", "The final message was filtered: the model, or a filter of its provider, would not"),
        ("answer_refused", "de", "Die Schlussnachricht wurde gefiltert: Das Modell oder ein Filter seines Anbieters"),
        ("prompt_too_long", "en", "The final message was cut off"),
        ("prompt_too_long", "de", "Die Schlussnachricht wurde abgeschnitten"),
        ("answer_empty", "en", "The model wrote no final message"),
    ],
)
async def test_a_message_that_was_cut_off_or_filtered_says_so_and_the_result_is_given(
    code: str, language: str, said: str, came: str
) -> None:
    event = await ended(code, came, language=language)
    assert event.TYPE == "poweron.round.completed.v1"
    assert said in event.message
    assert event.message.count("The total is") == 1
    assert "The total is 42." in event.message
    assert "acme" not in event.message.casefold()
    assert len(event.model_calls) == 1


@pytest.mark.req("L-08")
async def test_that_a_message_was_cut_off_is_said_however_long_the_result_is() -> None:
    event = await ended("answer_cut_off", "", "words and more words " * 900)
    assert event.message.startswith("The final message was cut off")
