"""Several models for a stage: each answers where those before it cannot be reached, take too little or answer wrongly."""

from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
from doubles import Counting, World, script
from structlog.testing import capture_logs
from test_call import WORKFLOW, process, selection

from poweron_events.content import ContentStore
from poweron_events.errors import Unavailable
from poweron_events.event import ModelCall
from poweron_events.step_events import SelectionRejected
from poweron_services import telemetry
from poweron_services.actions.output_formats import written
from poweron_services.models.answers import SelectionAnswer
from poweron_services.models.call import Called, Caller, FallbackModel
from poweron_services.models.chat_model import ChatModel, Completion, TooLong
from poweron_services.models.prompts import Prompt, SelectionPrompt
from poweron_services.models.scripted import ScriptedModel
from poweron_services.settings.config import Settings
from poweron_services.wiring import build_model

FULL = "It takes no prompt that long."


class Saying:
    """A model that has one answer or one error for every selection, and otherwise answers as it must."""

    def __init__(self, name: str, answer: str | Exception, stage: type[Prompt] = SelectionPrompt) -> None:
        self.name = name
        self.answer = answer
        self.stage = stage
        self.asked = 0
        self._else = ScriptedModel(script())

    async def complete(self, prompt: Prompt) -> Completion:
        if not isinstance(prompt, self.stage):
            return await self._else.complete(prompt)
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return Completion(self.answer, "test", self.name, 10, 5, 7)


CHOSEN = '{"action": "test.pure", "actionObjective": "Do it"}'


def in_turn(*models: Saying) -> FallbackModel:
    return FallbackModel({model.name: model for model in models})


async def selected(model: ChatModel, prompt: Prompt | None = None) -> ModelCall:
    decided = await Caller(model, ContentStore.at("memory:///")).decide(
        WORKFLOW, prompt or selection(), SelectionAnswer
    )
    assert isinstance(decided.answer, SelectionAnswer)
    return decided.call


async def test_where_a_model_cannot_be_reached_the_next_one_answers_at_once() -> None:
    away, there = Saying("away", Unavailable("It is away.", code="model_unavailable")), Saying("there", CHOSEN)
    with capture_logs() as lines:
        call = await selected(in_turn(away, there))
    assert (call.model, call.next_model, call.tries) == ("there", None, 2)
    (told,) = [line for line in lines if line["log_level"] == "warning"]
    assert (told["event"], told["next_model"], told["code"]) == (
        telemetry.MODEL_PASSED_OVER,
        "there",
        "model_unavailable",
    )
    assert (away.asked, there.asked) == (1, 1)


async def test_where_none_can_be_reached_the_first_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poweron_services.models.call.FIRST_PAUSE", 0.01)
    first, second = (Saying(name, Unavailable("It is away.")) for name in ("first", "second"))

    async def back(prompt: Prompt) -> Completion:
        second.asked += 1
        first.answer = CHOSEN
        raise Unavailable("It is away.")

    second.complete = back  # type: ignore[method-assign] # the first comes back while the second is asked
    call = await selected(in_turn(first, second))
    assert (call.model, first.asked, second.asked) == ("first", 2, 1)
    assert call.next_model == "second"


async def test_a_prompt_that_a_model_does_not_take_however_short_goes_whole_to_the_next() -> None:
    narrow, wide = Saying("narrow", TooLong(FULL)), Saying("wide", CHOSEN)
    content = ContentStore.at("memory:///")
    decided = await Caller(in_turn(narrow, wide), content).decide(WORKFLOW, selection(), SelectionAnswer)
    assert (decided.call.model, wide.asked) == ("wide", 1)
    assert narrow.asked > 1  # with less and less of the history
    sent = (await content.get(WORKFLOW.id, str(decided.call.prompt_ref))).decode()
    assert "are left out.)" not in sent


@pytest.mark.req("L-10")
async def test_the_next_model_is_asked_after_two_answers_that_cannot_be_used() -> None:
    clumsy, sure = Saying("clumsy", "What shall I do?"), Saying("sure", CHOSEN)
    world = World([Counting()], model=in_turn(clumsy, sure))
    async with world.process():
        id_ = await world.ask()
        await world.ended(id_)
    accepted = world.accepted(id_)
    rejected = [event for event in accepted if isinstance(event, SelectionRejected)]
    assert [each.model_call and (each.model_call.model, each.model_call.next_model) for each in rejected] == [
        ("clumsy", "sure"),
        ("clumsy", "sure"),
    ]
    chosen = next(event for event in accepted if type(event).__name__ == "ActionSelected")
    assert chosen.model_call.model == "sure"
    assert type(accepted[-1]).__name__ == "RoundCompleted"


@pytest.mark.req("L-10")
async def test_after_two_unusable_answers_of_the_last_model_the_step_is_given_up() -> None:
    models = [Saying(name, "What shall I do?") for name in ("first", "second", "third")]
    world = World([Counting()], model=in_turn(*models))
    async with world.process():
        id_ = await world.ask(max_retries=0)
        await world.ended(id_)
    assert [model.asked for model in models] == [2, 2, 2]


@pytest.mark.parametrize(("answers", "asked"), [(["{", "["], 2), (["{", '{"total": 42}'], 1)])
async def test_an_output_in_a_broken_format_is_asked_of_the_next_model_after_the_second(
    answers: list[str], asked: int
) -> None:
    said = [*answers, '{"total": 42}']
    passed_over = list[int]()

    async def ask(prompt: Any) -> Called:
        passed_over.append(prompt.passed_over)
        following = None if prompt.passed_over else "next"
        call = ModelCall(provider="test", model="m", template="t", template_sha256="0" * 64, next_model=following)
        return Called(said[len(passed_over) - 1], call)

    prompt = process("The total is 42.")
    text, _ = await written(ask, replace(prompt, output_format="json"))
    assert text == '{"total": 42}'
    assert passed_over == ([0, 0, 1] if asked == 2 else [0, 0])


async def test_the_settings_name_the_models_in_turn(tmp_path: Any) -> None:
    comma = tmp_path / "a, b.json"
    comma.write_text("{}")
    settings = Settings(model=f"openai:gpt-5-mini, builtin,scripted:{comma}", model_plan="builtin")
    assert settings.models["select"] == ("openai:gpt-5-mini", "builtin", f"scripted:{comma}")
    assert settings.models["plan"] == ("builtin",)
    assert settings.named_models == ["builtin", "openai:gpt-5-mini", f"scripted:{comma}"]
    assert settings.provided_models == ["openai:gpt-5-mini"]


@pytest.mark.parametrize("wrong", ["openai:gpt-5-mini,", "builtin,gpt-5", ",builtin"])
def test_each_model_in_turn_must_be_one(wrong: str) -> None:
    with pytest.raises(ValueError, match="is no model"):
        Settings(model=wrong)


async def test_every_model_in_turn_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    async with AsyncExitStack() as opened:
        model = build_model(Settings(model="openai:gpt-5-mini,builtin", model_plan="builtin"), opened)
        prompt = selection()
        assert [type(each).__name__ for each in model.models[prompt.stage].models.values()] == [  # type: ignore[attr-defined]
            "ProviderModel",
            "BuiltinModel",
        ]
        assert type(model.models["plan"]).__name__ == "BuiltinModel"  # type: ignore[attr-defined]
