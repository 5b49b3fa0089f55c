"""Forks on the real servers of workflows of every kind of ending, at their events and under other terms.

Each fork ends, or names why it stops; no role answers to it in vain.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pytest
from beside import beside
from minds import completion
from museum_site import museum_web
from processes import ONE_STEP
from researcher import QUESTION, Researcher

from poweron_events import RequestWorkflow
from poweron_events.actor import Actor
from poweron_events.client import Heard
from poweron_events.codec import read
from poweron_events.errors import Refused
from poweron_events.fold.evolve import answers_head, evolve
from poweron_events.fold.state import Workflow
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_events.request import Budgets, RequestIdentity
from poweron_events.step_events import ApprovalRequested
from poweron_projections.reader import judged_records
from poweron_services.client.approve import answer, answer_to, waiting_approval
from poweron_services.client.ask import ask, follow_up
from poweron_services.client.cancel import cancel
from poweron_services.client.connect import Connections, connect
from poweron_services.client.follow import Callbacks, Outcome
from poweron_services.client.fork_request import ForkWish, fork, plan_fork
from poweron_services.client.workflow_snapshot import verified_records
from poweron_services.models.chat_model import ChatModel, Completion
from poweron_services.models.prompts import Prompt
from poweron_services.settings.config import Settings
from poweron_services.wiring import ROLES, serve

pytestmark = [pytest.mark.system]

AT_ONCE = 10  # forks
DEADLINE = 90.0  # seconds for one fork
SOMEBODY = Actor(id="Somebody")
GO_ON: Final = {"decision": "continue", "reason": "More.", "classification": "success"}
RETRY: Final = {"status": "retry", "reason": "It is not enough."}
PLANNED: Final[dict[str, Any]] = {
    "actions": [{"action": "ai.process", "actionObjective": "Write it.", "parameters": {"aiPrompt": "Write it."}}]
}
TERMS: Final[Sequence[Mapping[str, Any]]] = (
    {},
    {"max_steps": 1},
    {"max_retries": 0},
    {"max_steps": 4, "max_retries": 2},
    {"budgets": Budgets(round_tokens=3_000)},
    {"prompt": "Who signed it?"},
    {"workflow_mode": "Actionplan"},
)


@dataclass
class Clerk:
    """Says at every stage what `ONE_STEP` says, but for `changes`; an error is raised."""

    changes: Mapping[str, Any] = field(default_factory=dict)

    async def complete(self, prompt: Prompt) -> Completion:
        kind = type(prompt).__name__
        said = PLANNED if kind == "ActionsPrompt" else self.changes.get(kind, ONE_STEP[kind][0])
        if isinstance(said, Exception):
            raise said
        made: Completion = completion(prompt, said)
        return made


@dataclass
class Held:
    """Plans, and then thinks for ever."""

    thinks: asyncio.Event = field(default_factory=asyncio.Event)

    async def complete(self, prompt: Prompt) -> Completion:
        if type(prompt).__name__ != "SelectionPrompt":
            return await Clerk().complete(prompt)
        self.thinks.set()
        await asyncio.Event().wait()
        raise AssertionError


PERSISTENT: Final = Clerk({"RefinementPrompt": GO_ON, "ReviewPrompt": RETRY})


class ChangingModel:
    """The model that the roles have now."""

    def __init__(self) -> None:
        self.current: ChatModel = Clerk()

    async def complete(self, prompt: Prompt) -> Completion:
        return await self.current.complete(prompt)


@pytest.fixture
def model() -> ChangingModel:
    return ChangingModel()


@pytest.fixture
async def service(
    kafka: KafkaSettings, dsn: str, tmp_path: Path, model: ChangingModel, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[Connections, None]:
    """All roles, with the web of the museums; an approval is waited for for five seconds."""
    with museum_web() as museums:
        for name, value in museums.settings.items():
            monkeypatch.setenv(name, value)
        settings = Settings(home=tmp_path / "home", approval_expires="5s")
        async with (
            connect(settings, kafka=kafka, postgres=dsn) as connections,
            beside(serve(connections, ROLES, model)),
        ):
            yield connections


@dataclass(frozen=True)
class Ending:
    """How a workflow is asked for, and how its last round ends."""

    model: ChatModel
    terms: Mapping[str, Any]
    status: str
    code: str | None = None
    prompt: str = "Write it."
    rounds: int = 1


def refusing(kind: str) -> Clerk:
    return Clerk({kind: Refused("the provider will not answer", code="model_refused")})


ENDINGS: Final[Mapping[str, Ending]] = {
    "completed": Ending(Clerk(), {}, "completed"),
    "token budget": Ending(PERSISTENT, {"budgets": Budgets(round_tokens=4_000)}, "failed", "token_budget"),
    "step limit": Ending(PERSISTENT, {"max_steps": 2, "max_retries": 0}, "failed", "retry_limit"),
    "retry limit": Ending(PERSISTENT, {"max_steps": 1, "max_retries": 1}, "failed", "retry_limit"),
    "stage failed": Ending(refusing("SelectionPrompt"), {}, "failed", "model_refused"),
    "action failed": Ending(refusing("ProcessPrompt"), {}, "completed"),
    "answers rejected": Ending(Clerk({"SelectionPrompt": "I think so."}), {}, "failed", "answers_rejected"),
    "denied": Ending(Clerk(), {"approve": ("ai.process",)}, "completed"),
    "cancelled": Ending(Held(), {}, "cancelled"),
    "follow-up": Ending(Clerk(), {}, "completed", rounds=2),
    "research": Ending(Researcher(), {"max_steps": 6}, "completed", prompt=QUESTION),
}


async def asked(service: Connections, model: ChangingModel, ending: Ending) -> str:
    """The id of the workflow, which has ended in its way."""
    model.current, waits = ending.model, asyncio.Event()

    def heard(each: Heard) -> None:
        if isinstance(each.event, ApprovalRequested):
            waits.set()

    requests = asyncio.Queue[str]()
    callbacks = Callbacks(requested=requests.put_nowait, heard=heard)
    request = RequestWorkflow(prompt=ending.prompt, **ending.terms)
    asking = asyncio.create_task(ask(service, request, (), identity=identity(), callbacks=callbacks))
    workflow = await requests.get()
    if isinstance(ending.model, Held):
        await ending.model.thinks.wait()
        reason = "No longer needed."
        await cancel(service, workflow, reason=reason, actor=SOMEBODY, identity=identity(), callbacks=Callbacks())
    if "approve" in ending.terms:
        await waits.wait()
        denial = answer_to(await waiting_approval(service, workflow), "deny", reason="No.", approver=SOMEBODY)
        await answer(service, denial, identity=identity(), callbacks=Callbacks())
    outcome = await asking
    for _ in range(1, ending.rounds):
        further = await follow_up(service, request, workflow)
        outcome = await ask(service, further, (), identity=identity(), callbacks=Callbacks())
    assert (outcome.status, outcome.code) == (ending.status, ending.code)
    return workflow


def identity() -> RequestIdentity:
    return RequestIdentity(source="/tests/forks", id=secrets.token_hex(8))


async def forked(service: Connections, wish: ForkWish, terms: Mapping[str, Any]) -> Outcome:
    """The fork, which has ended or says why it stopped; nothing that answered to it as it stood was superseded."""
    plan = await plan_fork(service, wish)
    *before, last = plan.openings
    plan = replace(plan, openings=[*before, last.model_copy(update=dict(terms))])
    async with asyncio.timeout(DEADLINE):
        outcome = (
            await fork(
                service,
                wish,
                plan,
                actor=service.settings.acting_through("cli"),
                identity=identity(),
                callbacks=Callbacks(),
            )
        ).outcome
    assert outcome.refusal is None, outcome
    assert outcome.status != "failed" or (outcome.code and outcome.message), outcome
    workflow = Workflow(outcome.workflow_id)
    for record in await verified_records(service, workflow.id):
        recorded = read(
            record.value,
            key=workflow.id.encode(),
            partition=record.partition,
            offset=record.offset,
            time_ms=record.time_ms,
        )
        after, verdict = evolve(workflow, recorded)
        assert verdict == "accepted" or not answers_head(workflow, recorded), (workflow.phase, recorded.envelope)
        workflow = after
    return outcome


async def fork_at_events(service: Connections, model: ChangingModel, origin: str, ending: Ending, every: int) -> int:
    """Fork at each `every`-th accepted event, with one model that never has enough and one that has; how many forks."""
    records = await judged_records(service.pool, origin)
    chosen = [each.seq for each in records if each.verdict == "accepted"][1::every]
    ends = Counter[str]()
    content = Clerk() if ending.model is PERSISTENT or isinstance(ending.model, Held) else ending.model
    for number, current in enumerate((PERSISTENT, content)):
        model.current, free = current, asyncio.Semaphore(AT_ONCE)

        async def one(index: int, seq: int, *, number: int = number, free: asyncio.Semaphore = free) -> None:
            wish = ForkWish(origin, seq, live=index % 2 == number)
            async with free:
                outcome = await forked(service, wish, TERMS[(index + 3 * number) % len(TERMS)])
            ends[outcome.code or outcome.status] += 1

        async with asyncio.TaskGroup() as group:
            for index, seq in enumerate(chosen):
                group.create_task(one(index, seq))
    print(f"{ends.total()} forks: {dict(ends)}")  # noqa: T201 - how forks ended
    return ends.total()


@pytest.mark.parametrize("name", ["token budget"])
async def test_forks_of_a_workflow_end_or_name_why_they_stop(
    name: str, service: Connections, model: ChangingModel
) -> None:
    origin = await asked(service, model, ENDINGS[name])
    assert await fork_at_events(service, model, origin, ENDINGS[name], every=3) >= 8


@pytest.mark.soak
@pytest.mark.timeout(1_200)
async def test_forks_of_every_kind_of_ending_at_every_event_end_or_name_why_they_stop(
    service: Connections, model: ChangingModel
) -> None:
    forks = 0
    for name, ending in ENDINGS.items():
        origin = await asked(service, model, ending)
        print(f"{name}: ", end="")  # noqa: T201 - likewise
        forks += await fork_at_events(service, model, origin, ending, every=1)
    assert forks >= 200
