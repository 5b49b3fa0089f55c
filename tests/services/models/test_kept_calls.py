"""What is kept of a call: what was sent to the provider as it was sent, and what came of it as far as it came."""

import asyncio
import json
from contextlib import aclosing
from typing import Any, get_args

import pytest
from providers import KEY, Playing, opened, saying
from pytest_httpserver import HTTPServer
from structlog.testing import capture_logs
from test_providers import PLAN, planning

from builders import CALL, Told, requested
from poweron_events.content import ContentStore
from poweron_events.errors import Unavailable
from poweron_events.event import ModelCall
from poweron_services.models.answers import PlanningAnswer
from poweron_services.models.call import Called, Caller, Decided
from poweron_services.roles import action_results
from poweron_services.roles.action_execution import KeptCalls
from poweron_services.settings.config import Provider

WORKFLOW = Told().tell(requested()).workflow
CUT = '{"tasks": [{"objective": "Fi'


class Kept:
    """A stage of a workflow that asks a provider, and the content store that keeps what it asked and heard."""

    def __init__(self, server: HTTPServer, provider: Provider, **settings: Any) -> None:
        self.content = ContentStore.at("memory:///")
        self._model = opened(server, provider, **settings)

    async def decided(self) -> Decided[PlanningAnswer]:
        async with aclosing(self._model) as model:
            return await Caller(model, self.content).decide(WORKFLOW, planning(), PlanningAnswer)

    async def prompt(self, call: ModelCall) -> str:
        return (await self.content.get(WORKFLOW.id, str(call.prompt_ref))).decode()

    async def answer(self, call: ModelCall) -> str:
        return (await self.content.get(WORKFLOW.id, str(call.answer_ref))).decode()


@pytest.mark.req("P-08")
@pytest.mark.parametrize("provider", get_args(Provider))
async def test_the_prompt_that_is_kept_is_what_was_sent_with_instructions_schema_and_tools(
    provider: Provider, httpserver: HTTPServer
) -> None:
    playing = Playing(httpserver, provider, [saying(provider, PLAN)])
    kept = Kept(httpserver, provider)
    call = (await kept.decided()).call
    prompt = await kept.prompt(call)
    assert json.loads(prompt) == playing.asked[0]
    for part in ("You plan work.", "What is the total?", "successCriteria", "additionalProperties"):
        assert part in prompt
    assert KEY not in prompt


@pytest.mark.req("P-08")
@pytest.mark.parametrize("output", ["tool", "prompted"])
async def test_however_a_model_is_told_the_form_of_its_answer_it_is_kept(output: str, httpserver: HTTPServer) -> None:
    playing = Playing(httpserver, "mistral", [saying("mistral", PLAN if output == "tool" else json.dumps(PLAN))])
    kept = Kept(httpserver, "mistral", model_output=output)
    prompt = await kept.prompt((await kept.decided()).call)
    assert json.loads(prompt) == playing.asked[0]
    assert "additionalProperties" in prompt


def stopped(reason: str, content: str, **said: Any) -> dict[str, Any]:
    """The changes of an answer of OpenAI that ended for a reason."""
    message = {"role": "assistant", "content": content, **said}
    return {"choices": [{"index": 0, "message": message, "finish_reason": reason}]}


def ended(reason: str, *content: dict[str, Any]) -> dict[str, Any]:
    """Likewise of Anthropic."""
    return {"stop_reason": reason, "content": list(content)}


ENDS: dict[str, tuple[Provider, dict[str, Any], str, str, str]] = {
    "cut off by OpenAI": ("openai", stopped("length", CUT), CUT, "length", "answer_cut_off"),
    "filtered by OpenAI": ("openai", stopped("content_filter", CUT), CUT, "content_filter", "answer_refused"),
    "refused by OpenAI": (
        "openai",
        stopped("stop", "", refusal="I cannot."),
        "I cannot.",
        "content_filter",
        "answer_refused",
    ),
    "cut off by Mistral": ("mistral", stopped("length", CUT), CUT, "length", "answer_cut_off"),
    "cut off by Anthropic": (
        "anthropic",
        ended("max_tokens", {"type": "text", "text": CUT}),
        CUT,
        "length",
        "answer_cut_off",
    ),
    "refused by Anthropic": (
        "anthropic",
        ended("refusal", {"type": "text", "text": CUT}),
        CUT,
        "content_filter",
        "answer_refused",
    ),
}


@pytest.mark.req("P-08")
@pytest.mark.req("B-01")
@pytest.mark.parametrize("end", ENDS)
async def test_an_answer_that_did_not_come_to_its_end_is_kept_as_far_as_it_came_with_the_reason(
    end: str, httpserver: HTTPServer
) -> None:
    provider, changes, came, reason, code = ENDS[end]
    Playing(httpserver, provider, [saying(provider, "", **changes)])
    kept = Kept(httpserver, provider)
    decided = await kept.decided()
    assert await kept.answer(decided.call) == came
    assert decided.call.finish_reason == reason
    assert getattr(decided.answer, "code", None) == code


class Silent(ContentStore):
    """Remembers nothing and recalls nothing, and never says so."""

    async def recall(self, workflow_id: str, kind: str, question: bytes) -> bytes | None:
        return await asyncio.Future()

    async def remember(self, workflow_id: str, kind: str, question: bytes, content: bytes) -> None:
        await asyncio.Future()


@pytest.mark.req("L-10")
@pytest.mark.timeout(10)
async def test_an_answer_of_a_step_is_kept_and_recalled_within_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(action_results, "STORE_TIMEOUT", 0.01)
    kept = KeptCalls(Silent.at("memory:///"), WORKFLOW.id, "key")
    with capture_logs() as logs:
        await kept.keep(planning(), Called("The total is 42.", CALL))
    assert [(line["event"], line["workflow_id"]) for line in logs] == [("content_store_unavailable", WORKFLOW.id)]
    with pytest.raises(Unavailable, match=r"the content store did not answer for 0\.01 s"):
        await kept.recall(planning())
