"""What a model costs, and that no budget of money is taken where nobody says it."""

from contextlib import aclosing
from decimal import Decimal
from typing import Any

import pytest
from doubles import script
from intake_world import Rows, committed, events, request, running
from providers import MODELS, Playing, opened, saying
from pydantic import ValidationError
from pydantic_ai.usage import RequestUsage
from pytest_httpserver import HTTPServer
from test_providers import PLAN, planning

from builders import Told, requested
from poweron_events.catalog import CATALOG
from poweron_events.codes import CODES
from poweron_events.content import ContentStore
from poweron_events.errors import Refused
from poweron_events.log.memory import MemoryLog
from poweron_events.request import Budgets, RequestRefused, WorkflowRequested
from poweron_services import wiring
from poweron_services.cli.advice import advice_for
from poweron_services.models.call import Caller
from poweron_services.models.prices import price_of
from poweron_services.models.scripted import ScriptedModel
from poweron_services.roles.planner import Planner
from poweron_services.settings.config import Provider, ProviderSettings, Settings

MILLION = 1_000_000
UNKNOWN = "A budget of money cannot hold: no price list has the price of openai:secret-model."


@pytest.mark.req("B-01")
@pytest.mark.parametrize(
    ("given", "prices"),
    [
        ("", {}),
        ("openai:gpt-x=2.5,10", {"openai:gpt-x": (Decimal("2.5"), Decimal(10))}),
        (
            "openai:gpt-x=2.5,10, ollama:llama3.2:1b=0,0",
            {"openai:gpt-x": (Decimal("2.5"), Decimal(10)), "ollama:llama3.2:1b": (Decimal(0), Decimal(0))},
        ),
    ],
)
def test_prices_are_set_by_model_in_dollars_for_a_million_tokens(given: str, prices: Any) -> None:
    assert Settings(model_price=given).prices == prices


@pytest.mark.parametrize("wrong", ["gpt-x", "openai:x=1", "openai:x=1,2,3", "openai:x=-1,2", "openai:x=1;2", "=1,2"])
def test_what_is_no_price_is_refused_with_a_sentence(wrong: str) -> None:
    with pytest.raises(ValidationError, match=r"is no price; write `openai:MODEL=2\.5,10`, in dollars for a million"):
        Settings(model_price=wrong)


def test_a_price_of_no_model_of_a_provider_is_refused_with_a_sentence() -> None:
    with pytest.raises(ValidationError, match="'gpt-x' is no model of a provider; name it as in POWERON_MODEL"):
        Settings(model_price="gpt-x=1,2")


@pytest.mark.req("B-01")
@pytest.mark.parametrize(
    ("provider", "name", "setting", "expected"),
    [
        ("openai", "gpt-4o-mini", "", 150_000_000 + 600_000_000),
        ("openai", "gpt-4o-mini", "openai:gpt-4o-mini=1,2", 3_000_000_000),
        ("ollama", "llama3.2", "ollama:llama3.2=0,0", 0),
        ("ollama", "llama3.2", "", None),
        ("openai", "secret-model", "", None),
        ("mistral", "mistral-small-24b-instruct-2501:free", "", None),
    ],
)
def test_the_price_that_is_set_goes_before_the_list(
    provider: Provider, name: str, setting: str, expected: int | None
) -> None:
    price = price_of(provider, name, Settings(model_price=setting), ProviderSettings())
    used = RequestUsage(input_tokens=MILLION, output_tokens=MILLION)
    assert (price and price.cost(used)) == expected


@pytest.mark.req("B-01")
async def test_a_call_costs_what_the_settings_say(httpserver: HTTPServer) -> None:
    Playing(httpserver, "ollama", [saying("ollama", PLAN)])
    async with aclosing(opened(httpserver, "ollama", model_price=f"ollama:{MODELS['ollama']}=1,3")) as model:
        assert (await model.complete(planning())).cost_nano_usd == 1_000 * 1_000 + 20 * 3_000


# --- models without a price -------------------------------------------------------------------------------


@pytest.mark.req("B-02")
@pytest.mark.req("S41")
@pytest.mark.parametrize(
    ("settings", "unpriced"),
    [
        ({}, ()),
        ({"model": "scripted:a.json"}, ()),
        ({"model": "openai:gpt-4o"}, ()),
        ({"model": "openai:secret-model"}, ("openai:secret-model",)),
        ({"model": "openai:gpt-4o", "model_message": "ollama:llama3.2"}, ("ollama:llama3.2",)),
        ({"model": "ollama:llama3.2", "model_price": "ollama:llama3.2=0,0"}, ()),
        ({"model": "openai:secret-model", "unpriced_models": "allow"}, ()),
    ],
)
def test_every_model_in_use_has_to_have_a_price(settings: Any, unpriced: tuple[str, ...]) -> None:
    assert wiring.unpriced_models(Settings(**settings)) == unpriced


@pytest.mark.req("B-02")
@pytest.mark.req("S41")
@pytest.mark.parametrize("budgets", [{"workflow_cost_nano_usd": 1_000}, {"task_cost_nano_usd": 0}])
async def test_a_request_with_a_budget_of_money_is_refused_where_a_model_has_no_price(
    budgets: Any, log: MemoryLog
) -> None:
    await request(log, "1", budgets=Budgets(**budgets))
    async with running(log, Rows(log), unpriced=("openai:secret-model",)):
        await committed(log, 1)
    (refused,) = await events(log)
    assert (type(refused), refused.reason, refused.code) == (RequestRefused, "invalid", "price_unknown")
    assert refused.detail == UNKNOWN


async def test_other_requests_need_no_price(log: MemoryLog) -> None:
    await request(log, "1", budgets=Budgets(workflow_tokens=1_000))
    async with running(log, Rows(log), unpriced=("openai:secret-model",)):
        await committed(log, 1)
    assert [type(event) for event in await events(log)] == [WorkflowRequested]


@pytest.mark.req("B-02")
@pytest.mark.req("S41")
async def test_where_intake_does_not_know_the_models_no_stage_asks_one() -> None:
    """Roles of one workflow may run in processes with settings of their own."""
    model, content = ScriptedModel(script()), ContentStore.at("memory:///")
    planner = Planner(Caller(model, content, ("openai:secret-model",)), content, CATALOG)
    with pytest.raises(Refused, match=UNKNOWN) as raised:
        await planner(Told().tell(requested(budgets={"workflow_cost_nano_usd": 1_000})).workflow)
    assert raised.value.code == "price_unknown"
    assert not model.asked
    await planner(Told().tell(requested(budgets={"workflow_tokens": 1_000})).workflow)
    assert len(model.asked) == 1


def test_whoever_meets_an_unknown_price_is_told_what_to_set() -> None:
    assert (
        CODES["price_unknown"].remedy
        == "Set its price, or ask without that budget; a workflow's budget applies to all its rounds."
    )
    assert advice_for("price_unknown").startswith("Set POWERON_MODEL_PRICE=MODEL=PROMPT,ANSWER (dollars for a million")
