"""Real models: what is sent to each provider, and what becomes of its answers; over their own client libraries."""

import gc
import json
import subprocess
import sys
from contextlib import aclosing
from typing import Any, get_args

import httpx2
import pytest
from providers import DEPLOYMENT, MODELS, Playing, known, opened, saying, tool_of
from pydantic import SecretStr
from pytest_httpserver import HTTPServer

from builders import Told, requested
from poweron_events.catalog import CATALOG
from poweron_events.errors import Refused
from poweron_events.fold.stage_specs import PROMPT_STAGES, PromptStage
from poweron_services.decider.answer_schemas import planning_schema
from poweron_services.models.answers import PlanningAnswer, parse
from poweron_services.models.prompts import MessagePrompt, PlanningPrompt
from poweron_services.models.providers.provider_model import ProviderModel
from poweron_services.roles.planner import TEMPLATE
from poweron_services.roles.round_end import MESSAGE_TEMPLATE
from poweron_services.settings.config import Provider, ProviderSettings, Settings

pytestmark = pytest.mark.usefixtures("one_ssl_context")

EVERY: list[Provider] = list(get_args(Provider))
PLAN = {"tasks": [{"objective": "Find it", "successCriteria": ["It is found"], "taskType": "lookup"}]}


def planning(**changes: Any) -> PlanningPrompt:
    return PlanningPrompt(
        template=TEMPLATE,
        user_prompt="What is the total?",
        language=None,
        documents=(),
        connections=(),
        actions=(),
        earlier="",
        max_steps=5,
        answer_schema=planning_schema(Told().tell(requested()).workflow, CATALOG),
        **changes,
    )


def message() -> MessagePrompt:
    return MessagePrompt(template=MESSAGE_TEMPLATE, user_prompt="?", language=None, results=(), documents=())


@pytest.mark.parametrize("provider", EVERY)
async def test_a_stage_gets_its_answer_with_what_it_cost(provider: Provider, httpserver: HTTPServer) -> None:
    playing = Playing(httpserver, provider, [saying(provider, PLAN)])
    async with aclosing(opened(httpserver, provider)) as model:
        completion = await model.complete(planning())
    assert parse(completion.text, PlanningAnswer).tasks[0].objective == "Find it"
    assert (completion.provider, completion.model) == (provider, MODELS[provider])
    assert (completion.input_tokens, completion.output_tokens, completion.tries) == (1_000, 20, 1)
    assert len(playing.asked) == 1


OF_CHAT = {
    "prompt_tokens": 1_000,
    "prompt_tokens_details": {"cached_tokens": 600, "audio_tokens": 0},
    "completion_tokens": 200,
    "completion_tokens_details": {"reasoning_tokens": 150, "audio_tokens": 0, "accepted_prediction_tokens": 0},
    "total_tokens": 1_200,
}
OF_RESPONSES = {
    "input_tokens": 1_000,
    "input_tokens_details": {"cached_tokens": 600},
    "output_tokens": 200,
    "output_tokens_details": {"reasoning_tokens": 150},
    "total_tokens": 1_200,
}
OF_ANTHROPIC = {  # which tells what it read anew, what it knew, and what it will know next time apart
    "input_tokens": 300,
    "cache_read_input_tokens": 600,
    "cache_creation_input_tokens": 100,
    "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 0},
    "output_tokens": 200,
    "output_tokens_details": {"thinking_tokens": 150},
}
OF_OLLAMA = {"prompt_tokens": 1_000, "completion_tokens": 200, "total_tokens": 1_200}
GPT_4O_MINI = 400 * 150 + 600 * 75 + 200 * 600  # nano-USD: 0.15, cached 0.075, and 0.60 dollars per million tokens
USED: dict[Provider, tuple[dict[str, Any], int, int, int]] = {
    "openai": (OF_CHAT, 600, 150, GPT_4O_MINI),
    "azure": (OF_CHAT, 600, 150, GPT_4O_MINI),
    "openai-responses": (OF_RESPONSES, 600, 150, GPT_4O_MINI),
    "anthropic": (OF_ANTHROPIC, 600, 150, 300 * 5_000 + 600 * 500 + 100 * 6_250 + 200 * 25_000),
    "mistral": (OF_CHAT, 600, 150, 1_000 * 2_000 + 200 * 6_000),  # whose price list knows no price of cached tokens
    "ollama": (OF_OLLAMA, 0, 0, 0),  # which costs nobody anything
}
"""What each provider tells of a thousand tokens read and two hundred written: cached, thought, and the price of all."""


@pytest.mark.req("B-01")
@pytest.mark.parametrize("provider", EVERY)
async def test_cached_tokens_and_thoughts_are_told_and_priced_and_count_once(
    provider: Provider, httpserver: HTTPServer
) -> None:
    usage, cached, thought, cost = USED[provider]
    playing = Playing(httpserver, provider, [saying(provider, PLAN, usage=usage)])
    async with aclosing(opened(httpserver, provider)) as model:
        completion = await model.complete(planning())
    assert (completion.input_tokens, completion.output_tokens) == (1_000, 200)
    assert (completion.cached_input_tokens, completion.reasoning_tokens) == (cached, thought)
    assert completion.cost_nano_usd == cost
    assert playing.broken == []


@pytest.mark.req("B-01")
async def test_a_price_that_is_known_is_told_in_billionths_of_a_dollar(httpserver: HTTPServer) -> None:
    Playing(httpserver, "openai", [saying("openai", PLAN)])
    async with aclosing(opened(httpserver, "openai")) as model:
        completion = await model.complete(planning())
    assert completion.cost_nano_usd == 1_000 * 150 + 20 * 600  # 0.15 and 0.60 dollars per million tokens


async def test_openai_is_told_to_keep_nothing_of_a_response(httpserver: HTTPServer) -> None:
    playing = Playing(httpserver, "openai-responses", [saying("openai-responses", PLAN)])
    async with aclosing(opened(httpserver, "openai-responses")) as model:
        await model.complete(planning())
    assert [asked["store"] for asked in playing.asked] == [False]


async def test_azure_is_asked_by_deployment_where_a_version_is_named(httpserver: HTTPServer) -> None:
    playing = Playing(httpserver, "azure", [saying("azure", PLAN)])
    named = {"azure_openai_endpoint": SecretStr(httpserver.url_for("/")), "openai_api_version": "2024-10-21"}
    settings = known(httpserver).model_copy(update=named)
    async with aclosing(ProviderModel("azure", MODELS["azure"], Settings(), settings)) as model:
        completion = await model.complete(planning())
    assert parse(completion.text, PlanningAnswer)
    assert (len(playing.asked), playing.broken) == (1, [])
    ((request, _),) = httpserver.log
    assert (request.path, request.args["api-version"]) == (DEPLOYMENT, "2024-10-21")


@pytest.mark.req("S1")
@pytest.mark.parametrize("provider", EVERY)
async def test_instructions_are_the_system_part_and_data_what_the_user_says(
    provider: Provider, httpserver: HTTPServer
) -> None:
    playing = Playing(httpserver, provider, [saying(provider, "Done.")])
    prompt = message()
    async with aclosing(opened(httpserver, provider)) as model:
        completion = await model.complete(prompt)
    (asked,) = playing.asked
    system, said = _parts(asked)
    assert (system.rstrip(), said) == (prompt.render().instructions.rstrip(), prompt.render().data)
    assert completion.text == "Done."
    assert not asked.get("tools")
    assert not {"response_format", "text", "output_config"} & set(asked)


def _parts(asked: dict[str, Any]) -> tuple[str, str]:
    """System part and user part, however the provider is told them."""
    messages = [(each["role"], _plain(each["content"])) for each in asked.get("messages") or asked["input"]]
    for apart in {"system", "instructions"} & set(asked):
        messages.insert(0, ("system", _plain(asked[apart])))
    assert [role for role, _ in messages[-2:]] == ["system", "user"]
    return "\n".join(said for role, said in messages if role == "system"), messages[-1][1]


def _plain(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


TOLD = [
    *[(provider, output) for provider in EVERY if provider != "mistral" for output in ("native", "tool", "prompted")],
    ("mistral", "tool"),
    ("mistral", "prompted"),
]


@pytest.mark.parametrize(("provider", "output"), TOLD)
async def test_the_form_of_the_answer_is_told_natively_as_a_tool_or_in_words(
    provider: Provider, output: str, httpserver: HTTPServer
) -> None:
    playing = Playing(httpserver, provider, [saying(provider, PLAN if output == "tool" else json.dumps(PLAN))])
    async with aclosing(opened(httpserver, provider, model_output=output)) as model:
        completion = await model.complete(planning())
    assert parse(completion.text, PlanningAnswer)
    (asked,) = playing.asked
    told = {
        "native": json.dumps([asked.get("response_format"), asked.get("output_config"), asked.get("text")]),
        "tool": json.dumps(asked.get("tools")),
        "prompted": _parts(asked)[0],
    }
    assert [name for name, where in told.items() if "additionalProperties" in where] == [output]


async def test_a_form_that_the_model_does_not_know_is_refused(httpserver: HTTPServer) -> None:
    async with aclosing(opened(httpserver, "mistral", model_output="native")) as model:
        with pytest.raises(Refused, match=r"is not supported by this model\.$") as raised:
            await model.complete(planning())
    assert raised.value.code == "model_misconfigured"


@pytest.mark.parametrize("provider", EVERY)
async def test_an_answer_in_words_is_as_good_as_a_call_of_the_tool(provider: Provider, httpserver: HTTPServer) -> None:
    playing = Playing(httpserver, provider, [saying(provider, PLAN), saying(provider, json.dumps(PLAN))])
    async with aclosing(opened(httpserver, provider, model_output="tool")) as model:
        called, said = [await model.complete(planning()) for _ in range(2)]
    assert json.loads(called.text) == json.loads(said.text) == PLAN
    assert [tool_of(asked) for asked in playing.asked] == ["answer_plan"] * 2


async def test_two_calls_of_the_tool_are_two_answers_of_which_none_counts(httpserver: HTTPServer) -> None:
    called = {"type": "function", "function": {"name": "answer_plan", "arguments": json.dumps(PLAN)}}
    said = {"role": "assistant", "content": None, "tool_calls": [{**called, "id": "a"}, {**called, "id": "b"}]}
    choices = [{"index": 0, "message": said, "finish_reason": "tool_calls"}]
    Playing(httpserver, "openai", [saying("openai", PLAN, choices=choices)])
    async with aclosing(opened(httpserver, "openai")) as model:
        assert json.loads((await model.complete(planning())).text) == [PLAN, PLAN]


def test_every_stage_may_have_a_model_of_its_own() -> None:
    assert get_args(PromptStage) == PROMPT_STAGES


def test_only_the_client_of_the_provider_that_is_named_is_imported() -> None:
    program = (
        "import sys\n"
        "from poweron_services.settings.config import ProviderSettings, Settings\n"
        "from poweron_services.models.providers import ProviderModel\n"
        "ProviderModel('openai', 'x', Settings(), ProviderSettings(openai_api_key='key'))\n"
        "print(sorted({'openai', 'anthropic', 'mistralai'} & set(sys.modules)))"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "['openai']\n"


PLACES = [
    "notaurl",
    "localhost:8000/v1",
    "http://",
    "http://[",
    "ftp://localhost/v1",
    "http://local\x01host/v1",
]


@pytest.mark.parametrize("port", ["0", "abc", "99999"])
def test_a_place_with_a_wrong_port_is_refused_for_its_port(port: str) -> None:
    known = ProviderSettings(openai_base_url=f"http://localhost:{port}/v1")
    with pytest.raises(Refused, match="OPENAI_BASE_URL is a URL with a wrong port: set it to one whose port is a"):
        ProviderModel("openai", "x", Settings(), known)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("provider", ["openai", "ollama"])
def test_a_place_that_is_no_url_is_refused_before_anything_is_opened(provider: Provider, place: str) -> None:
    known = ProviderSettings(openai_api_key="key", openai_base_url=place, ollama_base_url=place)
    begins = rf"^{provider.upper()}_BASE_URL is not a URL: set it to one that begins with `http://` or"
    with pytest.raises(Refused, match=begins):
        ProviderModel(provider, "x", Settings(), known)


def test_a_model_whose_key_is_missing_leaves_no_client_open(monkeypatch: pytest.MonkeyPatch) -> None:
    opened_before = clients()
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(Refused, match="set ANTHROPIC_API_KEY") as raised:
        ProviderModel("anthropic", "x", Settings(), ProviderSettings(anthropic_api_key=None))
    assert raised.tb  # which holds everything that was opened on the way
    assert clients() == opened_before


def clients() -> int:
    """How many clients are open."""
    return sum(isinstance(each, httpx2.AsyncClient) and not each.is_closed for each in gc.get_objects())
