"""What the quotas of a day leave for calls: the rows lag behind, and this process knows what it has used since."""

from collections.abc import Collection, Sequence
from typing import Any, Literal

import pytest
from doubles import Clock, Counting, World

from builders import POLICY, At, Told, applied, person, planned, requested
from poweron_events.errors import Unavailable
from poweron_events.fold.day_use import DAY_MS, DayUse, RoundKey, Use, day_start_ms
from poweron_events.fold.state import Used
from poweron_events.policy import ActorQuota, SourceQuota
from poweron_services.decider.rules import Budget, BudgetUsedUp, allowance
from poweron_services.models.chat_model import free
from poweron_services.runtime.daily_use import DailyUse

SOURCE = "/tests"
NOON = DAY_MS // 2  # of the first day, in ms since 1970


class Rows:
    """Rows that say of the day what a test wants them to."""

    def __init__(self, *uses: tuple[str, str, Use], until: int = 10**15) -> None:
        self.uses, self.rounds, self.until = list(uses), dict[RoundKey, Used](), until
        self.away = False
        self.asked: list[tuple[int, Collection[RoundKey]]] = []

    async def day_use(self, since_ms: int, *, rounds: Collection[RoundKey] = ()) -> DayUse:
        if self.away:
            raise Unavailable("Postgres is away")
        self.asked.append((since_ms, list(rounds)))
        uses = self.uses if since_ms < self.until else []
        return DayUse.of(since_ms, uses, {key: used for key, used in self.rounds.items() if key in rounds})


def under(request_id: str = "1", actor: str = "ada", *, calls: int = 0, on_budget: str = "stop", **quotas: Any) -> Told:
    """A round of an actor under a policy with these quotas; its plan used 120 tokens for each call."""
    event = applied(policy=POLICY.model_copy(update=quotas))
    terms = event.policy.terms(1, event.sha256)
    told = Told(request_id).tell(requested(request_id, policy=terms, laws=3, actor=person(actor), on_budget=on_budget))
    return told.tell(planned()) if calls else told


def left(budgets: Sequence[Budget]) -> list[tuple[str, int]]:
    return [(budget.holder, budget.left) for budget in budgets]


async def test_a_round_without_quotas_asks_no_rows() -> None:
    rows = Rows()
    budgets = await DailyUse(rows, lambda: NOON)(under(per_actor=(ActorQuota(starts_per_day=1),)).workflow)
    assert (budgets(()), rows.asked) == ((), [])


async def test_the_quota_of_the_actor_and_that_of_the_source_both_count() -> None:
    told = under(per_actor=(ActorQuota(tokens_per_day=1_000),), per_source=(SourceQuota(tokens_per_day=50),))
    source = told.workflow.current.opening.request.source
    rows = Rows(("Ada", "/elsewhere", Use(used=Used(100, 20, 5))), ("bob", source, Use(used=Used(7, 3, 1))))
    budgets = (await DailyUse(rows, lambda: 5 * DAY_MS + NOON)(told.workflow))(())
    assert left(budgets) == [("ada", 880), (f"the source {source}", 40)]
    assert rows.asked[0][0] == 5 * DAY_MS


async def test_what_the_rows_do_not_show_yet_of_the_rounds_of_this_process_counts() -> None:
    """Given two rounds of an actor whose calls the rows lack, then each counts once, and not again once they do."""
    rows, quota = Rows(), {"per_actor": (ActorQuota(tokens_per_day=1_000),)}
    daily = DailyUse(rows, lambda: NOON)
    first, second = under("1", calls=1, **quota), under("2", calls=1, **quota)
    used = first.workflow.current.totals
    tokens = used.input_tokens + used.output_tokens
    assert tokens > 0
    assert left((await daily(first.workflow))(())) == [("ada", 1_000 - tokens)]
    assert left((await daily(second.workflow))(())) == [("ada", 1_000 - 2 * tokens)]
    shown = Used(used.input_tokens, used.output_tokens)
    rows.rounds = {(told.id, 1): shown for told in (first, second)}
    rows.uses = [("ada", SOURCE, Use(used=shown + shown))]
    daily._read_at -= 60
    assert left((await daily(first.workflow))(())) == [("ada", 1_000 - 2 * tokens)]


async def test_a_round_that_went_on_elsewhere_is_not_counted_twice() -> None:
    """Given rows that this process read before it got the round, then it reads them again."""
    quota = {"per_actor": (ActorQuota(tokens_per_day=1_000),)}
    rows = Rows()
    daily, told = DailyUse(rows, lambda: NOON), under("2", calls=1, **quota)
    await daily(under("1", **quota).workflow)
    used = told.workflow.current.totals
    shown = Used(used.input_tokens, used.output_tokens)
    rows.uses, rows.rounds = [("ada", SOURCE, Use(used=shown))], {(told.id, 1): shown}
    assert left((await daily(told.workflow))(())) == [("ada", 1_000 - shown.tokens)]


async def test_no_call_is_made_beyond_the_quota_and_the_sentence_says_until_when() -> None:
    told = under(per_actor=(ActorQuota(tokens_per_day=1_000),))
    rows = Rows(("ada", "/elsewhere", Use(used=Used(1_000, 20))))
    budgets = (await DailyUse(rows, lambda: NOON)(told.workflow))(())
    with pytest.raises(BudgetUsedUp) as used_up:
        allowance(told.workflow, (), budgets)
    assert used_up.value.code == "daily_limit"
    assert str(used_up.value) == (
        "The daily limit of 1,000 tokens for ada is used up: 1,020 tokens. The next day begins at 1970-01-02 00:00 UTC."
    )


async def ask_with_a_used_up_day(world: World, on_budget: Literal["ask", "stop"]) -> str:
    """Request a round of an actor whose tokens of the day are used up; any action is allowed."""
    limits = {"rules": (), "otherwise": "allow", "per_actor": (ActorQuota(tokens_per_day=1_000),)}
    event = applied(policy=POLICY.model_copy(update=limits))
    terms = event.policy.terms(1, event.sha256)
    return await world.ask(policy=terms, laws=3, actor=person("ada"), on_budget=on_budget, deadline_ms=3 * DAY_MS)


def used_up_day(until: int = 10**15) -> Rows:
    """Rows that show the same use until the day that ends at `until`, and none after it."""
    return Rows(("ada", SOURCE, Use(used=Used(1_000_000, 0))), until=until)


@pytest.mark.req("B-02")
async def test_a_round_that_reaches_a_daily_limit_ends() -> None:
    """Given a quota that is used up, then no model is asked and the round fails."""
    world = World([Counting()])
    async with world.process(day=used_up_day()):
        asked = await ask_with_a_used_up_day(world, "stop")
        assert (await world.ended(asked)).current.ending == "failed"
    failed = next(event for event in world.accepted(asked) if type(event).__name__ == "StageFailed")
    assert failed.code == "daily_limit"


@pytest.mark.req("B-02")
async def test_a_round_that_asks_goes_on_the_next_day() -> None:
    """Given a quota that is used up, then a round that asks for more waits until the day is over."""
    world, today = World([Counting()]), day_start_ms(Clock()())
    rows = used_up_day(until=today + DAY_MS)
    async with world.process(day=rows):
        asked = await ask_with_a_used_up_day(world, "ask")
        question = (await world.until(asked, lambda workflow: workflow.asks_for_budget)).current.question
    assert question is not None
    assert (question.code, day_start_ms(question.due_ms)) == ("daily_limit", today + DAY_MS)
    async with world.process(day=rows, clock=Clock(ahead_ms=DAY_MS)):
        await world.ended(asked)
    assert world.names(asked)[:4] == ["WorkflowRequested", "BudgetRequested", "BudgetGranted", "TasksPlanned"]


async def test_a_quota_of_money_limits_the_answer_of_a_call() -> None:
    told = under(per_actor=(ActorQuota(cost_usd_per_day="0.000001"),))
    rows = Rows(("ada", SOURCE, Use(used=Used(1, 1, 400))))
    left_for_call = allowance(told.workflow, (), (await DailyUse(rows, lambda: NOON)(told.workflow))(()))
    assert left_for_call is not None
    assert left_for_call.limits_money
    assert left_for_call.longest_answer(0, 1_000, lambda _, answer: answer) == 600


async def test_a_round_may_use_what_was_granted_to_it_although_others_have_used_up_the_day() -> None:
    quota = {"per_actor": (ActorQuota(tokens_per_day=1_000),)}
    told = under(on_budget="ask", **quota)
    at = At.head(told.workflow)
    told.tell(at.budget_requested("plan", code="daily_limit"), at.budget_granted(tokens=5_000))
    rows = Rows(("ada", "/elsewhere", Use(used=Used(9_000, 0))))
    budgets = (await DailyUse(rows, lambda: NOON)(told.workflow))(())
    assert left(budgets) == [("ada", 5_000)]
    told.tell(planned())
    used = told.workflow.current.totals
    budgets = (await DailyUse(rows, lambda: NOON)(told.workflow))(())
    assert left(budgets) == [("ada", 5_000 - used.input_tokens - used.output_tokens)]


async def test_a_limit_that_no_day_can_hold_a_call_in_is_like_any_budget() -> None:
    """A round would otherwise ask again every day."""
    told = under(per_actor=(ActorQuota(tokens_per_day=100),))
    left_for_call = allowance(told.workflow, (), (await DailyUse(Rows(), lambda: NOON)(told.workflow))(()))
    assert left_for_call is not None
    with pytest.raises(BudgetUsedUp) as used_up:
        left_for_call.longest_answer(300, 1_000, free)
    assert (used_up.value.code, "The daily limit of 100 tokens for ada leaves" in str(used_up.value)) == (
        "token_budget",
        True,
    )


async def test_a_short_outage_of_postgres_stops_no_call() -> None:
    told = under(per_actor=(ActorQuota(tokens_per_day=1_000),))
    rows = Rows(("ada", SOURCE, Use(used=Used(100, 0))))
    daily = DailyUse(rows, lambda: NOON)
    await daily(told.workflow)
    rows.away = True
    daily._read_at -= 10
    assert left((await daily(told.workflow))(())) == [("ada", 900)]
    daily._read_at -= 60
    with pytest.raises(Unavailable):
        await daily(told.workflow)
