"""Policies follow one another under a key of their own; their rules decide whose answers count in a round."""

from typing import Any

import pytest
from test_pauses import SECOND, Timed

from builders import (
    POLICY,
    At,
    Policies,
    Told,
    applied,
    identity,
    new_rules,
    paused,
    person,
    planned,
    requested,
    resumed,
)
from builders import under_policy as under
from poweron_events.actor import Actor
from poweron_events.codec import dumps, sha256
from poweron_events.event import RECORDED
from poweron_events.fold.policy_chain import policy_sha256
from poweron_events.fold.questions import approval_terms
from poweron_events.policy import AnswerTerms, AppliedPolicy, Escalation, Grants, Group, Policy, Rule
from poweron_events.request import Requester
from poweron_events.round_events import BudgetGranted
from poweron_events.stream import WorkflowEvent

HOUR = 3_600  # seconds
CHANGED = sha256(dumps({"documentList": ["docList:round1_request"], "prompt": "Only the total."}))


def asked(**fields: object) -> Told:
    """A step under the policy that waits for two members of `risk`; ada requested it."""
    at = At()
    opening = requested(**{**under(), **fields})
    return Told().tell(opening, planned(), at.selected(), at.parameters(), at.approval_requested())


def verdict(told: Told, event: WorkflowEvent) -> str:
    told.tell(event)
    return told.verdicts[-1]


def granted(name: str, **fields: object) -> WorkflowEvent:
    return At().approval_granted(f"by-{name}", actor=person(name), **fields)


# --- the policies one after another


@pytest.mark.req("E-03")
def test_each_policy_names_the_one_before_and_its_actor_is_one_whom_that_one_lets() -> None:
    first = applied(1)
    told = Policies()
    assert verdict(told, first) == "accepted"
    stranger = applied(2, previous=first).model_copy(update={"actor": person("mallory")})
    assert verdict(told, stranger) == "superseded"
    assert verdict(told, applied(2)) == "superseded", "it names no policy before it"
    assert verdict(told, applied(3, previous=first)) == "superseded", "number 2 is missing"
    assert verdict(told, applied(2, previous=first)) == "accepted"
    assert told.workflow.policy == AppliedPolicy(2, applied(2).sha256, applied(2).policy)


def test_the_hash_of_a_policy_never_changes_from_release_to_release() -> None:
    """Each policy names the one before by it."""
    assert policy_sha256(POLICY) == "68c0b7626b7cc44b189d2cf5577d44cee7c3201796a53d8c83c1aa46eff2e258"


def test_a_policy_under_the_key_of_a_workflow_and_a_workflow_under_theirs_have_no_effect() -> None:
    assert verdict(Told(), applied(1)) == "superseded"
    assert verdict(Policies(), requested()) == "superseded"


@pytest.mark.parametrize("name", ["CARLA", " carla ", "\uff43arla", "car\u200bla"])
def test_neither_case_nor_spaces_nor_widths_make_another_actor(name: str) -> None:
    first = applied(1)
    second = applied(2, previous=first).model_copy(update={"actor": person(name)})
    assert [verdict(told, event) for told in [Policies()] for event in (first, second)] == ["accepted", "accepted"]


def test_a_role_counts_only_if_a_door_verified_it() -> None:
    group = Group(roles=("risk-officer",))
    claimed = Actor(id="mallory", roles=("risk-officer",))
    assert not group.has(claimed)
    assert group.has(claimed.model_copy(update={"verified": True}))
    assert not Group(members=("ada",), verified=True).has(person("ada"))


# --- four eyes


@pytest.mark.req("E-08")
def test_it_takes_two_members_of_the_groups_other_than_the_requester() -> None:
    told = asked()
    assert verdict(told, granted("mallory")) == "superseded", "no member"
    assert verdict(told, granted("ada")) == "superseded", "she requested it"
    assert verdict(told, granted("eve")) == "superseded", "not before the escalation"
    assert verdict(told, At().approval_granted("nameless")) == "superseded"
    assert verdict(told, granted("bob")) == "accepted"
    assert (told.workflow.phase, approval_terms(told.workflow).missing) == ("approve", 1)
    assert verdict(told, granted("BOB ")) == "superseded", "once per actor"
    assert verdict(told, granted("dora")) == "accepted"
    assert (told.workflow.phase, told.workflow.step.approval) == ("ready", "granted")
    assert [actor.id for actor in told.workflow.step.approved_by] == ["bob", "dora"]


def test_one_denial_denies_and_the_requester_may_deny() -> None:
    for name, expected in (("bob", "accepted"), ("ada", "accepted"), ("mallory", "superseded")):
        told = asked().tell(granted("dora"))
        assert verdict(told, At().approval_denied(f"by-{name}", actor=person(name))) == expected
        assert told.workflow.step.approval == ("denied" if expected == "accepted" else "asked")


def test_no_action_is_claimed_before_it_was_approved_but_a_fork_may_take_its_result_over() -> None:
    at = At()
    told = Told().tell(requested(**under()), planned(), at.selected(), at.parameters())
    assert verdict(told, at.started()) == "superseded"
    assert verdict(told, at.started(claim=RECORDED)) == "accepted"


def test_an_approval_that_waits_too_long_goes_to_further_groups_once() -> None:
    told = asked()
    assert verdict(told, At().escalated()) == "accepted"
    assert verdict(told, At().escalated()) == "superseded"
    assert verdict(told, granted("eve")) == "accepted"
    assert verdict(told, granted("bob")) == "accepted"
    assert told.workflow.step.approval == "granted"


def test_an_expiry_has_no_actor_and_counts_when_it_is_written_since_the_fold_has_no_clock() -> None:
    told = asked()
    assert verdict(told, At().approval_denied()) == "accepted"
    assert told.workflow.step.approval == "denied"


@pytest.mark.req("E-08")
def test_changed_parameters_are_approved_by_others_than_their_proposer() -> None:
    told = asked().tell(granted("bob"))
    assert verdict(told, At().parameters_changed(actor=person("ada"))) == "superseded", "she requested it"
    assert verdict(told, At().parameters_changed(actor=person("bob"))) == "accepted"
    assert told.workflow.step.parameters.parameters["prompt"] == "Only the total."
    assert verdict(told, granted("dora")) == "superseded", "those are the parameters before"
    assert verdict(told, granted("bob", parameters_sha256=CHANGED)) == "superseded", "he proposed them"
    assert verdict(told, granted("dora", parameters_sha256=CHANGED)) == "accepted"
    assert told.workflow.phase == "approve"


def test_without_a_policy_changed_parameters_take_one_other_person() -> None:
    at = At()
    told = Told().tell(requested(), planned(), at.selected(), at.parameters(), at.approval_requested())
    told.tell(at.parameters_changed(actor=person("bob")))
    assert verdict(told, granted("Bob", parameters_sha256=CHANGED)) == "superseded"
    assert verdict(told, at.approval_granted(parameters_sha256=CHANGED)) == "superseded", "it may be Bob again"
    assert verdict(told, granted("dora", parameters_sha256=CHANGED)) == "accepted"


def test_an_approval_expires_and_escalates_when_the_rule_says_so_not_the_process() -> None:
    rule = Rule(
        actions=("*",),
        decision="approve",
        from_=("risk",),
        expires="2h",
        escalate=Escalation(after="1h", to=("heads",)),
    )
    story, at = Timed(), At()
    opening = requested(**under() | {"policy": POLICY.model_copy(update={"rules": (rule,)}).terms(1, "ab" * 32)})
    for seconds, event in enumerate((opening, planned(), at.selected(), at.parameters())):
        story.at(seconds, event)
    step = story.at(4, at.approval_requested(expires_ms=1)).step
    assert (step.approval_due_ms, step.escalation_due_ms) == ((2 * HOUR + 4) * SECOND, (HOUR + 4) * SECOND)
    story.at(10, paused())
    after = story.at(110, resumed()).step
    assert (after.approval_due_ms, after.escalation_due_ms) == ((2 * HOUR + 104) * SECOND, (HOUR + 104) * SECOND)


def test_answers_in_a_pause_leave_the_time_limits_as_they_would_be() -> None:
    story, at = Timed(), At()
    for seconds, event in enumerate((requested(**under()), planned(), at.selected(), at.parameters())):
        story.at(seconds, event)
    story.at(4, at.approval_requested())
    story.at(10, paused())
    story.at(50, granted("bob"))
    after = story.at(110, resumed())
    assert after.step.escalation_due_ms == (HOUR + 104) * SECOND
    assert after.current.waited_ms == 106 * SECOND
    assert story.at(120, granted("dora")).current.waited_ms == 116 * SECOND


# --- new rules for an open round


def test_rules_of_a_newer_policy_replace_those_of_the_opening_once() -> None:
    told = asked()
    assert verdict(told, new_rules(told.workflow, 1)) == "superseded"
    assert verdict(told, new_rules(told.workflow, 2)) == "accepted"
    assert told.workflow.current.policy.number == 2
    assert verdict(told, new_rules(told.workflow, 2)) == "superseded"


def under_rules(*rules: Rule) -> Policy:
    return POLICY.model_copy(update={"rules": rules})


ANY_TWO = Rule(actions=("*",), decision="approve", approvers=2)
TWO_OF_RISK = Rule(actions=("*",), decision="approve", approvers=2, from_=("risk",), not_requester=True)
ONE_OF_RISK = Rule(actions=("*",), decision="approve", from_=("risk",))
ONE_OF_HEADS = Rule(actions=("*",), decision="approve", from_=("heads",))


def asked_under(rule: Rule) -> Told:
    return asked(policy=under_rules(rule).terms(1, "ab" * 32))


def test_only_answers_that_count_under_the_new_rules_are_kept() -> None:
    told = asked_under(ANY_TWO).tell(granted("ada"))
    told.tell(new_rules(told.workflow, 2, under_rules(TWO_OF_RISK)))
    assert told.workflow.step.approved_by == (), "ada requested it"
    assert [verdict(told, granted(name)) for name in ("bob", "dora")] == ["accepted", "accepted"]
    assert [actor.id for actor in told.workflow.step.approved_by] == ["bob", "dora"]


def test_an_approval_that_is_not_enough_under_the_new_rules_is_asked_for_again() -> None:
    told = asked_under(ONE_OF_HEADS).tell(granted("eve"))
    assert told.workflow.step.approval == "granted"
    told.tell(new_rules(told.workflow, 2, under_rules(TWO_OF_RISK)))
    assert (told.workflow.phase, told.workflow.step.approval) == ("ready", None)
    assert verdict(told, At().started()) == "superseded"
    assert verdict(told, At().approval_requested()) == "accepted"


def test_answers_that_are_enough_under_the_new_rules_approve_at_once() -> None:
    told = asked().tell(granted("bob"))
    told.tell(new_rules(told.workflow, 2, under_rules(ONE_OF_RISK)))
    assert (told.workflow.phase, told.workflow.step.approval) == ("ready", "granted")
    assert verdict(told, At().started()) == "accepted"


@pytest.mark.parametrize("decision", ["allow", "deny"])
def test_an_approval_that_the_new_rules_do_not_need_is_left_to_the_executor(decision: str) -> None:
    told = asked().tell(granted("bob"))
    told.tell(new_rules(told.workflow, 2, under_rules(Rule(actions=("*",), decision=decision))))
    assert (told.workflow.phase, told.workflow.step.approval) == ("ready", None)
    assert verdict(told, granted("mallory")) == "superseded"


def test_an_escalation_begins_again_with_the_new_rules() -> None:
    told = asked().tell(At().escalated())
    told.tell(new_rules(told.workflow, 2))
    assert verdict(told, granted("eve")) == "superseded"
    assert verdict(told, At().escalated(to=("everyone",))) == "superseded", "those groups are not asked"
    assert verdict(told, At().escalated()) == "accepted"


def test_whoever_requested_a_round_of_an_older_release_may_not_approve_it_either() -> None:
    at = At()
    told = Told().tell(requested(requester=Requester(name="ada")), planned())
    told.tell(new_rules(told.workflow, 1), at.selected(), at.parameters(), at.approval_requested())
    assert [verdict(told, granted(name)) for name in ("Ada", "bob")] == ["superseded", "accepted"]


def test_a_round_without_a_policy_gets_one() -> None:
    told = Told().tell(requested(), planned())
    assert verdict(told, new_rules(told.workflow, 1)) == "accepted"
    at = At()
    told.tell(at.selected(), at.parameters())
    assert verdict(told, at.started()) == "superseded"


# --- budgets


def test_only_the_groups_of_the_policy_grant_a_larger_budget() -> None:
    grants = Grants(from_=("risk",), not_requester=True)
    limited = Policy(apply=("admins",), groups=POLICY.groups, otherwise="allow", limits={"grants": grants})
    at = At(0, 0, 0)

    def answered(name: str | None) -> str:
        opening = requested(on_budget="ask", **under() | {"policy": limited.terms(1, "ab" * 32)})
        told = Told().tell(opening, at.budget_requested("plan"))
        event: BudgetGranted = at.budget_granted(actor=name and person(name))
        return verdict(told, event)

    assert [answered(name) for name in ("bob", "ada", "eve", None)] == ["accepted", *["superseded"] * 3]


def test_a_question_about_a_daily_limit_is_over_with_the_day_and_no_other_is() -> None:
    """What grants more than nothing, or answers another question, has to come from a person."""
    at = At(0, 0, 0)

    def ended(code: str, **fields: Any) -> str:
        told = Told().tell(requested(on_budget="ask"), at.budget_requested("plan", code=code))
        return verdict(told, at.budget_granted(**{"tokens": 0, "request": None, **fields}))

    assert ended("daily_limit") == "accepted"
    assert ended("token_budget") == "superseded"
    assert ended("daily_limit", tokens=1) == "superseded"
    assert ended("daily_limit", cost_nano_usd=1) == "superseded"
    assert ended("daily_limit", tokens=1, request=identity("by a person")) == "accepted"


def test_the_first_rule_that_matches_decides() -> None:
    rules = (
        Rule(actions=("document",), task_types=("report",), decision="deny"),
        Rule(actions=("document.extract", "web.*"), decision="approve"),
        Rule(actions=("document.*",), decision="allow"),
    )
    terms = Policy(apply=("admins",), groups={}, rules=rules).terms(1, "ab" * 32)
    decisions = [
        terms.rule(action, kind).decision
        for action, kind in (
            ("document.extract", "report"),
            ("document.extract", "lookup"),
            ("document.generate", "lookup"),
            ("web.search", "report"),
            ("mail.send", "lookup"),
        )
    ]
    assert decisions == ["deny", "approve", "allow", "approve", "deny"]


def test_the_terms_of_a_round_hold_only_the_groups_that_its_rules_name() -> None:
    assert sorted(applied().policy.terms(1, "ab" * 32).groups) == ["heads", "risk"]


def test_whoever_answers_nothing_that_is_restricted_needs_no_name() -> None:
    assert AnswerTerms().objection(None, "approve") is None
