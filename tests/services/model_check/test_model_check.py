"""What a model is good for, by cases of every stage: right answers pass, wrong ones and late ones do not."""

import asyncio
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from poweron_events.content import ContentStore
from poweron_events.errors import Refused
from poweron_events.fold.stage_specs import PromptStage
from poweron_services.model_check.cases import STAGES, cases
from poweron_services.model_check.check import StageResult, checked
from poweron_services.model_check.facts import FACTS
from poweron_services.models.builtin import BuiltinModel
from poweron_services.models.chat_model import ChatModel, Completion
from poweron_services.models.prompts import Prompt

WRONG: dict[PromptStage, Any] = {
    "plan": {
        "tasks": [
            {"objective": f"Do part {number}", "successCriteria": ["It is done."], "taskType": "lookup"}
            for number in (1, 2)
        ]
    },
    "select": {"action": "web.crawl", "actionObjective": "Look at the web", "requiredInputDocuments": ["docItem:d1"]},
    "parameterize": {"schema": "parameters_v1", "parameters": {"aiPrompt": "Do what is to be done."}},
    "refine": {"decision": "continue", "reason": "Go on.", "classification": "success"},
    "review": {"status": "retry", "reason": "Once more."},
    "process": "It was in the year 4711.",
    "message": "It was in the year 4711.",
}


@dataclass
class Saying:
    """A model that has one answer to each stage."""

    answers: dict[PromptStage, Any]
    pause: float = 0.0
    asked: int = 0

    async def complete(self, prompt: Prompt) -> Completion:
        self.asked += 1
        await asyncio.sleep(self.pause)
        said = self.answers[prompt.stage]
        if isinstance(said, Exception):
            raise said
        return Completion(said if isinstance(said, str) else orjson.dumps(said).decode(), "test", "m", 100, 10, 7)


async def results(
    model: ChatModel, count: int = 5, seconds: float = 60.0, timeout: float = 10.0
) -> dict[str, StageResult]:
    return {each.stage: each async for each in checked(model, STAGES, count, seconds, timeout)}


async def test_the_built_in_model_is_good_enough_for_every_stage() -> None:
    found = await results(BuiltinModel(), count=25)
    assert [each.stage for each in found.values() if each.is_too_weak] == []
    assert {each.asked for each in found.values()} == {25}
    assert {each.in_form for each in found.values()} == {25}


async def test_wrong_answers_of_the_right_form_are_counted_as_that() -> None:
    found = await results(Saying(WRONG))
    assert {each.in_form for each in found.values()} == {5}
    right = {stage: each.right for stage, each in found.items()}
    # to go on, and to try again, is right where the answer is not there
    assert right == {"plan": 0, "select": 0, "parameterize": 0, "refine": 2, "review": 2, "process": 0, "message": 0}
    assert all(each.is_too_weak for each in found.values())
    assert found["select"].wrong[1] == "write the file that is asked for"
    assert (found["plan"].tokens, found["plan"].cost_nano_usd) == (550, 35)


async def test_an_answer_that_no_stage_could_use_has_the_wrong_form() -> None:
    found = await results(Saying(dict.fromkeys(STAGES, "{")))
    in_form = {stage: each.in_form for stage, each in found.items()}
    assert in_form == dict.fromkeys(STAGES, 0) | {"process": 5, "message": 5}
    assert all(each.right == 0 for each in found.values())
    assert found["plan"].wrong[0] == "plan one task for one question: its form"


async def test_a_model_that_would_not_answer_is_wrong_and_says_why() -> None:
    refused = Refused("The model would not answer.", code="answer_refused")
    found = await results(Saying({**WRONG, "select": refused}))
    assert found["select"].in_form == 0
    assert found["select"].wrong[0] == "read before answering: The model would not answer."


async def test_a_case_that_takes_too_long_is_given_up() -> None:
    found = await results(Saying(WRONG, pause=5), count=1, timeout=0.02)
    assert found["plan"].wrong == ["plan one task for one question: no answer within 0.02 s"]


@dataclass
class Slow(Saying):
    """A model that takes two seconds for an answer, by a clock of its own."""

    time: float = 0.0

    async def complete(self, prompt: Prompt) -> Completion:
        self.time += 2
        return await super().complete(prompt)


@pytest.mark.parametrize("seconds", [0.0, 1.0, 20.0, 100.0])
async def test_a_slow_model_is_asked_as_much_as_the_time_allows(seconds: float) -> None:
    model = Slow(WRONG)
    found = [each async for each in checked(model, STAGES, 25, seconds, 10, now=lambda: model.time)]
    assert [each.stage for each in found] == list(STAGES)
    assert model.time <= seconds + 2 * len(STAGES)
    assert {each.asked for each in found} == {0.0: {0, 1}, 1.0: {0, 1}, 20.0: {1, 2}, 100.0: {7, 8}}[seconds]
    assert not any(each.is_too_weak for each in found if not each.asked)


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.document)
def test_every_fact_holds_its_answer_and_nothing_else_does(fact: Any) -> None:
    text = fact.text.casefold()
    assert any(each.casefold() in text for each in fact.answer)
    assert not any(each.casefold() in fact.question.casefold() for each in fact.answer)
    assert any(word in fact.question.casefold() for word in fact.topic)
    assert fact.unanswered.endswith("?")


async def test_there_are_25_different_cases_of_every_stage_in_both_languages() -> None:
    content = ContentStore.at("memory:///")
    for stage in STAGES:
        made = await cases(stage, 25, content)
        assert len({each.workflow.id for each in made}) == 25
        assert {each.fact.language for each in made} == {"en", "de"}
        assert {each.fact.language for each in made[:5]} == {"en", "de"}
