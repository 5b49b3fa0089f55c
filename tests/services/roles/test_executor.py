"""The executor alone: which claim it makes, runs, hands on or gives up, and what it tells of the result."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from doubles import Away, Counting, script
from structlog.testing import capture_logs

from builders import POLICY, At, Told, cancellation, document, new_rules, person, planned, requested
from poweron_events import codec
from poweron_events.catalog import CATALOG
from poweron_events.content import ContentStore
from poweron_events.errors import Refused, Unavailable
from poweron_events.fold.state import Workflow, parameters_sha256, with_step
from poweron_events.policy import Policy, PolicyTerms, Rule
from poweron_events.step_events import ActionResult
from poweron_services.actions.action import Done, Failed, Order
from poweron_services.actions.action import document as written
from poweron_services.decider.approval import NEVER, Approval
from poweron_services.models.call import Caller
from poweron_services.models.prompts import ProcessPrompt, Template
from poweron_services.models.scripted import ScriptedModel
from poweron_services.roles import action_results
from poweron_services.roles.action_execution import Execution
from poweron_services.roles.claims import GRACE_MS, Assignment
from poweron_services.roles.executor import Executor

PLACES = 2


class Time:
    """The time that an executor is told."""

    def __init__(self, ms: int = 0) -> None:
        self.ms = ms

    def __call__(self) -> int:
        return self.ms


def executor(
    *actions: Any,
    content: ContentStore | None = None,
    time: Time | None = None,
    observes: bool = False,
    approval: Approval = NEVER,
    lines: dict[type, list[Any]] | None = None,
) -> Executor:
    content = content or ContentStore.at("memory:///")
    execution = Execution(
        actions={action.spec.name: action for action in actions},
        caller=Caller(ScriptedModel(lines or {}), content),
        content=content,
        observes=observes,
        now_ms=time or Time(),
        approval=approval,
    )
    return Executor(execution, worker="w1", concurrency=PLACES)


class Stand:
    """A worker's assignment, and until when it was waited for."""

    def __init__(self, end: int = 0, *, ours: bool = True, in_time: bool = True) -> None:
        self.waited: list[int] = []
        self.policy: PolicyTerms | None = None  # that applies when an action may begin, if another than at its claim
        self._end, self._ours, self._in_time = end, ours, in_time

    def __call__(self) -> Assignment:
        return Assignment(self._end, lambda: self._ours, self._may_begin, self._wait_until)

    async def _may_begin(self, workflow: Workflow) -> Workflow | None:
        if not self._ours:
            return None
        return (
            workflow if self.policy is None else workflow._replace(round=workflow.current._replace(policy=self.policy))
        )

    async def _wait_until(self, due_ms: int) -> bool:
        self.waited.append(due_ms)
        return self._in_time


def ready(action: str = "test.pure", request_id: str = "1") -> Told:
    return Told(request_id).tell(requested(), planned(), At().selected(action=action), At().parameters(parameters={}))


async def places(execute: Executor) -> int:
    """How many further actions the executor has room for now."""
    others = [ready("other.one", f"other-{number}").workflow for number in range(PLACES)]
    claimed = [await execute.claim_at_once(other, [At().parameters(parameters={})]) for other in others]
    for other in others:
        execute.forget(other.id)
    return sum(map(len, claimed))


async def ran(execute: Executor, told: Told) -> Sequence[Any]:
    """Claim, read the claim back, run."""
    (started,) = await execute(told.workflow, Stand()())
    told.tell(started)
    return await execute(told.workflow, Stand()())


@pytest.mark.req("E-08")
@pytest.mark.req("C-09")
async def test_a_claim_names_the_worker_the_effect_class_and_how_long_it_holds() -> None:
    (started,) = await executor(Counting(effect_class="idempotent"))(ready().workflow, Stand()())
    assert (started.worker, started.effect_class, started.try_) == ("w1", "idempotent", 1)
    assert started.deadline_ms == 60_000 + GRACE_MS
    assert len(started.claim) == 32


# --- claiming -----------------------------------------------------------------------------------------


@pytest.mark.req("E-08")
async def test_a_claim_that_another_worker_won_holds_no_place() -> None:
    execute = executor(Counting())
    for number in range(3):  # one more than there are places
        told = ready(request_id=f"{number}")
        async with asyncio.timeout(5):
            await execute(told.workflow, Stand()())
        told.tell(At().started(claim="of another worker"))
        assert await execute(told.workflow, Stand(in_time=False)()) == []


@pytest.mark.req("E-08")
async def test_a_claim_that_is_late_is_not_begun() -> None:
    action, told, time = Counting(), ready(), Time()
    execute = executor(action, time=time)
    told.tell(*await execute(told.workflow, Stand()()))
    time.ms = told.workflow.step.starts[0].due_ms
    (completed,) = await execute(told.workflow, Stand()())
    assert (completed.outcome, action.runs) == ("not_begun", [])


@pytest.mark.req("E-08")
async def test_a_token_runs_an_action_once_only() -> None:
    action, told = Counting(), ready()
    execute = executor(action)
    await ran(execute, told)
    stand = Stand(in_time=False)
    assert await execute(told.workflow, stand()) == []
    assert stand.waited == [told.workflow.step.starts[0].due_ms]
    assert len(action.runs) == 1


@pytest.mark.req("E-08")
@pytest.mark.parametrize(
    ("effect_class", "held_before", "waits"),
    [("pure", True, False), ("idempotent", True, False), ("pure", False, True), ("at_most_once", True, True)],
)
async def test_another_workers_claim_is_waited_for_unless_it_is_old_and_may_be_repeated(
    effect_class: Any, held_before: bool, waits: bool
) -> None:
    told = ready().tell(At().started(effect_class=effect_class, deadline_ms=60_000))
    stand = Stand(end=99 if held_before else 0)
    await executor(Counting())(told.workflow, stand())
    assert stand.waited == [told.workflow.step.starts[0].due_ms if waits else 0]


@pytest.mark.req("E-08")
async def test_a_fifth_try_that_crashed_is_the_last() -> None:
    told = ready().tell(*[At().started(try_) for try_ in range(1, 6)])
    (completed,) = await executor(Counting())(told.workflow, Stand(99)())
    assert (completed.outcome, completed.try_) == ("crashed", 5)


@pytest.mark.req("E-08")
async def test_an_effect_that_may_have_happened_is_unknown_never_repeated() -> None:
    told = ready().tell(At().started(effect_class="at_most_once"))
    (completed,) = await executor(Counting())(told.workflow, Stand(99)())
    assert (completed.outcome, completed.success) == ("unknown", False)


@pytest.mark.req("E-08")
async def test_a_stopped_round_drains_its_claim() -> None:
    told, execute = ready(), executor(Counting())
    told.tell(*await execute(told.workflow, Stand()()), cancellation())
    (completed,) = await execute(told.workflow, Stand()())
    assert completed.outcome == "not_begun"
    assert await places(execute) == 2


@pytest.mark.req("E-09")
async def test_a_place_is_held_from_the_claim_to_the_end_of_the_action() -> None:
    execute, told = executor(Counting()), ready()
    (started,) = await execute(told.workflow, Stand()())
    assert await places(execute) == 1
    told.tell(started)
    await execute(told.workflow, Stand()())
    assert await places(execute) == 2
    execute.forget(told.id)
    execute.forget(told.id)
    assert await places(execute) == 2


async def test_nobody_claims_for_a_partition_that_was_lost_while_waiting_for_a_place() -> None:
    execute = executor(Counting())
    assert await execute(ready().workflow, Stand(ours=False)()) == []
    assert await places(execute) == 2


@pytest.mark.req("X-01")
async def test_what_is_not_allowed_is_refused_before_it_runs_whatever_was_selected() -> None:
    action = Counting()
    opening = requested(denied_methods=("test",))
    told = Told().tell(opening, planned(), At().selected(action="test.pure"), At().parameters(parameters={}))
    (completed,) = await ran(executor(action), told)
    assert (completed.outcome, completed.code, completed.error, completed.detail) == (
        "denied",
        "action_not_allowed",
        "'test.pure' is not an action of this task, which may use none.",
        "It is denied; denied are test.",
    )
    assert action.runs == []


@pytest.mark.req("L-10")
@pytest.mark.parametrize(
    ("error", "effect_class", "outcome"),
    [
        (RuntimeError("a bug"), "pure", "failed"),
        (RuntimeError("a bug"), "at_most_once", "unknown"),
        (Unavailable("no answer"), "at_most_once", "unknown"),
        (Unavailable("no answer"), "pure", "failed"),
        (Refused("not that"), "at_most_once", "failed"),
        (UnicodeEncodeError("utf-8", "\udcff", 0, 1, "no"), "pure", "failed"),
        (TimeoutError("of a socket"), "pure", "failed"),
    ],
)
async def test_an_action_that_raises_is_told_as_its_result(error: Exception, effect_class: Any, outcome: str) -> None:
    def fails() -> Done:
        raise error

    with capture_logs():
        (completed,) = await ran(executor(Counting(effect_class=effect_class, result=fails)), ready())
    assert (completed.outcome, completed.success) == (outcome, False)
    assert completed.error
    assert completed.code != "action_timeout"


@pytest.mark.req("L-10")
async def test_each_reason_of_a_failed_action_is_kept_apart() -> None:
    def fails() -> Done:
        raise Failed("'a.pdf' is empty.", "'b.pdf' is empty.")

    (completed,) = await ran(executor(Counting(result=fails)), ready())
    assert (completed.error, completed.notes) == ("'a.pdf' is empty.", ("'b.pdf' is empty.",))


@pytest.mark.req("E-08")
async def test_an_action_does_not_run_longer_than_its_claim_holds() -> None:
    told, time = ready(), Time()
    execute = executor(Counting(gate=asyncio.Event()), time=time)
    told.tell(*await execute(told.workflow, Stand()()))
    time.ms = told.workflow.step.starts[0].due_ms - 20
    (completed,) = await execute(told.workflow, Stand()())
    assert completed.error == "test.pure was stopped after 0.02 s, its time limit."


@pytest.mark.req("B-01")
async def test_an_action_whose_answer_cannot_be_kept_says_so_and_counts_it() -> None:
    class Asking(Counting):
        async def __call__(self, order: Order) -> Done:
            template = Template("t", "Read.\n=== data ===\n")
            await order.ask(
                ProcessPrompt(
                    template=template,
                    ai_prompt="",
                    custom_instructions="",
                    language=None,
                    output_format="markdown",
                    documents=(),
                )
            )
            raise AssertionError

    told, time = ready(), Time()
    execute = executor(Asking(), content=Away.at("memory:///"), lines=script(), time=time)
    told.tell(*await execute(told.workflow, Stand()()))
    time.ms = told.workflow.step.starts[0].due_ms - 100
    with capture_logs():
        (completed,) = await execute(told.workflow, Stand()())
    assert (completed.outcome, completed.error) == (
        "failed",
        "The model answered, but its answer could not be kept in time. The content store did not answer: away",
    )
    assert [call.input_tokens for call in completed.model_calls] == [10]


@pytest.mark.req("M-08")
@pytest.mark.req("R-02")
async def test_a_result_is_labelled_and_its_bytes_are_stored_before_they_are_named() -> None:
    content = ContentStore.at("memory:///")
    told = ready()
    (completed,) = await ran(executor(Counting(), content=content), told)
    assert completed.result_label == "round1_task1_action1_pure"
    (named,) = completed.documents
    assert (named.document_id, named.document_name, named.size) == ("r1t1a1d1", "a.md", 2)
    assert await content.get(told.id, named.content) == b"42"


class Flaky(ContentStore):
    """A store that is away a few times."""

    failures = 0

    def _fail(self) -> None:
        if self.failures:
            self.failures -= 1
            raise Unavailable("away")

    async def put(self, workflow_id: str, content: bytes) -> str:
        self._fail()
        return await super().put(workflow_id, content)

    async def get(self, workflow_id: str, name: str) -> bytes:
        self._fail()
        return await super().get(workflow_id, name)

    async def size(self, workflow_id: str, name: str) -> int:
        self._fail()
        return await super().size(workflow_id, name)


def flaky(failures: int) -> Flaky:
    content = Flaky.at("memory:///")
    assert isinstance(content, Flaky)
    content.failures = failures
    return content


@pytest.mark.req("E-10")
async def test_a_content_store_that_is_unavailable_for_a_moment_costs_no_result() -> None:
    with capture_logs():
        (completed,) = await ran(executor(Counting(effect_class="at_most_once"), content=flaky(2)), ready())
    assert completed.outcome == "done"


@pytest.mark.req("E-10")
async def test_a_content_store_that_stays_away_ends_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(action_results, "STORE_TIMEOUT", 0.01)
    with capture_logs():
        (completed,) = await ran(executor(Counting(), content=flaky(99)), ready())
    assert completed.outcome == "failed"
    assert "its result could not be stored: the content store did not answer" in completed.error


async def reads(action: Counting, *, failures: int) -> Any:
    """What comes of the action on a document of a content store that is away for so many questions."""
    told, content = Told(), flaky(0)
    given = document(content=await content.put(told.id, b"The total is 42."))
    selected = At().selected(action="test.pure", required_input_documents=("docList:round1_request",))
    told.tell(requested(documents=(given,)), planned(), selected, At().parameters(parameters={}))
    content.failures = failures
    with capture_logs():
        (completed,) = await ran(executor(action, content=content), told)
    return completed


@pytest.mark.req("L-10")
async def test_an_action_waits_for_its_documents_while_the_content_store_is_unavailable_for_a_moment() -> None:
    action = Counting()
    completed = await reads(action, failures=2)
    assert (completed.outcome, len(action.runs)) == ("done", 1)


@pytest.mark.req("L-10")
async def test_documents_that_stay_away_end_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(action_results, "STORE_TIMEOUT", 0.01)
    action = Counting()
    completed = await reads(action, failures=99)
    assert (completed.outcome, action.runs) == ("failed", [])
    assert completed.error == "the content store did not answer for 0.01 s"


@pytest.mark.req("L-10")
async def test_a_document_whose_content_is_gone_is_named_and_not_by_its_hash() -> None:
    told = Told().tell(requested(documents=(document("estimate.pdf"),)), planned())
    told.tell(At().selected(action="test.pure", required_input_documents=("docList:round1_request",)))
    (completed,) = await ran(executor(Counting()), told.tell(At().parameters(parameters={})))
    assert (completed.success, completed.code) == (False, "document_missing")
    assert completed.error == "'estimate.pdf' is not in the content store any more."


@pytest.mark.req("E-10")
async def test_a_result_too_large_for_its_event_is_cut_and_says_so() -> None:
    documents = tuple(written(f"{number}{'ä' * 250}", "x", "text/markdown") for number in range(300))
    result = Done(ActionResult(success=True, documents=documents), tuple("ü" * 500 for _ in range(30)))
    content, told = ContentStore.at("memory:///"), ready()
    completed, observed = await ran(executor(Counting(result=lambda: result), content=content, observes=True), told)
    told.tell(completed, observed)
    assert max(map(len, told.values)) < codec.MAX_EVENT
    assert completed.documents[-1].document_name == "documents.json"
    seen = observed.observation
    assert len(completed.documents) - 1 + completed.documents_left_out == seen.documents_count == 300
    assert (seen.omitted.previews, seen.omitted.notes) == (300 - len(seen.previews), 31 - len(seen.notes))
    assert completed.notes[0] == f"{301 - len(completed.documents)} more documents are named in 'documents.json' only."
    assert (await content.get(told.id, completed.documents[-1].content)).count(b"documentId") == 300
    assert told.workflow.phase == "refine"


# --- policies


def terms(number: int, *rules: Rule) -> PolicyTerms:
    return Policy(apply=("admins",), groups={}, rules=rules, otherwise="allow").terms(number, "ab" * 32)


async def test_an_action_begins_under_the_rules_of_that_moment_not_of_its_claim() -> None:
    action = Counting("test.pure")
    execute, told, stand = executor(action), ready(), Stand()
    told.tell(*await execute(told.workflow, stand()))
    stand.policy = terms(2, Rule(actions=("test",), decision="deny"))
    (completed, *_) = await execute(told.workflow, stand())
    assert (completed.outcome, completed.code, action.runs) == ("denied", "action_not_allowed", [])


APPROVED_BY = [
    (["eve"], Rule(actions=("test",), decision="approve", from_=("heads",)), "done"),
    (["eve"], Rule(actions=("test",), decision="approve"), "done"),
    (["eve"], Rule(actions=("test",), decision="approve", from_=("risk",)), "denied"),
    (["eve"], Rule(actions=("test",), decision="approve", approvers=2), "denied"),
    (["ada"], Rule(actions=("test",), decision="approve", not_requester=True), "denied"),
    ([None], Rule(actions=("test",), decision="approve"), "done"),
    ([None], Rule(actions=("test",), decision="approve", from_=("risk",)), "denied"),
]


@pytest.mark.req("E-08")
@pytest.mark.parametrize(("people", "newer", "outcome"), APPROVED_BY)
async def test_an_approved_action_does_not_begin_if_the_rules_of_that_moment_want_other_approvals(
    people: list[str | None], newer: Rule, outcome: str
) -> None:
    action, at, stand = Counting("test.pure"), At(), Stand()
    told = Told().tell(requested(actor=person("ada")), planned(), at.selected(action="test.pure"))
    told.tell(at.parameters(parameters={}))
    digest = parameters_sha256(told.workflow)
    told.tell(at.approval_requested(parameters_sha256=digest, action="test.pure"))
    for name in people:
        told.tell(at.approval_granted(f"by-{name}", parameters_sha256=digest, actor=name and person(name)))
    assert told.workflow.step.approval == "granted"
    execute = executor(action)
    told.tell(*await execute(told.workflow, stand()))
    stand.policy = POLICY.model_copy(update={"rules": (newer,)}).terms(2, "ab" * 32)
    (completed, *_) = await execute(told.workflow, stand())
    assert (completed.outcome, len(action.runs)) == (outcome, int(outcome == "done"))
    assert completed.code == (None if outcome == "done" else "approval_missing")


async def test_what_new_rules_want_approved_is_not_tried_again_unapproved() -> None:
    """No one can be asked about an action that may have run: the step ends, and the loop goes on."""
    action = Counting("test.pure")
    execute, told = executor(action), ready()
    told.tell(*await execute(told.workflow, Stand()()))
    told.tell(new_rules(told.workflow, 1, POLICY.model_copy(update={"rules": ()})))
    assert told.verdicts[-1] == "accepted"
    approve = terms(2, Rule(actions=("test",), decision="approve"))
    told.workflow = told.workflow._replace(round=told.workflow.current._replace(policy=approve))
    (completed,) = await executor(Counting("test.pure"))(told.workflow, Stand(end=99)())
    assert (completed.outcome, completed.code) == ("crashed", "worker_stopped")


@pytest.mark.req("S4")
async def test_people_who_change_parameters_may_name_an_address_that_no_document_names() -> None:
    class Scraping(Counting):
        spec = CATALOG["web.scrape"]

    at, url = At(), "https://made-up.example/list"
    told = Told().tell(
        requested(), planned(), at.selected(action="web.scrape"), at.parameters(parameters={"query": url})
    )
    (claimed,) = await (execute := executor(Scraping()))(told.workflow, Stand()())
    (completed, *_) = await execute(told.tell(claimed).workflow, Stand()())
    assert completed.code == "address_unknown"
    by_people = with_step(told.workflow, told.workflow.step._replace(proposed_by=person("bob")))
    told.tell(completed)
    (claimed,) = await (execute := executor(Scraping()))(by_people._replace(phase="ready"), Stand()())
    claim = by_people.step.starts[-1]._replace(claim=claimed.claim)
    (completed, *_) = await execute(with_step(by_people, by_people.step._replace(starts=(claim,))), Stand()())
    assert completed.code is None
