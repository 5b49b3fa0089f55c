"""Fork a workflow: request its rounds again, up to one of its events, and return the outcome.

The events must be those of a release that this one can judge.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import JsonValue

from poweron_events.actor import Actor
from poweron_events.client import Heard
from poweron_events.codec import dumps
from poweron_events.envelope import Envelope
from poweron_events.errors import Refused
from poweron_events.event import CATALOGUE
from poweron_events.fold.costs import model_calls
from poweron_events.fold.evolve import WITHOUT_TURN
from poweron_events.fold.state import Opening, gives_up
from poweron_events.request import (
    LAWS,
    ForkedFrom,
    RequestIdentity,
    RequestRound,
    RequestWorkflow,
    RoundRequested,
    Terms,
    WorkflowRequested,
    own_budgets,
    workflow_id,
)
from poweron_events.round_events import TasksPlanned
from poweron_events.step_events import ActionCompleted, ParametersRejected, ParametersSet
from poweron_projections.reader import JudgedRecord, judged_records
from poweron_services.client.ask import OpeningRequest, ask
from poweron_services.client.client_errors import NewerRelease, NothingToEdit, UnknownSeq
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Callbacks, Outcome
from poweron_services.client.verbs import copied
from poweron_services.client.workflow_snapshot import read_snapshot, verified_records


def expect_known(workflow_id: str, seq: int, envelope: Envelope) -> None:
    """Refuse an event that only a newer release can judge.

    Raises:
        NewerRelease: the event has a type, or opens a round under rules, that this release does not know.
    """
    event = envelope.event
    if event is None and envelope.catalogue > CATALOGUE:
        problem = f"is {envelope.type!r}, a type of catalogue {envelope.catalogue}"
        raise NewerRelease(workflow_id, seq, what=problem, knows=f"catalogue {CATALOGUE}")
    if isinstance(event, WorkflowRequested | RoundRequested) and event.laws > LAWS:
        problem = f"opens a round by the rules number {event.laws}"
        raise NewerRelease(workflow_id, seq, what=problem, knows=f"the rules number {LAWS}")


@dataclass(frozen=True, slots=True)
class ForkWish:
    """What to fork, at which of its events, and what to change from there."""

    workflow: str
    seq: int
    prompt: str | None = None
    max_steps: int | None = None
    live: bool = False
    answer: str | None = None
    """What to answer to the next decision instead of a model."""
    parameters: Mapping[str, JsonValue] | None = None
    """The parameters to set instead of those that a model would; the next decision must set them."""
    model: str | None = None
    """The model that decides from there on; None for the configured ones."""


@dataclass(frozen=True, slots=True)
class ForkPlan:
    """A fork as it will be requested."""

    forked_from: ForkedFrom
    openings: Sequence[Opening]
    """The openings of the rounds, up to the round of the event."""
    nothing_left: bool
    """Whether the workflow had ended with the event, so that there is nothing left to decide."""


@dataclass(slots=True)
class Reuse:
    """What a fork reused, counted as its events arrive."""

    calls: int = 0
    actions: int = 0

    def heard(self, record: Heard) -> None:
        if record.event is None or record.verdict != "accepted":
            return
        self.calls += sum(call.is_taken_over for call in model_calls(record.event))
        if isinstance(record.event, ActionCompleted) and not gives_up(record.event):
            self.actions += record.event.reused_from is not None


@dataclass(frozen=True, slots=True)
class Forked:
    """The outcome of a fork."""

    outcome: Outcome
    plan: ForkPlan
    reuse: Reuse = field(default_factory=Reuse)


async def plan_fork(connections: Connections, wish: ForkWish) -> ForkPlan:
    """Plan the fork, from the current state of the workflow.

    Raises:
        NotAWorkflowId, UnknownWorkflow: there is no such workflow.
        NewerRelease: a newer release wrote it.
        UnknownSeq: it has no accepted event with that number.
        NothingToEdit: an answer or parameters are given for a decision that no model made.
        Refused: another request is given, although the tasks are planned for the first one.
        RowsDiffer, RowsMissing: its rows differ from the log.
        Unavailable: a server cannot be reached.
    """
    snapshot = await read_snapshot(connections, wish.workflow)
    await verified_records(connections, wish.workflow)
    records = await judged_records(connections.pool, wish.workflow)
    _check_release(wish.workflow, records)
    accepted = {record.seq: record for record in records if record.verdict == "accepted"}
    if wish.seq not in accepted:
        raise _unknown_seq(wish, records, list(accepted))
    _check_edit(wish, list(accepted.values()))
    opening_records = [
        record for record in records if record.verdict == "accepted" and isinstance(record.envelope.event, Opening)
    ]
    openings = [record.envelope.event for record in opening_records if record.seq <= wish.seq]
    if not openings:
        raise _unknown_seq(wish, records, [seq for seq in accepted if seq >= opening_records[0].seq])
    opened_at = opening_records[len(openings) - 1].seq
    _check_prompt(wish, [record for record in accepted.values() if opened_at <= record.seq <= wish.seq])
    return ForkPlan(
        ForkedFrom(
            workflow=wish.workflow, seq=wish.seq, head=accepted[wish.seq].sha256, live=wish.live, model=wish.model
        ),
        [opening for opening in openings if isinstance(opening, WorkflowRequested | RoundRequested)],
        nothing_left=wish.seq == max(accepted) and not snapshot.stub.is_open,
    )


async def fork(
    connections: Connections,
    wish: ForkWish,
    plan: ForkPlan,
    *,
    actor: Actor,
    identity: RequestIdentity,
    callbacks: Callbacks,
) -> Forked:
    """Request each round of the plan in turn, and follow it to its end; raises like `ask`."""
    fork_id, reuse = workflow_id(identity.source, identity.id), Reuse()

    def report(record: Heard) -> None:
        reuse.heard(record)
        callbacks.heard(record)

    for opening in plan.openings:
        request = await _request(connections, fork_id, wish, opening, plan, actor=actor)
        first = opening.round == 1
        telling = replace(callbacks, heard=report, requested=callbacks.requested if first else lambda _: None)
        request_identity = (
            identity if first else RequestIdentity(source=identity.source, id=f"{identity.id}.{opening.round}")
        )
        outcome = await ask(connections, request, (), identity=request_identity, callbacks=telling)
        if outcome.refusal is not None:
            break
    return Forked(outcome, plan, reuse)


async def _request(
    connections: Connections, fork_id: str, wish: ForkWish, opening: Opening, plan: ForkPlan, *, actor: Actor
) -> OpeningRequest:
    """Return the request that opened the round; the last one has the changes of the wish."""
    terms: dict[str, Any] = {name: getattr(opening, name) for name in Terms.model_fields}
    terms |= {"actor": actor, "budgets": own_budgets(opening)}
    if opening is plan.openings[-1]:
        changes = {"prompt": wish.prompt, "max_steps": wish.max_steps}
        terms |= {name: value for name, value in changes.items() if value is not None}
        if wish.prompt is not None and opening.user_language_detected:
            terms["user_language"] = None
    documents = tuple([await copied(connections, wish.workflow, fork_id, document) for document in opening.documents])
    common: dict[str, Any] = {
        "workflow_mode": opening.workflow_mode,
        "documents": documents,
        "forked_from": plan.forked_from,
    }
    if opening is plan.openings[-1] and (answer := _edited(wish)) is not None:
        stored = await connections.content.put(fork_id, answer.encode())
        common["forked_from"] = plan.forked_from.model_copy(update={"answer": stored})
    if opening.round == 1:
        return RequestWorkflow(**terms, **common)
    return RequestRound(workflow_id=fork_id, after_round=opening.round - 1, **terms, **common)


def _check_edit(wish: ForkWish, accepted: Sequence[JudgedRecord]) -> None:
    """Refuse an answer, or parameters, for a decision that no model made.

    Raises:
        NothingToEdit: the event after the one to fork at is no such decision.
    """
    if wish.answer is None and wish.parameters is None:
        return
    events = (record.envelope.event for record in accepted if record.seq > wish.seq)
    decision = next((event for event in events if event is not None and not isinstance(event, WITHOUT_TURN)), None)
    if decision is None or isinstance(decision, ActionCompleted) or not model_calls(decision):
        raise NothingToEdit(wish.workflow, wish.seq, "the model's answer")
    if wish.parameters is not None and not isinstance(decision, ParametersSet | ParametersRejected):
        raise NothingToEdit(wish.workflow, wish.seq, "the parameters")


def _check_prompt(wish: ForkWish, of_round: Sequence[JudgedRecord]) -> None:
    """Refuse another request where the tasks, which say what is done, are taken over from the first one.

    Raises:
        Refused: among the events of the round that are taken over is the plan of its tasks.
    """
    planned = (place for place, record in enumerate(of_round) if isinstance(record.envelope.event, TasksPlanned))
    place = next(planned, None)
    if wish.prompt is not None and place is not None:
        raise Refused(
            f"Up to event {wish.seq}, the tasks are planned for the request of workflow {wish.workflow}, so another "
            f"request would not change them. Fork at event {of_round[place - 1].seq}, the last one before they are "
            "planned",
            code="invalid_request",
        )


def _edited(wish: ForkWish) -> str | None:
    """Return the answer to give instead of a model; parameters are one in the form of the parameterizer's."""
    if wish.parameters is None:
        return wish.answer
    return dumps({"schema": "parameters_v1", "parameters": wish.parameters}).decode()


def _check_release(workflow: str, records: Sequence[JudgedRecord]) -> None:
    for record in records:
        expect_known(workflow, record.seq, record.envelope)


def _unknown_seq(wish: ForkWish, records: Sequence[JudgedRecord], accepted: Sequence[int]) -> UnknownSeq:
    nearest = min(accepted, key=lambda seq: (abs(seq - wish.seq), seq))
    target = next((record for record in records if record.seq == wish.seq), None)
    return UnknownSeq(wish.workflow, wish.seq, superseded=target is not None, nearest=nearest, last=records[-1].seq)
