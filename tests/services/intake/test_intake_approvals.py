"""A person's answer to the question whether an action may run: which one is taken, and what is said of others."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from builders import requested
from poweron_events.actor import Actor
from poweron_events.catalog import CATALOG, meaningless
from poweron_events.codec import decode_request, encode_request
from poweron_events.request import RequestApproval, RequestBudget, Requester, RequestIdentity
from poweron_events.step_events import ApprovalDenied, ApprovalGranted
from poweron_projections.request_answers import OpenRound, StepApproval
from poweron_services.decider.approval import Approval, joined
from poweron_services.intake.judgement import Refusal, approval_answer, approval_refusal, check_budget_answer
from poweron_services.settings.config import Settings

HASH = "0" * 64
WAITS = StepApproval("asked", HASH, due_ms=1_000, by=None, waits=True)
HERE = "Step 1 of task 2 in round 1"


def request(**fields: Any) -> RequestApproval:
    given = {"round": 1, "task": 2, "attempt": 1, "step": 1, "parameters_sha256": HASH, "decision": "approve"}
    return RequestApproval(workflow_id="w", **{**given, **fields})


@pytest.mark.req("E-15")
@pytest.mark.parametrize(
    ("asked", "now_ms", "code", "reason"),
    [
        (WAITS, 999, None, None),
        (None, 0, "nothing_to_approve", f"{HERE} does not wait for an approval."),
        (
            replace(WAITS, state="granted", waits=False, by="Ada"),
            0,
            "already_approved",
            f"{HERE} was approved already by Ada.",
        ),
        (replace(WAITS, state="denied", waits=False), 0, "already_denied", f"{HERE} was denied already."),
        (
            replace(WAITS, waits=False),
            0,
            "nothing_to_approve",
            f"{HERE} does not wait for an approval any more; its round was stopped.",
        ),
        (
            replace(WAITS, parameters_sha256="1" * 64),
            0,
            "other_parameters",
            f"{HERE} waits with other parameters than those that the answer is about; look at them again.",
        ),
        (WAITS, 1_000, "approval_overdue", "The time in which step 1 of task 2 in round 1 could be approved is over."),
    ],
)
def test_what_cannot_be_answered_is_refused_with_a_sentence(
    asked: StepApproval | None, now_ms: int, code: str | None, reason: str | None
) -> None:
    refusal = approval_refusal(request(), RequestIdentity(source="/tests", id="1"), asked, now_ms)
    assert (refusal and (refusal.code, refusal.detail)) == (reason and (code, reason))


@pytest.mark.req("E-15")
@pytest.mark.parametrize(("decision", "event"), [("approve", ApprovalGranted), ("deny", ApprovalDenied)])
def test_an_answer_keeps_who_gave_it_and_why_and_to_which_parameters(decision: str, event: type) -> None:
    asked = RequestIdentity(source="/tests", id="1")
    found = approval_answer(asked, request(decision=decision, reason="So be it.", requester=Requester(name="Ada")))
    assert isinstance(found, event)
    assert (found.requester.name, found.reason, found.parameters_sha256, found.request) == (
        "Ada",
        "So be it.",
        HASH,
        asked,
    )


@pytest.mark.parametrize(
    ("fields", "actor"),
    [
        ({"actor": Actor(id="ada", via="cli")}, Actor(id="ada", via="cli")),
        ({"actor": Actor(id="root", roles=("admin",), verified=True)}, Actor(id="root", roles=("admin",))),
        ({"requester": Requester(name="Ada")}, Actor(id="Ada")),
        ({}, Actor(id="/tests", kind="service")),
    ],
)
def test_an_actor_is_recorded_as_a_claim_that_no_door_has_verified(fields: dict[str, Any], actor: Actor) -> None:
    value = encode_request(request(**fields), source="/tests", request_id="1", time="2026-11-29T00:00:00.000Z")
    received = decode_request(value, {})
    assert isinstance(received.request, RequestApproval)
    assert approval_answer(received.identity, received.request).actor == actor


def test_an_actor_that_names_itself_verified_is_shown_as_a_claim_first() -> None:
    assert Actor(id="admin (cli, verified)").described == "(kafka, not verified) admin (cli, verified)"


# --- which actions wait --------------------------------------------------------------------------------


@pytest.mark.req("E-08")
@pytest.mark.parametrize(
    ("patterns", "marked"),
    [
        ("", set()),
        ("web.*", {"web.search", "web.read"}),
        ("web", {"web.search", "web.read"}),
        ("web.read, ai.process", {"web.read", "ai.process"}),
        ("*", {"web.search", "web.read", "ai.process", "webmail.send"}),
    ],
)
def test_patterns_mark_actions(patterns: str, marked: set[str]) -> None:
    given = tuple(filter(None, patterns.split(", ")))
    names = ("web.search", "web.read", "ai.process", "webmail.send")
    assert {name for name in names if Approval(frozenset(given)).is_needed(name, requested())} == marked
    assert {name for name in names if Approval().is_needed(name, requested(approve=given))} == marked


@pytest.mark.req("E-08")
def test_more_patterns_than_an_event_holds_mark_everything() -> None:
    assert joined(("web.*",), ("ai", "web.*"), ()) == ("ai", "web.*")
    assert joined(("web.*",), ("*",)) == ("*",)
    assert joined((f"a.x{number}" for number in range(100)), ("b",)) == ("*",)


@pytest.mark.req("E-08")
@pytest.mark.parametrize("wrong", ["web.*.read", "web,*.read", "ai process", "web.", ".read", "-web"])
def test_what_is_no_pattern_is_refused_with_a_sentence(wrong: str) -> None:
    with pytest.raises(ValidationError, match="is no pattern; write"):
        Settings(approve=wrong)


@pytest.mark.req("E-08")
@pytest.mark.parametrize("wrong", ["ai.proces", "mail.*", "w.b", "my"])
def test_a_pattern_that_means_no_action_that_there_is_is_known_by_a_sentence(wrong: str) -> None:
    said = meaningless(wrong, {*CATALOG, "my-server.do_it"})
    assert (said or "").startswith(f"'{wrong}' means no action; there are ai.process, document.extract, ")


@pytest.mark.req("E-08")
@pytest.mark.parametrize(
    "right", ["web", "web.*", "web.search, ai", "*", "document.generateReport,", "my-server.do_it", ""]
)
def test_every_way_to_mean_an_action_can_be_set(right: str) -> None:
    patterns = Settings(approve=right).approve_patterns
    assert patterns == {each.strip() for each in right.split(",") if each.strip()}
    assert not any(meaningless(pattern, {*CATALOG, "my-server.do_it"}) for pattern in patterns)


@pytest.mark.req("E-16")
@pytest.mark.parametrize(
    ("given", "expected_ms"), [("90s", 90_000), ("30m", 1_800_000), ("12h", 43_200_000), ("7d", 604_800_000)]
)
def test_how_long_an_approval_is_waited_for_is_written_with_its_unit(given: str, expected_ms: int) -> None:
    assert Settings(approval_expires=given).approval_expires_ms == expected_ms


@pytest.mark.parametrize("wrong", ["7", "0d", "d", "-1d", "1w", "1.5h", "999999d"])
def test_what_is_no_duration_is_refused_with_a_sentence(wrong: str) -> None:
    with pytest.raises(ValidationError, match="is no duration; write it like `30m`, `12h` or `7d`"):
        Settings(approval_expires=wrong)


ASKS = OpenRound(
    closing=False, paused=False, paused_by=None, question=1, question_code="token_budget", question_due_ms=9
)
IN_VAIN = "The request cannot be used: the round asks for {}, and it grants none."


@pytest.mark.req("B-02")
@pytest.mark.parametrize(
    ("asked", "granted", "refusal"),
    [
        (ASKS, {"tokens": 5}, None),
        (ASKS, {"cost_nano_usd": 5}, ("invalid_request", IN_VAIN.format("tokens"))),
        (replace(ASKS, question_code="cost_budget"), {"tokens": 5}, ("invalid_request", IN_VAIN.format("money"))),
        (replace(ASKS, question_code="daily_limit"), {"cost_nano_usd": 5}, None),
        (ASKS, {}, ("invalid_request", "The request cannot be used: it grants neither tokens nor money.")),
        (replace(ASKS, question=None), {"tokens": 5}, ("nothing_to_approve", "Round 1 does not wait for an answer to budget question 1.")),
        (replace(ASKS, question_due_ms=8), {"tokens": 5}, ("approval_overdue", "The time for an answer to budget question 1 is over.")),
        (replace(ASKS, closing=True), {"tokens": 5}, ("round_ended", "Round 1 has ended or is ending already.")),
    ],
)  # fmt: skip
def test_a_grant_that_would_not_help_is_refused(
    asked: OpenRound, granted: dict[str, int], refusal: tuple[str, str] | None
) -> None:
    place = {"round": 1, "task": 1, "attempt": 1, "step": 1, "question": 1}
    answer = RequestBudget(workflow_id="w", **place, decision="approve", **granted)
    identity = RequestIdentity(source="/tests", id="1")
    if refusal is None:
        check_budget_answer(answer, identity, asked, 8)
        return
    with pytest.raises(Refusal) as refused:
        check_budget_answer(answer, identity, asked, 8)
    assert (refused.value.code, refused.value.detail) == refusal
