"""What was allowed: the policy of the time decides, then the settings of its processes."""

from typing import Any

import pytest
from process_records import instance_started

from builders import POLICY, applied, person
from poweron_events.actor import Actor
from poweron_events.instance_events import OfferedAction
from poweron_events.policy import Policy, Rule
from poweron_projections.entries import InstanceEntry, PolicyEntry
from poweron_services.client.permissions import MayApprove, Permission, permissions

READ, CRAWL = (OfferedAction(action=name, effect_class="pure") for name in ("document.extract", "web.crawl"))
ADA = person("ada")


def process(instance: str = "host-1-a", **fields: Any) -> InstanceEntry:
    given = {"roles": ("executor", "intake"), "actions": (READ, CRAWL), "denied": ()}
    record = instance_started(instance, **{**given, **fields})
    return InstanceEntry(instance=instance, record=record, started="", ended=None)


def entry(policy: Policy = POLICY) -> PolicyEntry:
    event = applied(1, policy)
    fields = event.model_dump(exclude={"policy", "request", "actor"})
    return PolicyEntry(**fields, name=event.policy.name, policy=event.policy, actor=event.actor, time="")


def test_without_a_policy_everything_that_the_settings_do_not_deny_is_allowed() -> None:
    found = permissions(None, [process(denied=("web.*",))])
    assert found == [
        Permission(action="document.extract", decision="allowed", by="nothing", processes=("host-1-a",)),
        Permission(action="web.crawl", decision="denied", by="settings"),
    ]


def test_the_policy_says_how_many_of_whom_have_to_approve() -> None:
    extract, crawl = permissions(entry(), [process()])
    assert (extract.decision, extract.by, extract.rule) == ("approval", "policy", 1)
    assert (extract.approvers, extract.groups, extract.not_requester) == (2, ("risk",), True)
    assert (crawl.decision, crawl.by, crawl.rule) == ("allowed", "policy", 2)


@pytest.mark.parametrize(
    ("actor", "expected"),
    [
        (ADA, MayApprove(may=True, not_own_requests=True)),
        (
            person("eve"),
            MayApprove(may=False, reason="eve may not answer this; only members of risk may."),
        ),
    ],
)
def test_of_an_actor_it_says_whether_they_could_approve(actor: Actor, expected: MayApprove) -> None:
    extract, crawl = permissions(entry(), [process()], actor=actor)
    assert (extract.actor, crawl.actor) == (expected, None)


def test_types_of_tasks_are_named_only_where_they_differ() -> None:
    only_reports = Rule(actions=("web.*",), task_types=("report",), decision="deny")
    policy = POLICY.model_copy(update={"rules": (only_reports, *POLICY.rules)})
    extract, *crawl = permissions(entry(policy), [process()])
    assert extract.task_types == ()
    assert [(each.task_types, each.decision) for each in crawl] == [
        (("lookup", "analysis", "transform"), "allowed"),
        (("report",), "denied"),
    ]


def test_an_allow_list_that_leaves_an_action_out_denies_it_for_its_type_of_task() -> None:
    crawl = permissions(None, [process(allowed={"lookup": ("document.*",)})], ["web.crawl"])
    assert [(each.task_types, each.decision) for each in crawl] == [
        (("lookup",), "denied"),
        (("analysis", "report", "transform"), "allowed"),
    ]


def test_only_processes_that_offer_the_action_and_do_not_deny_it_could_execute_it() -> None:
    processes = [
        process("a"),
        process("b", denied=("web",)),
        process("c", actions=(READ,)),
        process("d", roles=("planner",)),
        process("e", actions=(), actions_left_out=3),
    ]
    (crawl,) = permissions(None, processes, ["web.crawl"])
    assert (crawl.decision, crawl.processes) == ("allowed", ("a", "e"))


def test_what_every_intake_denies_no_round_may_do() -> None:
    intake = process("intake", roles=("intake",), denied=("web",))
    (crawl,) = permissions(None, [process("a", roles=("executor",)), intake], ["web.crawl"])
    assert (crawl.decision, crawl.by) == ("denied", "settings")


def test_an_action_that_a_process_marks_needs_an_approval_without_any_policy() -> None:
    marked = OfferedAction(action="mail.send", effect_class="at_most_once", approve=True)
    (send,) = permissions(None, [process(actions=(marked,))], actor=ADA)
    assert (send.decision, send.by, send.approvers, send.actor) == ("approval", "settings", 1, MayApprove(may=True))


def test_an_action_that_no_process_offers_is_answered_for_if_it_is_named() -> None:
    (send,) = permissions(entry(), [process()], ["mail.send"])
    assert (send.decision, send.by, send.processes) == ("allowed", "policy", ())
    assert permissions(entry(), [process()], ["mail.*"]) == []
    (send,) = permissions(entry(POLICY.model_copy(update={"rules": ()})), [], ["mail.send"])
    assert (send.decision, send.by, send.rule) == ("denied", "policy", None)
