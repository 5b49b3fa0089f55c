"""Those who ask and who answer: new workflows, follow-ups, cancellations, approvals, some of them twice, some too early, some at once with a rival."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from simulation.authority import FEW, MAY_APPLY, PEOPLE, POLICIES, REQUESTERS
from simulation.clock import VirtualLoop
from simulation.faults import Chance
from simulation.full_fold import FullFold
from simulation.postgres import Postgres
from simulation.wire import EVENTS, REQUESTS, SimulatedLog

from builders import requested
from poweron_events.actor import Actor
from poweron_events.codec import encode, encode_request
from poweron_events.envelope import envelop
from poweron_events.fold.state import Workflow, parameters_sha256
from poweron_events.request import (
    POLICY_ID,
    Budgets,
    RequestApproval,
    RequestBudget,
    RequestCancellation,
    RequestIdentity,
    RequestPause,
    RequestPolicy,
    RequestResume,
    RequestRound,
    RequestRules,
    RequestWorkflow,
    workflow_id,
)
from poweron_events.round_events import BudgetRequested
from poweron_events.step_events import ActionStarted, ApprovalGranted, ApprovalRequested, ParametersChanged
from poweron_events.stream import Request
from poweron_projections.workflows import WORKFLOWS

SOURCE = "/simulation"  # of all requests, unless a world is told another one
FORGER = "/poweron/intake/forger"
FLOOD = 50  # records
OTHER_PARAMETERS = "0" * 64
TIME = "2026-11-21T00:00:00.000Z"
PATIENCE = 60  # looks after which a client no longer waits for the end of a round


@dataclass(frozen=True)
class Asked:
    """A request as it was sent."""

    request: Request
    workflow: str
    value: bytes


class Upstream:
    """All clients of one world."""

    def __init__(
        self,
        loop: VirtualLoop,
        log: SimulatedLog,
        chance: Chance,
        full: FullFold,
        postgres: Postgres,
        *,
        marked: Iterable[str],
        source: str,
    ) -> None:
        self._loop, self._log, self._chance, self._full, self._postgres = loop, log, chance, full, postgres
        self._marked = tuple(sorted(marked))
        self.source = source
        self.asked: dict[str, Asked] = {}
        self.left = 0
        self._questions = 0

    def begin(self, workflows: int) -> None:
        chance = self._chance
        for number in range(workflows):
            name, moment = f"w{number}", chance.between(0, 0.8)
            id_ = workflow_id(self.source, f"{name}-new")
            self._ask(moment, f"{name}-new", self._opening(), id_)
            if chance.often(0.2):
                self._forge(chance.between(0, 2 * moment), id_, name)
            if chance.often(0.05):
                self._flood(moment, f"{name}-new")
            if chance.often(0.4):
                self._cancel(moment + chance.one_of([0.001, 0.05, 0.2, 0.8]), name, 1)
            if chance.often(0.3):
                self._pause(moment + chance.one_of([0.02, 0.1, 0.3]), name, id_, 1)
            for after in (1, 2):
                if chance.often(0.5):
                    self._watch(name, after)
        if chance.often(0.1):
            self._cancel(chance.between(0, 1), "nobody", 1)
        if chance.often(0.4):
            self._govern(workflows)

    def _govern(self, workflows: int) -> None:
        """Somebody applies a policy before the first workflows, some another one later, also to open rounds."""
        chance, moment = self._chance, 0.0
        for number in range(chance.one_of([1, 1, 2, 3])):
            policy = POLICIES[chance.one_of([*POLICIES])]
            who = chance.one_of([MAY_APPLY, MAY_APPLY, "mallory"])
            self._ask(moment, f"policy{number}", RequestPolicy(policy=policy, actor=Actor(id=who)), POLICY_ID)
            if policy.per_actor:
                self._burst(moment + chance.between(0.1, 0.5), number)
            moment += chance.between(0.05, 0.6)
            for name in range(workflows) if chance.often(0.5) else ():
                id_ = workflow_id(self.source, f"w{name}-new")
                request = RequestRules(workflow_id=id_, round=1, actor=Actor(id=chance.one_of([MAY_APPLY, "mallory"])))
                self._ask(moment + chance.between(0, 0.1), f"w{name}-rules{number}", request, id_)

    def _burst(self, delay: float, number: int) -> None:
        """Somebody asks for more at once than a quota allows."""
        self._chance.struck["quota burst"] += 1
        opening = self._opening().model_copy(update={"actor": Actor(id=self._chance.one_of(REQUESTERS))})
        for each in range(FEW + 1):
            name = f"burst{number}{each}-new"
            self._ask(delay, name, opening, workflow_id(self.source, name))

    def _forge(self, delay: float, id_: str, name: str) -> None:
        """Somebody who may write events opens a workflow that a request is to open; what it marks is his to say."""
        opening = requested(f"forged-{name}", documents=(), approve=self._marked, **self._limits())
        envelope = envelop(opening, workflow_id=id_, source=FORGER, time=TIME)

        def land() -> None:
            self.left -= 1
            self._chance.struck["opening forged"] += 1
            self._log.write(EVENTS, id_.encode(), encode(envelope))

        self.left += 1
        self._loop.later(delay, land)

    def _flood(self, delay: float, request_id: str) -> None:
        """A request comes again and again."""
        self._chance.struck["request flood"] += 1
        for _ in range(FLOOD):
            self._send(delay, self.asked[request_id].workflow, self.asked[request_id].value)

    def _opening(self) -> RequestWorkflow:
        return RequestWorkflow(prompt="What is the total?", **self._limits())

    def _limits(self) -> dict[str, Any]:
        chance = self._chance
        return {
            "max_steps": chance.one_of([1, 2, 3]),
            "max_retries": chance.one_of([0, 1]),
            "deadline_ms": chance.one_of([1_000, 3_000, 300_000, 300_000, 300_000]),
            "stage_timeout_ms": chance.one_of([1_000, 3_000]),
            "budgets": Budgets(
                task_tokens=chance.one_of([None, None, None, 3_000]),
                round_tokens=chance.one_of([None, None, None, 3_500]),
                workflow_tokens=chance.one_of([None, None, None, 4_000, 8_000]),
            ),
            "on_budget": chance.one_of(["stop", "ask"]),
            "workflow_mode": chance.one_of(["React", "React", "React", "Actionplan"]),
            "actor": Actor(id=chance.one_of(REQUESTERS)),
        }

    def _watch(self, name: str, after: int) -> None:
        """A client that sees a round end, in the log or in Postgres, and asks for the next; some cannot wait."""
        chance, id_ = self._chance, workflow_id(self.source, f"{name}-new")
        rivals, early, in_log = chance.one_of([1, 1, 2]), chance.often(0.2), chance.often(0.5)
        self.left += 1

        def look(looks: int) -> None:
            ended = self._full.now(id_) if in_log else self._in_rows(id_)
            if _has_ended(ended, after) or (early and looks > 5) or looks > PATIENCE:
                self.left -= 1
                if looks <= PATIENCE:
                    self._follow_up(name, id_, after, rivals)
            else:
                self._loop.later(0.1, look, looks + 1)

        self._loop.later(0.1, look, 0)

    def _in_rows(self, id_: str) -> Workflow:
        row = next((row for row in self._postgres.table(WORKFLOWS) if row.workflow_id == id_), None)
        if row is None:
            return Workflow(id_)
        return Workflow(id_, "plan" if row.is_open else "ended", (0,) * row.round)

    def _follow_up(self, name: str, id_: str, after: int, rivals: int) -> None:
        chance = self._chance
        if rivals > 1:
            chance.struck["follow-ups race"] += 1
        for rival in range(rivals):
            request = RequestRound(workflow_id=id_, after_round=after, prompt="And then?", **self._limits())
            self._ask(chance.between(0, 0.02), f"{name}-follow{after}{rival}", request, id_)
        if chance.often(0.3):
            self._cancel(chance.between(0, 0.4), name, after + 1)

    def _cancel(self, delay: float, name: str, round_number: int) -> None:
        self._chance.struck["cancellation races"] += 1
        id_ = workflow_id(self.source, f"{name}-new")
        request = RequestCancellation(workflow_id=id_, round=round_number, reason="No longer needed.")
        self._ask(delay, f"{name}-cancel{round_number}", request, id_)

    def grant(self, id_: str, asked: BudgetRequested) -> None:
        """People who are asked for a larger budget: nobody answers, one does, or two who need not agree."""
        chance = self._chance
        place = {name: getattr(asked, name) for name in ("round", "task", "attempt", "step", "question")}
        for person in range(chance.one_of([0, 1, 1, 1, 2])):
            decision = chance.one_of(["approve", "approve", "deny"])
            tokens = chance.one_of([500, 2_000]) if decision == "approve" else 0
            actor = Actor(id=chance.one_of(["eve", "eve", "ada"]))
            request = RequestBudget(**place, workflow_id=id_, decision=decision, tokens=tokens, actor=actor)
            name = "-".join(map(str, [id_[:8], *place.values(), person]))
            self._ask(chance.one_of([0.01, 0.1, 0.4, 0.7]), f"{name}-budget", request, id_)

    def hesitate(self, id_: str, started: ActionStarted) -> None:
        """Somebody who sees that an action is about to begin may pause the round at that moment."""
        if self._chance.often(0.06):
            place = "-".join(map(str, (started.round, started.task, started.attempt, started.step, started.try_)))
            self._pause(0, f"{id_[:8]}-{place}", id_, started.round)

    def pause_while_model_is_away(self, id_: str, round_number: int) -> None:
        """Somebody who sees that a model is away may pause the round before it is asked again."""
        if self._loop.turns % 3 == 0:  # as good as chance, and takes none from other moments
            self._pause(0, f"{id_[:8]}-away{self._loop.turns}", id_, round_number)

    def _pause(self, delay: float, name: str, id_: str, round_number: int) -> None:
        """Somebody pauses a round, perhaps twice or with a rival, and later resumes it, until it has ended."""
        chance = self._chance
        chance.struck["round paused"] += 1
        for person in range(chance.one_of([1, 1, 2])):
            request = RequestPause(workflow_id=id_, round=round_number, reason="We look at it first.")
            self._ask(delay + chance.between(0, 0.05), f"{name}-pause{person}", request, id_)
        self.left += 1

        def look(looks: int) -> None:
            if self._full.now(id_).is_paused:
                request = RequestResume(workflow_id=id_, round=round_number, reason="It goes on.")
                self._ask(chance.between(0, 0.4), f"{name}-resume{looks}", request, id_)
            if _has_ended(self._full.now(id_), round_number) or looks > PATIENCE:
                self.left -= 1
            else:
                self._loop.later(chance.one_of([0.2, 0.5, 1.5]), look, looks + 1)

        self._loop.later(delay, look, 0)

    def judge(self, id_: str, asked: ApprovalRequested | ParametersChanged) -> None:
        """People who are asked whether an action may run: nobody answers, one does, or several who need not agree."""
        chance, place = self._chance, {name: getattr(asked, name) for name in ("round", "task", "attempt", "step")}
        state = self._full.now(id_)
        digest = parameters_sha256(state)
        self._questions += 1  # new rules may ask about the same parameters again
        by_policy = state.current.policy is not None
        people = chance.one_of([2, 3, 4, 5]) if by_policy else chance.one_of([0, 1, 1, 1, 2])
        for person in range(people):
            changes = isinstance(asked, ApprovalRequested) and chance.often(0.1)
            request = RequestApproval(
                **place,
                workflow_id=id_,
                parameters_sha256=chance.one_of([*[digest] * 5, OTHER_PARAMETERS]),
                decision="approve" if changes else chance.one_of(["approve"] * (5 if by_policy else 2) + ["deny"]),
                actor=Actor(id=chance.one_of(PEOPLE)),
                changed_parameters={"changed": person} if changes else None,
            )
            name = "-".join(map(str, [id_[:8], *place.values(), self._questions, person]))
            self._ask(chance.one_of([0.01, 0.1, 0.4, 0.7, 1.2]), f"{name}-approval", request, id_)
        if chance.often(0.1):
            self._forge_approval(
                id_,
                ApprovalGranted(
                    **place,
                    parameters_sha256=digest,
                    actor=Actor(id="mallory"),
                    request=RequestIdentity(source=FORGER, id=digest[:6]),
                ),
            )

    def _forge_approval(self, id_: str, approval: ApprovalGranted) -> None:
        """Somebody who may write events approves, past intake and under a name of his own."""

        def land() -> None:
            self.left -= 1
            self._chance.struck["approval forged"] += 1
            envelope = envelop(approval, workflow_id=id_, source=FORGER, time=TIME)
            self._log.write(EVENTS, id_.encode(), encode(envelope))

        self.left += 1
        self._loop.later(self._chance.between(0, 0.1), land)

    def _ask(self, delay: float, request_id: str, request: Request, key: str) -> None:
        value = encode_request(request, source=self.source, request_id=request_id, time=TIME)
        self.asked[request_id] = Asked(request, key, value)
        self._send(delay, key, value)
        if self._chance.often(0.35):
            self._chance.struck["request doubled"] += 1
            self._send(delay + self._chance.one_of([0.001, 0.1, 0.8, 2.0]), key, value)

    def _send(self, delay: float, key: str, value: bytes) -> None:
        def arrive() -> None:
            self.left -= 1
            self._log.write(REQUESTS, key.encode(), value)

        self.left += 1
        self._loop.later(delay, arrive)


def _has_ended(workflow: Workflow, round_number: int) -> bool:
    return len(workflow.openings) >= round_number and workflow.phase == "ended"
