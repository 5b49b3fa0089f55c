"""Budgets of tokens and money are bounds: whatever a provider answers within its limit, no more than that is spent."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import pytest
from doubles import Counting, World
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from providers import MODELS, Playing, answer, as_json, failing, opened, playing_stages, saying, sending
from pydantic_ai.usage import RequestUsage
from pytest_httpserver import HTTPServer
from test_providers import PLAN, planning
from werkzeug import Response

from builders import At, Told, planned, requested
from poweron_events.content import ContentStore
from poweron_events.errors import PowerOnError
from poweron_events.event import ModelCall
from poweron_events.fold.state import Workflow
from poweron_events.request import Budgets
from poweron_events.round_events import RoundFailed
from poweron_events.step_events import ActionResult
from poweron_services.actions.action import Done, Order
from poweron_services.decider.rules import Budget, BudgetUsedUp, allowance
from poweron_services.models import call
from poweron_services.models.call import Called, Caller
from poweron_services.models.chat_model import Completion, free
from poweron_services.models.prices import Price, price_of
from poweron_services.models.prompts import ProcessPrompt, Prompt, Template
from poweron_services.models.providers.http_client import WRAPPING
from poweron_services.models.time_limit import TimeLimit
from poweron_services.roles.action_execution import Execution
from poweron_services.roles.claims import Assignment
from poweron_services.roles.executor import Executor
from poweron_services.settings.config import Provider, ProviderSettings, Settings

pytestmark = pytest.mark.usefixtures("one_ssl_context")

EVERY: list[Provider] = list(get_args(Provider))
LIMITED_BY = ("max_completion_tokens", "max_output_tokens", "max_tokens")
"""How providers are told the limit of an answer."""


def most_of(asked: dict[str, Any]) -> tuple[int, int]:
    """The most tokens that a provider can count for a request, by its bytes, and those that its answer may have."""
    body = json.dumps(asked, ensure_ascii=False, separators=(",", ":")).encode()
    return len(body) + WRAPPING, next(asked[name] for name in LIMITED_BY if name in asked)


def taking(provider: Provider, asked: dict[str, Any], prompt: int, written: int, cached: int = 0) -> Response:
    """An answer that says it took so many tokens."""
    body = answer(provider, PLAN, asked)
    told = {"prompt_tokens": prompt, "input_tokens": prompt, "completion_tokens": written, "output_tokens": written}
    usage = {
        name: told.get(name, prompt + written) if isinstance(count, int) else count
        for name, count in body["usage"].items()
    }
    usage |= {"prompt_tokens_details": {"cached_tokens": cached}} if cached else {}
    return as_json(body | {"usage": usage})


async def called(server: HTTPServer, provider: Provider, budgets: dict[str, int], earlier: str = "") -> Called:
    """A call of a model that takes all that it may, on behalf of a workflow with these budgets."""
    Playing(server, provider, [lambda asked: taking(provider, asked, *most_of(asked))])
    workflow = Told().tell(requested(budgets=budgets)).workflow
    async with aclosing(opened(server, provider, model_price=f"{provider}:{MODELS[provider]}=1,3")) as model:
        return await Caller(model, ContentStore.at("memory:///")).call(workflow, replace(planning(), earlier=earlier))


@pytest.mark.req("B-02")
@pytest.mark.req("S41")
@pytest.mark.parametrize("provider", EVERY)
async def test_an_answer_may_be_no_longer_than_what_is_left_of_the_tokens_for_all_that_is_sent(
    provider: Provider, httpserver: HTTPServer
) -> None:
    call = (await called(httpserver, provider, {"workflow_tokens": 9_000})).call
    assert 8_990 <= call.input_tokens + call.output_tokens <= 9_000


@pytest.mark.req("B-02")
@pytest.mark.req("S41")
@pytest.mark.parametrize("provider", EVERY)
async def test_an_answer_may_be_no_longer_than_what_is_left_of_the_money(
    provider: Provider, httpserver: HTTPServer
) -> None:
    call = (await called(httpserver, provider, {"workflow_cost_nano_usd": 10_000_000})).call
    assert 1_000 < call.output_tokens < 3_000
    assert 9_990_000 < call.cost_nano_usd <= 10_000_000


@pytest.mark.req("S41")
@pytest.mark.parametrize(
    ("budgets", "code", "said"),
    [
        (
            {"workflow_cost_nano_usd": 100_000},
            "cost_budget",
            r"The workflow's budget of \$0\.0001 leaves \$0\.0001, and the next call may take \$0\.00\d+\.",
        ),
        (
            {"task_tokens": 1_000},
            "token_budget",
            r"The task's budget of 1,000 tokens leaves 1,000 tokens, and the next call may take \d,\d\d\d tokens\.",
        ),
    ],
)
async def test_a_call_that_leaves_no_useful_answer_is_not_made(
    budgets: dict[str, int], code: str, said: str, httpserver: HTTPServer
) -> None:
    with pytest.raises(BudgetUsedUp, match=f"^{said}$") as raised:
        await called(httpserver, "openai", budgets)
    assert raised.value.stop.code == code
    assert not httpserver.log


async def test_without_a_budget_nothing_is_lowered(httpserver: HTTPServer) -> None:
    assert (await called(httpserver, "openai", {"workflow_steps": 5})).call.output_tokens == 16_000


@pytest.mark.req("S41")
async def test_a_text_of_few_long_characters_counts_as_its_bytes(httpserver: HTTPServer) -> None:
    with pytest.raises(BudgetUsedUp, match=r"and the next call may take 1\d,\d\d\d tokens\.$"):
        await called(httpserver, "openai", {"workflow_tokens": 15_000}, earlier="\u898b" * 4_000)


# --- the bound --------------------------------------------------------------------------------------------


Kind = Literal["answer", "unreadable", "failure", "too long"]


@dataclass(frozen=True)
class Reply:
    """What a provider does with a request: the tokens that it counts are thousandths of those that it may."""

    prompt: int
    cached: int
    written: int
    kind: Kind = "answer"


@dataclass
class Charging:
    """A provider that charges for each of its answers, also for one that nobody can read and for a failure."""

    replies: list[Reply]
    price: Price
    tokens: int = 0
    nano_usd: int = 0

    def __call__(self, asked: dict[str, Any]) -> Response:
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if reply.kind == "too long":
            return failing("openai", 400, "Too long", code="context_length_exceeded")(asked)
        prompt, longest = most_of(asked)
        took = prompt * reply.prompt // 1_000, longest * reply.written // 1_000
        cached = took[0] * reply.cached // 1_000
        self.tokens += sum(took)
        self.nano_usd += self.price.cost(
            RequestUsage(input_tokens=took[0], cache_read_tokens=cached, output_tokens=took[1])
        )
        if reply.kind == "unreadable":
            return sending(b"<html>")(asked)
        response = taking("openai", asked, *took, cached)
        response.status_code = 500 if reply.kind == "failure" else 200
        return response


SHARE = st.integers(0, 1_000)
KINDS: st.SearchStrategy[Kind] = st.sampled_from(get_args(Kind))
REPLIES = st.lists(st.builds(Reply, SHARE, SHARE, SHARE, KINDS), max_size=8)
SCOPES = ("task", "round", "workflow")
LIMITS = st.dictionaries(
    st.sampled_from([f"{scope}_{unit}" for scope in SCOPES for unit in ("tokens", "cost_nano_usd")]),
    st.integers(0, 100_000),
    min_size=1,
).map(lambda limits: {name: limit * (1 if name.endswith("tokens") else 1_000) for name, limit in limits.items()})
PRICES = st.sampled_from(["", *(f"openai:gpt-4o-mini={price}" for price in ("0,0", "2.5,10", "0.000001,75"))])
ALL = Reply(1_000, 0, 1_000)


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "FIRST_PAUSE", 0.0001)
    monkeypatch.setattr(call, "LONGEST_PAUSE", 0.0001)


@pytest.mark.req("B-02")
@pytest.mark.req("S41")
@pytest.mark.usefixtures("short_pauses", "logged")
@settings(max_examples=30, suppress_health_check=[*HealthCheck])
@given(limits=LIMITS, price=PRICES, replies=REPLIES)
@example(limits={"workflow_tokens": 20_000}, price="", replies=[])
@example(limits={"task_cost_nano_usd": 30_000_000}, price="openai:gpt-4o-mini=2.5,10", replies=[])
@example(limits={"round_tokens": 50_000}, price="", replies=[replace(ALL, kind="unreadable")] * 2)
@example(limits={"round_tokens": 50_000}, price="", replies=[replace(ALL, kind="failure")] * 2)
@example(
    limits={"workflow_tokens": 25_000},
    price="",
    replies=[replace(ALL, kind="failure", written=500), replace(ALL, kind="too long")],
)
async def test_no_course_of_calls_takes_more_than_the_budgets_leave(
    limits: dict[str, int], price: str, replies: list[Reply], httpserver: HTTPServer
) -> None:
    httpserver.clear()
    told = price_of("openai", "gpt-4o-mini", Settings(model_price=price), ProviderSettings())
    assert told is not None
    provider = Charging([*replies, ALL], told)
    Playing(httpserver, "openai", [provider])
    workflow = Told().tell(requested(budgets=limits), planned()).workflow
    calls: list[ModelCall] = []
    async with aclosing(opened(httpserver, "openai", model_price=price)) as model:
        caller = Caller(model, ContentStore.at("memory:///"))
        async with TimeLimit(60):
            for number in range(1, 5):
                prompt = replace(planning(), earlier="x" * 500 * number)
                with suppress(PowerOnError):
                    calls.append((await caller.call(workflow, prompt, calls)).call)
    took = {"token_budget": provider.tokens, "cost_budget": provider.nano_usd}
    assert all(took[budget.code] <= max(0, budget.left) for budget in budgets(workflow))


@pytest.mark.req("S41")
async def test_an_answer_that_nobody_could_read_may_have_been_paid_for_and_is_taken_from_what_is_left(
    httpserver: HTTPServer,
) -> None:
    price = price_of("openai", "gpt-4o-mini", Settings(), ProviderSettings())
    assert price is not None
    provider = Charging([replace(ALL, kind="unreadable"), ALL], price)
    playing = Playing(httpserver, "openai", [provider])
    workflow = Told().tell(requested(budgets={"workflow_tokens": 30_000})).workflow
    async with aclosing(opened(httpserver, "openai")) as model, TimeLimit(60):
        await Caller(model, ContentStore.at("memory:///")).call(workflow, planning())
    assert playing.asked[0]["max_completion_tokens"] == 16_000
    assert 29_980 <= provider.tokens <= 30_000


@pytest.mark.req("S41")
async def test_a_try_that_was_refused_costs_nothing(httpserver: HTTPServer) -> None:
    playing = Playing(httpserver, "openai", [failing("openai", 500, "Out of order"), saying("openai", PLAN)])
    workflow = Told().tell(requested(budgets={"workflow_tokens": 30_000})).workflow
    async with aclosing(opened(httpserver, "openai")) as model:
        await Caller(model, ContentStore.at("memory:///")).call(workflow, planning())
    assert [asked["max_completion_tokens"] for asked in playing.asked] == [16_000, 16_000]


def budgets(workflow: Workflow, calls: Sequence[ModelCall] = ()) -> Sequence[Budget]:
    left = allowance(workflow, calls)
    return left.budgets if left else ()


@pytest.mark.req("S41")
@given(
    model=st.sampled_from(["gpt-4o", "gpt-5.6-sol", "claude-opus-5", "claude-sonnet-4-5", "mistral-large-2411"]),
    most=st.tuples(st.integers(0, 1_000_000), st.integers(0, 100_000)),
    counted=st.tuples(SHARE, SHARE, SHARE, SHARE),
    tier=st.sampled_from([None, "default", "flex", "priority", "fast"]),
)
def test_no_way_of_counting_tokens_costs_more_than_the_most(
    model: str, most: tuple[int, int], counted: tuple[int, int, int, int], tier: str | None
) -> None:
    provider: Provider = "anthropic" if "claude" in model else "mistral" if "mistral" in model else "openai"
    price = price_of(provider, model, Settings(), ProviderSettings())
    assert price is not None
    prompt, written = (tokens * share // 1_000 for tokens, share in zip(most, counted[:2], strict=True))
    read = prompt * counted[2] // 1_000
    usage = RequestUsage(
        input_tokens=prompt,
        output_tokens=written,
        cache_read_tokens=read,
        cache_write_tokens=(prompt - read) * counted[3] // 1_000,
    )
    assert price.cost(usage, {"service_tier": tier} if tier else None) <= price.most(*most)


# --- a whole round ----------------------------------------------------------------------------------------


@pytest.mark.req("B-02")
@pytest.mark.req("S41")
@pytest.mark.parametrize(
    ("limits", "code"),
    [({"workflow_tokens": 20_000}, "token_budget"), ({"workflow_cost_nano_usd": 14_000_000}, "cost_budget")],
)
async def test_a_round_with_a_provider_that_takes_all_it_may_ends_within_its_budget(
    limits: dict[str, int], code: str, httpserver: HTTPServer
) -> None:
    selected = {"action": "test.pure", "actionObjective": "Do it"}
    stages = playing_stages("It is named", "Done.", answer_select=selected)

    def greedy(asked: dict[str, Any]) -> Response:
        prompt, longest = most_of(asked)
        usage = {"prompt_tokens": prompt, "completion_tokens": longest, "total_tokens": prompt + longest}
        return as_json(json.loads(stages(asked).get_data()) | {"usage": usage})

    Playing(httpserver, "openai", [greedy])
    async with aclosing(
        opened(
            httpserver, "openai", model_max_tokens=8_000, model_price="openai:gpt-4o-mini=0.5,1", model_output="tool"
        )
    ) as model:
        world = World([Counting("test.pure")], model=model)
        async with world.process():
            workflow = await world.ended(await world.ask(budgets=Budgets(**limits)))
    (budget,) = budgets(workflow)
    assert 0 < budget.used <= (budget.limit or 0)
    ending = world.accepted(workflow.id)[-1]
    assert (type(ending), ending.code) == (RoundFailed, code)


# --- calls at the same time -------------------------------------------------------------------------------


@dataclass
class Counted:
    """A model that takes 1,000 tokens of prompt and as many for its answer as it may, once it was given the time."""

    took: list[int] = field(default_factory=list)

    async def complete(self, prompt: Prompt) -> Completion:
        assert prompt.allowance is not None
        longest = prompt.allowance.longest_answer(1_000, 2_000, free)
        await asyncio.sleep(0)
        self.took.append(1_000 + longest)
        return Completion("Done.", "test", "counted", 1_000, longest)


class AskingAtOnce(Counting):
    """An action that asks the model three things at once, and does with as many answers as it gets."""

    async def __call__(self, order: Order) -> Done:
        asked = [order.ask(process()) for _ in range(3)]
        got = [each for each in await asyncio.gather(*asked, return_exceptions=True) if isinstance(each, Called)]
        return Done(ActionResult(success=True), (f"{len(got)} answers",))


def process() -> ProcessPrompt:
    return ProcessPrompt(
        template=Template("short", "Read.\n=== data ===\n{{ ai_prompt }}\n"),
        ai_prompt="What is the total?",
        custom_instructions="",
        language=None,
        output_format="markdown",
        documents=(),
    )


@pytest.mark.req("B-02")
@pytest.mark.req("S41")
async def test_calls_at_the_same_time_share_what_is_left() -> None:
    content, model = ContentStore.at("memory:///"), Counted()
    caller = Caller(model, content)
    execution = Execution(
        actions={"test.pure": AskingAtOnce()}, caller=caller, content=content, observes=False, now_ms=lambda: 0
    )
    executor = Executor(execution, worker="w1", concurrency=1)
    told = Told().tell(
        requested(budgets={"workflow_tokens": 5_600}),
        planned(),
        At().selected(action="test.pure"),
        At().parameters(parameters={}),
    )
    for _ in ("claimed", "run"):
        events: Any = await executor(told.workflow, Assignment(0, lambda: True, _unchanged, _at_once))
        told.tell(*events)
    assert events[0].notes == ("2 answers",)
    assert len(model.took) == 2
    (last,) = budgets(told.workflow)
    assert (last.used, last.limit) == (5_600, 5_600)


async def _at_once(*_: object) -> bool:
    return True


async def _unchanged(workflow: Workflow) -> Workflow:
    return workflow
