"""What must hold of every world, whatever befell it. A name in capitals is what a run prints where it does not.

STUCK                 a round has not ended, or a request has no answer, long after the last trouble
EFFECT_WITHOUT_CLAIM  an effect without an accepted claim of its own that was there before it
AT_MOST_ONCE_TWICE    an effect that must not be repeated was
NO_OUTCOME            a round has ended, but an action that was started in it has no outcome
READERS_DISAGREE      a reader's verdict on a record is not that of the full fold
STATE_DIFFERS         a reader holds a workflow, or does not, otherwise than the full fold
ROWS_DIFFER           the rows are not what the projections make of the log from its beginning
OPENED_TWICE          one request opened two rounds
CONTRADICTED          a request was answered although it had its other answer before it was received
ENDED_BY_ITS_ANSWER   a request was accepted, then refused because of what its acceptance had changed
SPURIOUS_REFUSAL      a request was refused although it was possible all the time
STEP_LIMIT            a step beyond the limit of its round
CANCELLATION_IGNORED  an effect in a round whose cancellation had been sent before the process could look for it
BEGUN_WHILE_PAUSED    an action or a call that began although its process had read that the round is paused
TIME_IN_PAUSE         a round whose time was over although, without its pauses, it had time left
UNAPPROVED            an effect that people had to approve, and had not, or that the policy denies, by what was read
WRONG_APPROVER        an answer, a grant or a policy counted although its actor may not give it, or gave it before
OVER_QUOTA            a process opened more rounds for an actor in a day than the policy allows
OVER_BUDGET           a model was called though the events before had used up a budget of tokens
OVERSPENT             models were sent more than a budget of tokens holds, answered or not, by all processes together
REJECTED_TOO_OFTEN    a third answer to one stage at one place was rejected
UNKNOWN_DOCUMENT      a document that a prompt named could not be found
FALSE_ALARM           a correct process stopped on a workflow
ACTED_ON_THE_PAST     a process acted before it had folded what was there when it was assigned
NOT_READ_BACK         a result, an approval or an ending that was written before what it rests on was read back
UNCHARGED             the rows count other tokens for a workflow than its events tell of, superseded ones too
APPENDED_FOR_EVER     more records without effect in a row than crashes and rivals explain: somebody repeats himself
SUPERSEDED_AGAIN      a role answered twice to the same state of a workflow, and neither answer was accepted
PLACE_LOST            a process that rests has fewer places for work than it had
ENDED_BY_ITSELF       a process ended that nobody had stopped
UNEXPECTED            an exception that nobody foresaw
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from simulation.full_fold import gist
from simulation.ledger import key_of
from simulation.postgres import rebuilt
from simulation.processes import CONCURRENCY, MOST_SKEW_MS, Process
from simulation.wire import EVENTS

from poweron_events.envelope import Recorded
from poweron_events.fold.costs import used_by
from poweron_events.fold.policy_chain import policy_sha256
from poweron_events.fold.questions import approval_terms, budget_terms
from poweron_events.fold.state import PAUSED, Workflow, parameters_sha256
from poweron_events.request import (
    RequestApproval,
    RequestBudget,
    RequestCancellation,
    RequestPause,
    RequestPolicy,
    RequestRefused,
    RequestResume,
    RequestRound,
    RequestRules,
    RequestWorkflow,
    RoundPaused,
    RoundRequested,
    RoundResumed,
    WorkflowRequested,
)
from poweron_events.round_events import DeadlinePassed, RoundCancelled, RoundCompleted, RoundFailed
from poweron_events.step_events import ActionCompleted, ActionStarted, ApprovalRequested
from poweron_projections.requests import REQUESTS
from poweron_projections.usage import USAGE

if TYPE_CHECKING:
    from simulation.world import World

Flag = tuple[str, object]

NEVER_AHEAD = (ActionCompleted, ApprovalRequested, RoundCompleted, RoundFailed, RoundCancelled)
MOST_IN_A_ROW = 40  # records of one workflow; each of many intakes in a row may write two before it refuses


def check(world: "World") -> Iterator[Flag]:
    """Everything that does not hold of a world at its end."""
    for error in world.loop.errors:
        yield "UNEXPECTED", error
    yield from _stuck(world)
    yield from _effects(world)
    yield from _requests(world)
    yield from _times(world)
    yield from _appends(world)
    yield from _ahead(world)
    yield from _rows(world)
    yield from _usage(world)
    yield from (("OVER_QUOTA", found) for found in world.full.authority.over_quota())
    for process in world.processes:
        if process.serves:
            yield from held(world, process)
            yield from places(process)
        elif not process.dead and not process.stopped:
            yield "ENDED_BY_ITSELF", (process.name, process.task)


def _stuck(world: "World") -> Iterator[Flag]:
    for id_ in world.full.history:
        workflow = world.full.now(id_)
        if workflow.is_open:
            yield "STUCK", (id_, workflow.phase, workflow.place)
    answered = {row.id for row in world.postgres.table(REQUESTS) if row.source == world.upstream.source}
    for request_id in world.upstream.asked.keys() - answered:
        yield "STUCK", (request_id, "has no answer")


def _effects(world: "World") -> Iterator[Flag]:
    claims = world.full.claims(key_of)
    runs: Counter[tuple[str, str]] = Counter()
    for process, key, partition, end in world.effects:
        before = [offset for place, offset in claims[key, process] if (place, offset) < (partition, end)]
        runs[key, process] += 1
        if len(before) < runs[key, process]:
            yield "EFFECT_WITHOUT_CLAIM", (process, key, "accepted claims", len(before))
    for key, count in world.once.items():
        if count > 1:
            yield "AT_MOST_ONCE_TWICE", (key, count)
    started, completed = (_events_by_key(world, kind) for kind in (ActionStarted, ActionCompleted))
    for key in started.keys() - completed.keys():
        yield "NO_OUTCOME", key
    for key, ends in completed.items():
        count = sum(getattr(end, "code", None) != PAUSED for end in ends)  # a claim that a pause ended may be followed
        if count > 1:
            yield "NO_OUTCOME", (key, "has several", count)


def _events_by_key(world: "World", kind: type[ActionStarted | ActionCompleted]) -> dict[str, list[object]]:
    """The accepted events of a kind in rounds that have ended, by the idempotency key of their step."""
    of: dict[str, list[object]] = defaultdict(list)
    for recorded in world.full.accepted():
        if isinstance(recorded.envelope.event, kind) and not world.full.now(recorded.envelope.workflow_id).is_open:
            of[key_of(recorded)].append(recorded.envelope.event)
    return of


def _requests(world: "World") -> Iterator[Flag]:
    for request_id, opened in world.full.opened.items():
        if len(opened) > 1:
            yield "OPENED_TWICE", (request_id, opened)
    yield from _contradicted(world)
    for recorded in world.full.accepted():
        if isinstance(recorded.envelope.event, RequestRefused):
            yield from _spurious(world, recorded)


def _times(world: "World") -> Iterator[Flag]:
    """A deadline that passed, by a clock that stands still during the pauses of the round."""
    for id_, recordings in _by_workflow(world).items():
        opened_ms = limit_ms = paused_ms = 0
        since_ms: int | None = None
        for recorded in recordings:
            match recorded.envelope.event:
                case WorkflowRequested(deadline_ms=limit_ms) | RoundRequested(deadline_ms=limit_ms):
                    opened_ms, paused_ms, since_ms = recorded.time_ms, 0, None
                case RoundPaused():
                    since_ms = recorded.time_ms
                case RoundResumed() if since_ms is not None:
                    paused_ms, since_ms = paused_ms + recorded.time_ms - since_ms, None
                case DeadlinePassed():
                    until_ms = recorded.time_ms if since_ms is None else since_ms
                    if until_ms - opened_ms - paused_ms + MOST_SKEW_MS < limit_ms:
                        yield "TIME_IN_PAUSE", (id_, "opened", opened_ms, "paused", paused_ms, "at", recorded.time_ms)


def _by_workflow(world: "World") -> dict[str, list[Recorded]]:
    of: dict[str, list[Recorded]] = defaultdict(list)
    for recorded in world.full.accepted():
        of[recorded.envelope.workflow_id].append(recorded)
    return of


def has_read(world: "World", process: Process, id_: str) -> int | None:
    """How far the process has read the partition of the workflow; None if it does not hold it."""
    partitions_held = process.worker._held if process.worker else None
    partition = partitions_held and partitions_held.partitions.get(world.log.partition_of(EVENTS, id_.encode()))
    return partition.position if partition else None


def reads_pause(world: "World", process: Process, id_: str) -> bool:
    """Whether the process has read that the workflow is paused, and not yet that it is resumed."""
    read = has_read(world, process, id_)
    return read is not None and world.full.at(id_, read).is_paused


def _appends(world: "World") -> Iterator[Flag]:
    """What is appended for each accepted event is bounded; the same bytes again are one append with a lost answer."""
    in_a_row: dict[str, set[str]] = defaultdict(set)
    for place, recorded in world.full.records.items():
        if recorded is None or world.process(recorded.envelope.source) is None:
            continue
        wasted = in_a_row[recorded.envelope.workflow_id]
        if world.full.verdicts[place] == "accepted":
            wasted.clear()
        wasted.add(recorded.sha256)
        if len(wasted) > MOST_IN_A_ROW:
            yield "APPENDED_FOR_EVER", (recorded.envelope.workflow_id, place, type(recorded.envelope.event).__name__)
            return


def _ahead(world: "World") -> Iterator[Flag]:
    """E-17: what is thought ahead is thoughts, a claim at most."""
    for place, recorded in world.full.records.items():
        if recorded is None or not isinstance(recorded.envelope.event, NEVER_AHEAD):
            continue
        if recorded.envelope.cause is not None and recorded.envelope.cause.offset is None:
            yield "NOT_READ_BACK", (place, type(recorded.envelope.event).__name__, recorded.envelope.workflow_id)


def _usage(world: "World") -> Iterator[Flag]:
    told, counted = Counter[str](), Counter[str]()
    for recorded in filter(None, world.full.records.values()):
        if recorded.envelope.event is not None:
            told[recorded.envelope.workflow_id] += used_by(recorded.envelope.event).tokens
    for row in world.postgres.table(USAGE):
        counted[row.workflow_id] += row.input_tokens + row.output_tokens
    if told != counted:
        yield "UNCHARGED", ("told", +(told - counted), "counted", +(counted - told))


def _answers(world: "World") -> Iterable[tuple[str, Recorded]]:
    for recorded in world.full.accepted():
        request = getattr(recorded.envelope.event, "request", None)
        if request is not None and request.source == world.upstream.source:
            yield request.id, recorded


def _contradicted(world: "World") -> Iterator[Flag]:
    """An answer by an intake that received the request only when the other answer had been given.

    Or one that can only have been judged by rows that held the other: before, the round had not ended.
    """
    first: dict[tuple[str, bool], int] = {}
    for request_id, recorded in _answers(world):
        refuses = isinstance(recorded.envelope.event, RequestRefused)
        other = first.get((request_id, not refuses))
        received = _received(world, recorded, request_id)
        if other is not None and received is not None and other < received:
            yield "CONTRADICTED", (request_id, "first at", other, "received at", received, "then at", recorded.offset)
        if other is not None and getattr(recorded.envelope.event, "reason", None) == "round_ended":
            yield "ENDED_BY_ITS_ANSWER", (request_id, "accepted at", other, "refused at", recorded.offset)
        first.setdefault((request_id, refuses), recorded.offset)


def _received(world: "World", recorded: Recorded, request_id: str) -> int | None:
    """The end of the log when the process that wrote the answer first received the request."""
    process = world.process(recorded.envelope.source)
    return process and process.cable.received.get(world.upstream.asked[request_id].value)


def _spurious(world: "World", recorded: Recorded) -> Iterator[Flag]:
    event = recorded.envelope.event
    asked = world.upstream.asked[event.request.id]
    received = _received(world, recorded, event.request.id)
    if received is None:
        return
    states = world.full.between(asked.workflow, received, recorded.offset)
    if all(_possible(asked.request, state, recorded.time_ms) for state in states):
        yield (
            "SPURIOUS_REFUSAL",
            (event.request.id, event.reason, "received at", received, "refused at", recorded.offset),
        )


def _possible(request: object, state: Workflow, now_ms: int) -> bool:  # noqa: PLR0911 - one case per request
    match request:
        case RequestWorkflow():
            return state.phase == "none"
        case RequestRound(after_round=after):
            return state.phase == "ended" and len(state.openings) == after
        case RequestCancellation(round=number):
            stops = state.is_paused or state.phase not in ("closing", "draining")
            return state.is_open and len(state.openings) == number and stops
        case RequestBudget(question=number):
            place = (request.round, request.task, request.attempt, request.step)
            asked = state.current.question if state.asks_for_budget and state.place == place else None
            in_time = asked is not None and (state.is_paused or now_ms + MOST_SKEW_MS < asked.due_ms)
            objection = in_time and budget_terms(state).objection(request.actor, request.decision)
            return in_time and asked.number == number and objection is None
        case RequestPause(round=number):
            goes_on = state.is_open and state.phase not in ("closing", "draining") and not state.is_paused
            return goes_on and len(state.openings) == number
        case RequestResume(round=number):
            return state.is_paused and len(state.openings) == number
        case RequestApproval(parameters_sha256=parameters):
            place = (request.round, request.task, request.attempt, request.step)
            waits = state.phase == "approve" and state.place == place and parameters == parameters_sha256(state)
            in_time = waits and (state.is_paused or now_ms + MOST_SKEW_MS < state.step.approval_due_ms)
            changed = request.changed_parameters
            if not in_time or (changed is not None and changed == state.step.parameters.parameters):
                return False
            decision = request.decision if changed is None else "change"
            return approval_terms(state).objection(request.actor, decision) is None
        case RequestPolicy():
            newest, wanted = state.policy, policy_sha256(request.policy)
            return newest is None or (newest.sha256 != wanted and newest.policy.may_apply(request.actor))
        case RequestRules():
            return False  # that depends on the policies, too
    raise TypeError(request)


def _rows(world: "World") -> Iterator[Flag]:
    kept = world.postgres.kept
    ends = {partition: world.log.end(partition) for partition in range(world.partitions)}
    behind = [partition for partition, end in ends.items() if world.postgres.offset(partition) != end]
    if kept is None or behind:
        yield "STUCK", ("the projector", behind)
        return
    expected = rebuilt(world.log, ends)
    for table in expected:
        if table in ("offsets", "dead_letters"):
            continue
        for key in kept[table].keys() | expected[table].keys():
            if kept[table].get(key) != expected[table].get(key):
                yield "ROWS_DIFFER", (table, key, kept[table].get(key), expected[table].get(key))
                break


def held(world: "World", process: Process) -> Iterator[Flag]:
    """A process holds every open workflow of its partitions, as the full fold has it there."""
    partitions_held = process.worker._held if process.worker else None
    for number, partition in partitions_held.partitions.items() if partitions_held else ():
        for id_, history in world.full.history.items():
            if (
                world.log.partition_of("poweron.events", id_.encode()) != number
                or id_ in partition.parked
                or not history
            ):
                continue
            full, mine = world.full.at(id_, partition.position), partition.fold.workflows.get(id_)
            if mine is None and full.is_open:
                yield "STATE_DIFFERS", (process.name, id_, "not held", full.phase, "position", partition.position)
            elif mine is not None and gist(mine) != gist(full):
                yield "STATE_DIFFERS", (process.name, id_, "position", partition.position, gist(mine), gist(full))


def places(process: Process) -> Iterator[Flag]:
    """Who rests holds no place: a place that is not given back is missing for ever."""
    worker = process.worker
    if worker is None:
        return
    free = {"thinking": worker._slots._free}
    if worker._executor is not None:
        free["acting"] = worker._executor._claims._places._free
    for kind, left in free.items():
        if left != CONCURRENCY:
            yield "PLACE_LOST", (process.name, kind, left)


def acted_on_the_past(world: "World", recorded: Recorded) -> Iterator[Flag]:
    """E-06: what a process acts upon is not older than the log that it was to fold first."""
    process, cause = world.process(recorded.envelope.source), recorded.envelope.cause
    if process is None or cause is None or cause.offset is None:
        return
    folded = world.full.at(recorded.envelope.workflow_id, process.cable.first_ends.get(recorded.partition, 0))
    if isinstance(recorded.envelope.event, ActionCompleted) and folded.phase in ("started", "draining"):
        heads = [start.cause for start in folded.step.starts]
    else:
        heads = [folded.head]
    if all(head is not None and head.offset is not None and head.offset > cause.offset for head in heads):
        told = type(recorded.envelope.event).__name__
        yield "ACTED_ON_THE_PAST", (process.name, told, recorded.offset, "cause", cause.offset, "head", folded.head)
