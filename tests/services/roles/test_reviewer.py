"""The reviewer: judges a stopped task, and writes how the round ends."""

from typing import Any

import pytest
from doubles import Away, script
from structlog.testing import capture_logs

from builders import At, Told, cancellation, document, planned, requested, step
from poweron_events import codec
from poweron_events.catalog import CATALOG
from poweron_events.content import ContentStore
from poweron_events.event import UnreadDocument
from poweron_events.round_events import AnswerRejected, DeadlinePassed, RoundCompleted
from poweron_events.step_events import ApprovalDenied, Observation
from poweron_services.models.call import Caller
from poweron_services.models.prompts import MessagePrompt
from poweron_services.models.scripted import ScriptedModel
from poweron_services.roles import round_end
from poweron_services.roles.observation_builder import observe_build
from poweron_services.roles.reviewer import Reviewer, create_review_prompt

EMPTY = "'empty.txt' is empty; check that it was saved and handed over completely."
BROKEN = "'bin.pdf' looks like a PDF document but is damaged or incomplete, so nothing of it was read."


async def said(told: Told, **lines: Any) -> Any:
    content = ContentStore.at("memory:///")
    (event,) = await Reviewer(Caller(ScriptedModel(script(**lines)), content), content)(told.workflow)
    return event


def stopped() -> Told:
    return Told().tell(requested(), planned(), *step(1))


@pytest.mark.req("L-07")
@pytest.mark.parametrize("status", ["success", "retry", "failed"])
async def test_a_stopped_task_is_classified_with_its_improvements(status: str) -> None:
    event = await said(stopped(), review=[{"status": status, "reason": "So it is.", "improvements": ["Name the page"]}])
    assert (event.status, event.improvements, event.decided_by) == (status, ("Name the page",), "model")


@pytest.mark.req("L-07")
async def test_a_retry_keeps_the_progress_and_has_a_limit() -> None:
    told, retry = stopped(), {"status": "retry", "improvements": ["Again"]}
    for attempt in (1, 2, 3):
        told.tell(await said(told, review=[retry]))
        if attempt < 3:
            assert (told.workflow.task.attempt, told.workflow.task.improvements) == (attempt + 1, ("Again",))
            assert told.workflow.task.progress[0].met
            told.tell(*step(1, attempt=attempt + 1))
    assert (told.workflow.phase, told.workflow.current.ending) == ("closing", "failed")


@pytest.mark.req("L-02")
async def test_after_the_second_refusal_the_task_failed_without_asking_a_model() -> None:
    told = Told().tell(requested(), planned(), At().selection_rejected(1), At().selection_rejected(2))
    event = await said(told)
    assert (event.status, event.decided_by, event.model_call) == ("failed", "guard", None)
    assert event.reason == "The model's proposals were refused twice: No such action."


async def test_a_review_that_cannot_be_used_follows_the_criteria() -> None:
    told = stopped()
    for _ in range(2):
        rejected = await said(told, review=["nonsense"])
        assert isinstance(rejected, AnswerRejected)
        assert create_review_prompt(told.tell(rejected).workflow).refusal == rejected.reason
    event = await said(told)
    assert (event.status, event.decided_by, event.reason) == ("success", "guard", "All success criteria are met.")


@pytest.mark.req("B-02")
async def test_a_task_whose_budget_is_used_up_is_judged_by_its_criteria_without_a_model() -> None:
    budgets = {"workflow_tokens": 480}
    met = Told().tell(requested(budgets=budgets), planned(), *step())
    event = await said(met)
    assert (event.status, event.decided_by, event.model_call) == ("success", "guard", None)
    *before, refined = step()
    unmet = Told().tell(requested(budgets=budgets), planned(), *before)
    unmet.tell(refined.model_copy(update={"criteria_progress": ()}))
    event = await said(unmet)
    assert (event.status, event.reason) == ("failed", "The workflow's budget of 480 tokens is used up: 480 tokens.")


@pytest.mark.req("B-02")
async def test_where_the_budget_is_used_up_the_final_message_is_made_of_the_results() -> None:
    told = Told().tell(requested(budgets={"workflow_tokens": 600}), planned(), *step(), At().reviewed())
    event = await said(told)
    assert (event.TYPE, event.model_calls) == ("poweron.round.completed.v1", ())
    assert event.message.startswith("Read one document.\n\nThe model wrote no final message, so these are the results")
    assert "The workflow's budget of 600 tokens" in event.message


@pytest.mark.req("L-10")
@pytest.mark.parametrize(
    ("language", "heading"),
    [("en", "No step of this round worked:"), ("de", "Kein Schritt dieser Runde hat funktioniert:")],
)
async def test_where_no_step_worked_the_end_says_so_whatever_a_model_claims(language: str, heading: str) -> None:
    at = At()
    failed = at.done(success=False, outcome="failed", error="acme:large has trouble.", code="model_unavailable")
    told = Told().tell(requested(user_language=language), planned(), at.selected(), at.parameters(), at.started())
    seen = observe_build(told.workflow, failed, [], CATALOG)
    told.tell(failed, seen, at.refined(), at.reviewed())
    event = await said(told, message=["It is written."])
    assert event.message.startswith(f"It is written.\n\n{heading}\n\n- ")
    assert "acme" not in event.message
    worked = Told().tell(requested(user_language=language), planned(), *step(), At().reviewed())
    assert heading not in (await said(worked, message=["It is written."])).message


@pytest.mark.req("L-10")
async def test_a_failed_round_says_what_was_done_before() -> None:
    event = await said(stopped().tell(At().failed("review")))
    assert "\n\nDone before that:\n\n- Read one document.\n\n" in event.message


@pytest.mark.req("S41")
async def test_a_retry_that_the_workflows_budget_does_not_allow_is_a_failure() -> None:
    told = Told().tell(requested(budgets={"workflow_retries": 0}), planned(), *step())
    event = await said(told, review=[{"status": "retry", "reason": "Page 2 is missing."}])
    assert (event.status, event.decided_by) == ("failed", "guard")
    assert event.reason == "Nothing may be used: the workflow's budget is 0 retries. Page 2 is missing."


@pytest.mark.req("L-07")
@pytest.mark.parametrize(
    ("limit", "said_so"), [(0, "The limit of 0 retries is reached."), (1, "The limit of 1 retry is reached.")]
)
async def test_a_retry_that_the_tasks_limit_does_not_allow_is_a_failure(limit: int, said_so: str) -> None:
    told = Told().tell(requested(max_retries=limit), planned(), *step())
    for attempt in range(2, 2 + limit):
        told.tell(At(attempt=attempt - 1).reviewed(status="retry"), *step(attempt=attempt))
    event = await said(told, review=[{"status": "retry", "reason": "Page 2 is missing."}])
    assert (event.status, event.decided_by) == ("failed", "guard")
    assert event.reason == f"{said_so} Page 2 is missing."


@pytest.mark.req("P-06")
def test_the_review_sees_the_steps_of_its_task_between_fences() -> None:
    data = create_review_prompt(stopped().workflow).render(fence="F").data
    assert "Why the task stopped:\n<<< F\nThe total is known.\n>>> F\n" in data
    assert "<<< F\n[round 1, task 1, attempt 1, step 1, document.extract, success] Read one document.\n" in data
    assert "  finding: The total is 42.\n  learning: The total is known.\n>>> F\n" in data


@pytest.mark.req("L-08")
async def test_a_round_ends_with_the_models_message_and_its_call() -> None:
    told = stopped().tell(At().reviewed())
    event = await said(told, message=["The total is 42."])
    assert (event.TYPE, event.message, len(event.model_calls)) == ("poweron.round.completed.v1", "The total is 42.", 1)
    (call,), before = event.model_calls, told.workflow.current.totals
    assert event.totals.input_tokens == before.input_tokens + call.input_tokens
    assert told.tell(event).workflow.current.totals == event.totals


@pytest.mark.req("B-01")
async def test_a_message_that_cannot_be_kept_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(round_end, "MESSAGE_TIMEOUT", 0.1)
    told, content = stopped().tell(At().reviewed()), Away.at("memory:///")
    with capture_logs():
        (event,) = await Reviewer(Caller(ScriptedModel(script()), content), content)(told.workflow)
    assert isinstance(event, RoundCompleted)
    assert [call.output_tokens for call in event.model_calls] == [5]
    assert event.totals.output_tokens == told.workflow.current.totals.output_tokens + 5


@pytest.mark.req("L-10")
async def test_a_failed_round_says_what_went_wrong_and_what_to_do() -> None:
    told = Told().tell(requested(), planned(), At().failed("select"))
    event = await said(told)
    assert event.message == (
        "The request could not be completed. The model does not answer.\n\nThe history shows every step."
    )
    assert event.code is None  # the stage failed in an older release


def failing(note: str, reason: str, **opening: Any) -> Told:
    """A round that failed after a step that failed."""
    seen = Observation(success=False, result_label="label", documents_count=0, notes=(note,))
    at = At()
    told = Told().tell(requested(**opening), planned(), at.selected(), at.parameters(), at.started(), at.done())
    told.tell(at.observed(observation=seen, summary=f"document.extract failed: {note}"), at.refined())
    return told.tell(at.reviewed(status="failed", reason=reason))


@pytest.mark.req("L-10")
async def test_a_failed_round_tells_the_last_problem_that_it_met() -> None:
    assert (await said(failing(EMPTY, "Nothing was found"))).message == (
        "The request could not be completed. Nothing was found.\n\n"
        f"The last problem met was: {EMPTY}\n\nThe history shows every step."
    )


@pytest.mark.req("L-10")
@pytest.mark.parametrize(
    ("told", "code"),
    [
        (stopped().tell(At().reviewed(status="failed", reason="No.", code="step_limit")), "step_limit"),
        (stopped().tell(At().reviewed(status="failed", reason="No.")), None),
        (Told().tell(requested(), At(0, 0, 0).failed("plan", code="model_busy")), "model_busy"),
        (stopped().tell(DeadlinePassed(round=1, due_ms=0)), "deadline"),
    ],
)
async def test_a_failed_round_has_the_code_of_what_ended_it(told: Told, code: str | None) -> None:
    event = await said(told)
    assert (event.TYPE, event.code) == ("poweron.round.failed.v1", code)


def unapproved(denial: ApprovalDenied) -> Told:
    at, seen = At(), Observation(success=False, result_label="label", documents_count=0, notes=("Denied.",))
    told = Told().tell(requested(), planned(), at.selected(), at.parameters(), at.approval_requested(), denial)
    told.tell(at.started(), at.done(success=False, outcome="denied", code="approval_denied"))
    return told.tell(at.observed(observation=seen), at.refined())


def retried(**opening: Any) -> Told:
    return Told().tell(requested(**opening), planned(), *step())


def unmet(**fields: Any) -> Told:
    *before, refined = step(**fields)
    limits = {"max_steps": 1} if fields.get("code") == "step_limit" else {}
    told = Told().tell(requested(**limits), planned(), *before)
    return told.tell(refined.model_copy(update={"criteria_progress": ()}))


def none_readable(**opening: Any) -> Told:
    """Its action could read none of its documents."""
    seen = Observation(success=False, result_label="label", documents_count=0, code="documents_unreadable")
    told = Told().tell(requested(**opening), planned())
    if opening:
        told.tell(At().actions_planned(2))
    told.tell(*step()[:3], At().done(success=False, outcome="failed", code=seen.code), At().observed(observation=seen))
    return told if opening else told.tell(At().refined(code="no_improvement"))


REFUSED_TWICE = Told().tell(requested(), planned(), At().selection_rejected(1), At().selection_rejected(2))


@pytest.mark.req("B-03")
@pytest.mark.parametrize(
    ("told", "status", "code"),
    [
        (stopped(), "success", "criteria_met"),
        (unmet(), "success", "judged_by_model"),
        (unmet(), "retry", "judged_by_model"),
        (unmet(), "not_stated", "not_stated"),
        (none_readable(), "not_stated", "documents_unreadable"),
        (unmet(code="no_improvement"), "failed", "judged_by_model"),
        (unmet(code="step_limit"), "failed", "step_limit"),
        (unmet(code="token_budget"), "failed", "token_budget"),
        (none_readable(), "failed", "documents_unreadable"),
        (unmet(code="answers_rejected"), "failed", "answers_rejected"),
        (retried(max_retries=0), "retry", "retry_limit"),
        (retried(budgets={"workflow_retries": 0}), "retry", "retry_budget"),
        (retried(budgets={"workflow_steps": 1}), "failed", "step_budget"),
        (REFUSED_TWICE, "success", "answers_rejected"),
        (unapproved(At().approval_denied("6")), "failed", "approval_denied"),
        (unapproved(At().approval_denied()), "failed", "approval_expired"),
    ],
)
async def test_a_review_has_the_code_of_why_it_came_to_its_status(told: Told, status: str, code: str) -> None:
    event = await said(told, review=[{"status": status, "reason": "So it is."}])
    assert event.code == code


@pytest.mark.req("L-07")
@pytest.mark.req("L-08")
async def test_what_the_documents_do_not_say_completes_the_round_with_that_sentence() -> None:
    told, sentence = unmet(), "The contract does not mention a phone number."
    told.tell(await said(told, review=[{"status": "not_stated", "reason": sentence}]))
    ended = await said(told)
    assert (ended.TYPE, ended.message, ended.model_calls) == ("poweron.round.completed.v1", sentence, ())


@pytest.mark.req("L-07")
async def test_a_task_that_read_nothing_cannot_know_what_is_not_stated() -> None:
    told = none_readable()
    assert (await said(told, review=[{"status": "not_stated"}])).status == "failed"
    offered = [create_review_prompt(each.workflow).answer_schema for each in (told, unmet())]
    assert ["not_stated" in str(schema) for schema in offered] == [False, True]


async def test_a_task_of_a_plan_that_failed_says_so() -> None:
    told = Told().tell(requested(workflow_mode="Actionplan"), planned(), At().actions_planned(2), *step()[:3])
    seen = Observation(success=False, result_label="label", documents_count=0)
    told.tell(At().done(success=False, outcome="failed"), At().observed(observation=seen))
    event = await said(told, review=[{"status": "failed", "reason": "So it is."}])
    assert event.code == "plan_failed"
    event = await said(none_readable(workflow_mode="Actionplan"), review=[{"status": "failed", "reason": "So it is."}])
    assert event.code == "documents_unreadable"


async def test_a_cancelled_round_repeats_the_reason() -> None:
    event = await said(stopped().tell(cancellation()))
    assert event.message == "The round was cancelled. Reason: No longer needed."


@pytest.mark.req("E-10")
async def test_an_ending_with_too_many_documents_and_words_is_cut_and_says_so() -> None:
    told = Told().tell(requested(max_steps=9), planned())
    for number in range(1, 6):
        files = tuple(document("ü" * 200 + f"{number}-{one}", document_id=f"{number}-{one}") for one in range(60))
        at = At(number)
        told.tell(at.selected(action="ai.process"), at.parameters(), at.started(), at.done(documents=files))
        told.tell(at.observed(), at.refined(decision="continue" if number < 5 else "stop"))
    told.tell(At(5).reviewed())
    event = await said(told, message=["\N{GRINNING FACE}" * 9_000])
    told.tell(event)
    assert len(told.values[-1]) < codec.MAX_EVENT
    assert event.documents[-1].document_id == "5-59"
    assert f"{300 - len(event.documents)} more documents were written" in event.message


@pytest.mark.req("X-05")
async def test_the_final_message_sees_names_and_summaries_between_fences_only() -> None:
    model = ScriptedModel(script())
    content = ContentStore.at("memory:///")
    await Reviewer(Caller(model, content), content)(stopped().tell(At().reviewed()).workflow)
    (prompt,) = [one for one in model.asked if isinstance(one, MessagePrompt)]
    data = prompt.render(fence="F").data
    assert "Task 1 of 1, success:\n<<< F\nFind the total\n>>> F\n" in data
    assert "What it came to:\n<<< F\nRead one document.\n>>> F\n" in data


def unread(*reasons: str, code: str = "document_empty") -> tuple[UnreadDocument, ...]:
    return tuple(UnreadDocument(document_name=why.split("'")[1], code=code, reason=why) for why in reasons)


def read(*steps: tuple[UnreadDocument, ...], left_out: int = 0, **opening: Any) -> Told:
    """A round whose steps could not read these documents, and whose last one wrote the answer."""
    names = ("bin.pdf", "empty.txt", *(f"{number}.md" for number in range(4)))
    told = Told().tell(requested(documents=tuple(document(name) for name in names), **opening), planned())
    for number, documents in enumerate(steps, start=1):
        at = At(number)
        done = at.done(unread=documents, unread_left_out=left_out)
        told.tell(at.selected(), at.parameters(), at.started(), done, at.observed(), at.refined(decision="continue"))
    told.tell(*step(len(steps) + 1))
    return told.tell(At(len(steps) + 1).reviewed())


@pytest.mark.req("L-08")
@pytest.mark.req("L-10")
async def test_the_final_message_names_every_document_that_could_not_be_read_once() -> None:
    partly = unread("'1.md' was not read as a whole.", code="partly_read")
    told = read((*unread(BROKEN, EMPTY), *partly), unread(EMPTY))
    event = await said(told, message=["The total is 42."])
    assert event.message == (f"The total is 42.\n\nDocuments that could not be read (2 of 6):\n\n- {BROKEN}\n- {EMPTY}")


@pytest.mark.req("L-10")
async def test_documents_read_in_part_that_were_left_out_are_none_that_could_not_be_read() -> None:
    partly = unread("'1.md' was not read as a whole.", code="partly_read")
    event = await said(read((*unread(BROKEN), *partly), left_out=1), message=["The total is 42."])
    assert event.message == f"The total is 42.\n\nDocuments that could not be read (1 of 6):\n\n- {BROKEN}"


@pytest.mark.req("L-10")
async def test_documents_that_could_not_be_read_are_told_in_german_and_bounded() -> None:
    many = [unread(*(f"'{step}-{number}.pdf' is empty." for number in range(8))) for step in range(2)]
    event = await said(read(*many, left_out=1, user_language="de-CH"), message=["x" * 9_000])
    assert "\n\nDokumente, die nicht gelesen werden konnten (mindestens 16):\n\n- '0-0.pdf'" in event.message
    assert event.message.endswith("\n- '1-1.pdf' is empty.\n- und 6 weitere")
    assert len(event.message) <= 8_000


@pytest.mark.req("L-08")
async def test_the_final_message_says_which_format_could_not_be_made() -> None:
    told = Told().tell(requested(prompt="Write a report as PDF"), planned(), *step(), At().reviewed())
    event = await said(told, message=["The report is done."])
    assert event.message == "The report is done.\n\nYou asked for PDF, which was not made; it made text.md instead."


@pytest.mark.req("L-08")
async def test_a_step_that_could_read_nothing_is_told_by_names_to_whoever_writes_the_message() -> None:
    at, seen = At(), Observation(success=False, result_label="label", documents_count=0, unread=unread(BROKEN, EMPTY))
    told = Told().tell(requested(), planned(), at.selected(), at.parameters(), at.started())
    told.tell(at.done(success=False, outcome="failed", documents=(), unread=unread(BROKEN, EMPTY)))
    told.tell(at.observed(observation=seen, summary="It failed."), at.refined(decision="continue"))
    told.tell(*step(2), At(2).reviewed(reason="The total is there."))
    (prompt,) = await messages_asked(told)
    (result,) = prompt.results
    assert result.failures == (
        "attempt 1, step 1, document.extract failed: Nothing could be read of 'bin.pdf', 'empty.txt'.",
    )
    assert result.reviews == ("Task 1 of 1 is done: The total is there.",)


async def messages_asked(told: Told) -> list[MessagePrompt]:
    model, content = ScriptedModel(script()), ContentStore.at("memory:///")
    await Reviewer(Caller(model, content), content)(told.workflow)
    return [prompt for prompt in model.asked if isinstance(prompt, MessagePrompt)]


@pytest.mark.req("L-08")
async def test_results_that_stand_in_for_a_message_do_not_hide_a_step_that_failed() -> None:
    note = "The archive does not answer."
    seen = Observation(success=False, result_label="label", documents_count=0, notes=(note,))
    at = At()
    told = Told().tell(requested(), planned(), at.selected(), at.parameters(), at.started())
    told.tell(at.done(success=False, outcome="failed", documents=()), at.observed(observation=seen))
    told.tell(at.refined(decision="continue"), *step(2), At(2).reviewed())
    event = await said(told, message=[""])
    assert event.message.startswith(
        "Read one document.\n\nNot every step worked:\n\n"
        f"- attempt 1, step 1, document.extract failed: {note}\n\nThe model wrote no final message"
    )
