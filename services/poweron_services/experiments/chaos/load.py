"""The load: scenarios requested at a steady rate, some of them twice, again later, out of order, paused or cancelled.

From time to time another policy is applied: by every second one, sending takes the approval of two operators, and by
two of three, a source may have few open workflows.

A scenario's requests depend only on the seed and its number. A request counts as sent as soon as its first append
begins; an append whose outcome is unknown is repeated until one is confirmed.
"""

import asyncio
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final

import structlog

from poweron_events import topics
from poweron_events.actor import Actor
from poweron_events.codec import encode, encode_request
from poweron_events.envelope import envelop, rfc3339
from poweron_events.fold.questions import approval_terms
from poweron_events.fold.state import Workflow, parameters_sha256, step_place
from poweron_events.log import EventLog, Message
from poweron_events.policy import ActorQuota, Group, Policy, Rule, SourceQuota
from poweron_events.request import (
    POLICY_ID,
    RequestApproval,
    RequestCancellation,
    RequestIdentity,
    RequestPause,
    RequestPolicy,
    RequestResume,
    RequestRound,
    RequestWorkflow,
    WorkflowRequested,
    workflow_id,
)
from poweron_events.retry import Failure, retry
from poweron_events.stream import Request
from poweron_services.experiments.sandbox.servers import stopped

log = structlog.get_logger()

RATE: Final = 3.0  # scenarios per second
MAX_OPEN_SCENARIOS: Final = 60  # workflows; above this, no new scenario is requested
MAX_SCENARIO_STEPS: Final = 4
FORGER: Final = "/poweron/intake/forger"
FLOOD: Final = 2_000  # records of one request

TWICE_SHARE, LATE_SHARE, AGAIN_SHARE = 0.15, 0.1, 0.1  # of all scenarios
FOLLOW_UP_SHARE, CANCELLED_SHARE, PAUSED_SHARE = 0.15, 0.1, 0.1  # of all scenarios


OPERATORS: Final = ("ann", "ben", "cleo")
"""Those who apply policies and approve actions."""
POLICY_PERIOD: Final = 40  # scenarios from one policy to the next
OPEN_WORKFLOWS: Final = 20  # of each source, by two policies of three
SENT_BY_TWO: Final = Rule(actions=("scenario.send",), decision="approve", approvers=2, from_=("operators",))


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """A request and the times to send a copy of it, in seconds after its scenario is due."""

    request_id: str
    workflow_id: str
    request: Request
    times: tuple[float, ...]


def source(seed: int) -> str:
    """Return the source of the requests."""
    return f"/poweron/chaos/{seed}"


def forged_opening(planned: PlannedRequest) -> Message:
    """Return an event that opens the workflow of a request in the name of another request, which was never sent."""
    assert isinstance(planned.request, RequestWorkflow)
    opening = WorkflowRequested(
        round=1,
        prompt=planned.request.prompt,
        max_steps=planned.request.max_steps,
        request=RequestIdentity(source=FORGER, id=forged_id(planned.request_id)),
    )
    time = rfc3339(datetime.now(UTC))
    envelope = envelop(opening, workflow_id=planned.workflow_id, source=FORGER, time=time)
    return Message(planned.workflow_id.encode(), encode(envelope))


def forged_id(request_id: str) -> str:
    """Return the id of the fictitious request in whose name this request's workflow was opened."""
    return f"forged-{request_id}"


def plan_requests(seed: int, number: int) -> tuple[PlannedRequest, ...]:
    """Return the requests of one scenario."""
    rng = random.Random(f"scenario {seed} {number}")
    request_id = f"scenario-{number}"
    workflow = workflow_id(source(seed), request_id)
    opening = RequestWorkflow(prompt=f"Run scenario {number}.", max_steps=rng.randint(1, MAX_SCENARIO_STEPS))
    first = rng.uniform(0.5, 3) if rng.random() < LATE_SHARE else 0
    planned = [PlannedRequest(request_id, workflow, opening, _times(rng, first))]
    if rng.random() < FOLLOW_UP_SHARE:
        follow_up = RequestRound(
            workflow_id=workflow,
            after_round=1,
            prompt=f"Follow up on {number}.",
            max_steps=rng.randint(1, MAX_SCENARIO_STEPS),
        )
        planned.append(PlannedRequest(f"follow-up-{number}", workflow, follow_up, _times(rng, rng.uniform(2, 8))))
    if rng.random() < CANCELLED_SHARE:
        planned.append(cancellation(f"cancel-{number}", workflow, 1, _times(rng, rng.uniform(0, 2))))
    if rng.random() < PAUSED_SHARE:
        pause = RequestPause(workflow_id=workflow, round=1, reason="An operator checks it first.")
        planned.append(PlannedRequest(f"pause-{number}", workflow, pause, _times(rng, rng.uniform(0, 2))))
    if number % POLICY_PERIOD == 0:
        planned.append(policy_change(number // POLICY_PERIOD))
    return tuple(planned)


def policy_change(number: int) -> PlannedRequest:
    """Return a request that applies the next policy."""
    policy = Policy(
        name=f"policy {number}",
        apply=("operators",),
        groups={"operators": Group(members=OPERATORS)},
        rules=(SENT_BY_TWO,) if number % 2 else (),
        otherwise="allow",
        per_actor=(ActorQuota(tokens_per_day=10**9),) if number % 3 == 1 else (),
        per_source=(SourceQuota(open_workflows=OPEN_WORKFLOWS),) if number % 3 else (),
    )
    request = RequestPolicy(policy=policy, actor=Actor(id=OPERATORS[0]))
    return PlannedRequest(f"policy-{number}", POLICY_ID, request, (0, 0.5))


def approval(request_id: str, workflow: Workflow) -> PlannedRequest | None:
    """Return a request by which the next operator approves the action that waits; None if none may."""
    terms, people = approval_terms(workflow), (Actor(id=name) for name in OPERATORS)
    actor = next((each for each in people if terms.objection(each, "approve") is None), None)
    if actor is None:
        return None
    request = RequestApproval(
        **step_place(workflow),
        workflow_id=workflow.id,
        parameters_sha256=parameters_sha256(workflow),
        decision="approve",
        actor=actor,
    )
    return PlannedRequest(request_id, workflow.id, request, ())


def cancellation(request_id: str, workflow: str, round_: int, times: tuple[float, ...] = ()) -> PlannedRequest:
    """Return a request that cancels a round."""
    request = RequestCancellation(workflow_id=workflow, round=round_, reason="It is not needed any more.")
    return PlannedRequest(request_id, workflow, request, times)


def resumption(request_id: str, workflow: str, round_: int) -> PlannedRequest:
    """Return a request that resumes a round."""
    return PlannedRequest(request_id, workflow, RequestResume(workflow_id=workflow, round=round_), ())


def _times(rng: random.Random, first: float) -> tuple[float, ...]:
    twice = (first,) if rng.random() < TWICE_SHARE else ()
    again = (first + rng.uniform(2, 15),) if rng.random() < AGAIN_SHARE else ()
    return (first, *twice, *again)


class LoadGenerator:
    """Sends requests until `stopping` is set; `sent` holds those that may be in the log."""

    def __init__(self, log: EventLog, seed: int, stopping: asyncio.Event) -> None:
        self._log = log
        self._seed = seed
        self._stopping = stopping
        self.sent: dict[str, PlannedRequest] = {}
        self.records = 0
        self._number = 0

    async def run(self, running: Callable[[], int]) -> None:
        """Send requests until `stopping` is set, then wait until every append already begun is confirmed."""
        async with asyncio.TaskGroup() as group:
            while not await stopped(self._stopping, 1 / RATE):
                if running() < MAX_OPEN_SCENARIOS:
                    for planned in self._next():
                        for after in planned.times:
                            group.create_task(self._send_later(planned, after))

    def next_opening(self) -> PlannedRequest:
        """Return the opening request of a new scenario, which the caller must send."""
        return self._next()[0]

    async def flood(self) -> None:
        """Send the newest request many more times."""
        planned = next(reversed(self.sent.values()), None)
        if planned is not None:
            await self.send(planned, FLOOD)

    async def send_to_each_partition(self) -> None:
        """Request one new scenario in each partition."""
        await asyncio.gather(*map(self.send, self._next_in_each_partition()))

    def _next_in_each_partition(self) -> Collection[PlannedRequest]:
        """Return one opening request per partition, skipping scenarios whose partition already has one."""
        chosen: dict[int, PlannedRequest] = {}
        while len(chosen) < topics.PARTITIONS:
            opening = self.next_opening()
            chosen.setdefault(topics.partition_of(opening.workflow_id.encode(), topics.PARTITIONS), opening)
        return chosen.values()

    def _next(self) -> tuple[PlannedRequest, ...]:
        self._number += 1
        return plan_requests(self._seed, self._number)

    async def _send_later(self, planned: PlannedRequest, after: float) -> None:
        if not await stopped(self._stopping, after):
            await self.send(planned)

    async def send(self, planned: PlannedRequest, copies: int = 1) -> None:
        """Append this many copies of a request and retry until they are confirmed."""
        self.sent[planned.request_id] = planned
        time = rfc3339(datetime.now(UTC))
        value = encode_request(planned.request, source=source(self._seed), request_id=planned.request_id, time=time)
        message = Message(planned.workflow_id.encode(), value)
        await retry(partial(self._log.append, topics.REQUESTS.name, copies * [message]), failed=_appends_again)
        self.records += copies


def _appends_again(failure: Failure) -> None:
    log.warning("append_retried", error=str(failure.error))
