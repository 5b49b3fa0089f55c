"""How much a model takes: asked of its server, and prompts that fit it at every stage of a long run."""

import re
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import pytest
from doubles import CRITERION, Counting, World, script
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from poweron_events.fold.history import render
from poweron_services.models.chat_model import Completion, TooLong
from poweron_services.models.context_window import CHARACTERS_PER_TOKEN
from poweron_services.models.document_window import window_characters
from poweron_services.models.prompts import Prompt, SelectionPrompt
from poweron_services.models.providers import ProviderModel
from poweron_services.models.scripted import ScriptedModel
from poweron_services.settings.config import ProviderSettings, Settings

STEPS = 40
WINDOW = 8_192


@dataclass
class Small:
    """A model of 8k tokens that takes no more, and says so before it is asked."""

    lines: ScriptedModel
    asked: list[Prompt] = field(default_factory=list)

    async def prompt_tokens(self) -> int | None:
        return WINDOW * 3 // 4

    async def complete(self, prompt: Prompt) -> Completion:
        if len(str(prompt.render())) > WINDOW * 3 // 4 * CHARACTERS_PER_TOKEN:
            raise TooLong("context_length_exceeded")
        self.asked.append(prompt)
        return await self.lines.complete(prompt)


def _refined(decision: str) -> dict[str, Any]:
    met = decision == "stop"
    return {
        "decision": decision,
        "reason": "The total is not named yet; what was found so far says nothing of it. " * 6,
        "classification": "success",
        "criteriaProgress": [{"criterion": CRITERION, "met": met, "progress": 1000 if met else 20}],
    }


@pytest.mark.req("P-09")
async def test_a_model_of_8k_completes_a_run_of_forty_steps_without_being_asked_too_much() -> None:
    selection = {"action": "test.pure", "actionObjective": "Read the next part of the accounts. " * 20}
    lines = script(
        refinement=[*[_refined("continue")] * (STEPS - 1), _refined("stop")],
        selection=[selection] * STEPS,
        parameters=[{"schema": "parameters_v1", "parameters": {}}] * STEPS,
    )
    model = Small(ScriptedModel(lines))
    world = World([Counting()], model=model)
    async with world.process():
        id_ = await world.ask(prompt="Find the total of the year in the accounts. " * 40, max_steps=STEPS)
        await world.ended(id_)
    accepted = world.accepted(id_)
    assert type(accepted[-1]).__name__ == "RoundCompleted"
    assert accepted[-1].totals.steps == STEPS
    calls = [event.model_call for event in accepted if getattr(event, "model_call", None)]
    assert {call.tries for call in calls} == {1}
    last = [prompt for prompt in model.asked if isinstance(prompt, SelectionPrompt)][-1]
    shown = str(last.render())
    assert last.share > 1
    assert render(last.history[0])[:200] in shown
    assert render(last.history[-1]) not in shown


# --- asked of the server --------------------------------------------------------------------------------


VLLM = {"/v1/models": {"object": "list", "data": [{"id": "m", "object": "model", "max_model_len": 6_144}]}}
LLAMA_CPP = {
    "/v1/models": {"data": [{"id": "other.gguf", "meta": {"n_ctx_train": 32_768}}]},
    "/props": {"default_generation_settings": {"n_ctx": 6_144, "params": {}}, "total_slots": 1},
}
LM_STUDIO = {
    "/v1/models": {"data": [{"id": "x", "context_length": 1_000}, {"id": "m", "loaded_context_length": 6_144}]}
}
OLLAMA_LOADED = {
    "/v1/models": {"data": [{"id": "m"}]},
    "/api/ps": {"models": [{"name": "m", "model": "m", "context_length": 6_144}]},
}
OLLAMA_SET = {
    "/v1/models": {"data": [{"id": "m"}]},
    "/api/ps": {"models": []},
    "/api/show": {"parameters": 'stop    "<|im_end|>"\nnum_ctx                        6144\ntemperature 0.7'},
}
SILENT = {"/v1/models": {"data": [{"id": "m"}]}}
HOSTILE = {
    "/v1/models": {"data": [{"id": "m", "max_model_len": -5, "context_length": "lots"}, 7, None]},
    "/props": [1],
    "/api/ps": {"models": {"m": 3}},
    "/api/show": {"parameters": 6144},
}


def _serve(httpserver: HTTPServer, answers: dict[str, Any]) -> None:
    def answer(request: Request) -> Response:
        if request.path not in answers:
            return Response("404 page not found", 404)
        return Response(orjson.dumps(answers[request.path]), content_type="application/json")

    httpserver.expect_request(re.compile(".*")).respond_with_handler(answer)


@pytest.mark.parametrize(
    ("answers", "window"),
    [
        (VLLM, 6_144),
        (LLAMA_CPP, 6_144),
        (LM_STUDIO, 6_144),
        (OLLAMA_LOADED, 6_144),
        (OLLAMA_SET, 6_144),
        (SILENT, None),
        (HOSTILE, None),
        ({}, None),
    ],
)
async def test_a_server_of_ones_own_is_asked_once_how_much_its_model_takes(
    answers: dict[str, Any], window: int | None, httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    _serve(httpserver, answers)
    monkeypatch.setenv("OPENAI_BASE_URL", httpserver.url_for("/v1"))
    settings = Settings(model="openai:m", model_max_tokens=1_000)
    async with aclosing(ProviderModel("openai", "m", settings, ProviderSettings())) as model:
        expected = None if window is None else window - 1_000
        assert await model.prompt_tokens() == expected
        asked = len(httpserver.log)
        assert await model.prompt_tokens() == expected
        assert len(httpserver.log) == asked
    if window is not None:
        assert await window_characters(settings) == (window - 1_000 - (window - 1_000) // 4) * CHARACTERS_PER_TOKEN


async def test_the_setting_comes_before_the_server(httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    _serve(httpserver, VLLM)
    monkeypatch.setenv("OPENAI_BASE_URL", httpserver.url_for("/v1"))
    settings = Settings(model="openai:m", model_window=20_000)
    async with aclosing(ProviderModel("openai", "m", settings, ProviderSettings())) as model:
        assert await model.prompt_tokens() == 15_000  # a quarter is left for the answer
    assert not httpserver.log


async def test_a_model_of_a_provider_is_known_by_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    settings = Settings(model="anthropic:claude-sonnet-4-5")
    async with aclosing(ProviderModel("anthropic", "claude-sonnet-4-5", settings, ProviderSettings())) as model:
        assert (await model.prompt_tokens() or 0) >= 100_000


async def test_a_server_that_was_not_there_is_asked_when_it_is(
    httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{unused_tcp_port}/v1")
    settings = Settings(model="openai:m", model_max_tokens=1_000)
    async with aclosing(ProviderModel("openai", "m", settings, ProviderSettings())) as model:
        assert await model.prompt_tokens() is None
        _serve(httpserver, VLLM)
        model._way = replace(model._way, place=httpserver.url_for("/v1"))
        assert await model.prompt_tokens() == 5_144
