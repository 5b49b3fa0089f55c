"""The lists of the settings: what tasks may use at most, checked when a round is opened and again before it runs."""

from typing import Any

import pytest
from doubles import Counting, World, script
from intake_world import Rows, committed, events, request, running
from pydantic import ValidationError

from builders import POLICY, At, Told, new_rules, person, planned, requested, under_policy
from poweron_events.catalog import CATALOG
from poweron_events.log.memory import MemoryLog
from poweron_events.request import WorkflowRequested, workflow_id
from poweron_events.step_events import ActionCompleted
from poweron_services.decider.approval import EVERYTHING, ActionLists
from poweron_services.decider.validation import NotAllowed, check_action
from poweron_services.settings.config import Settings

pytestmark = [pytest.mark.req("X-01")]

ID = workflow_id("/tests", "1")


@pytest.mark.parametrize(
    ("asked", "set_", "allowed"),
    [
        (None, ("ai.*",), ("ai.*",)),
        (("ai.process",), ("ai.*", "web"), ("ai.process",)),
        (("*",), ("ai.*", "web"), ("ai.*", "web")),
        (("web", "mail.send"), ("web.search", "ai.*"), ("web.search",)),
        (("web.*",), ("web",), ("web.*", "web")),
        (("mail.*",), ("web.*",), ()),
        ((), ("web.*",), ()),
        (("web.*",), None, ("web.*",)),
        (None, None, None),
    ],
)
def test_a_round_may_use_what_both_the_request_and_the_settings_allow(asked: Any, set_: Any, allowed: Any) -> None:
    lists = EVERYTHING if set_ is None else ActionLists({"lookup": set_})
    joined = lists.joined_allowed({} if asked is None else {"lookup": asked})
    assert joined == ({} if allowed is None else {"lookup": allowed})


def test_an_action_that_the_new_rules_of_the_round_deny_does_not_run_even_if_it_was_approved() -> None:
    at = At()
    told = Told().tell(requested(**under_policy()), planned(), at.selected(), at.parameters(), at.approval_requested())
    told.tell(*(at.approval_granted(f"by-{name}", actor=person(name)) for name in ("bob", "dora")))
    told.tell(new_rules(told.workflow, 2, POLICY.model_copy(update={"rules": (), "otherwise": "deny"})))
    assert (told.workflow.phase, told.workflow.step.approval) == ("ready", "granted")
    with pytest.raises(NotAllowed, match=r"'document\.extract' is not an action of this task, which may use none"):
        check_action("document.extract", told.workflow, CATALOG)


def test_what_either_denies_is_denied() -> None:
    assert ActionLists(denied=("web.*",)).joined_denied(("ai.process", "web.*")) == ("web.*", "ai.process")


def test_unless_they_are_set_tasks_may_use_the_actions_that_poweron_brings_and_none_of_others() -> None:
    settings = Settings()
    told = Told().tell(requested(), planned(), At().selected())
    lists = ActionLists(settings.allowed_patterns, settings.denied_patterns)
    for action in ("web.search", "web.scrape", "web.crawl", "ai.process", "document.generateReport"):
        lists.check(action, told.workflow)
    with pytest.raises(NotAllowed) as refused:
        lists.check("mail.send", told.workflow)
    assert (refused.value.code, str(refused.value)) == (
        "action_not_allowed",
        "'mail.send' is not an action of this task.",
    )
    assert refused.value.detail == "By the settings a task of type lookup may use ai.*, document.*, web.*."
    assert "web.search" not in settings.allowed_patterns["transform"]


@pytest.mark.parametrize("value", ["web.search.more", "web *", ",".join(["web.*"] * 101)])
def test_a_list_that_names_no_actions_is_refused_where_it_is_read(value: str) -> None:
    with pytest.raises(ValidationError):
        Settings(deny=value)


async def test_an_opening_holds_the_lists_of_the_request_as_far_as_the_settings_go(log: MemoryLog, rows: Rows) -> None:
    lists = ActionLists({"lookup": ("ai.*", "web.*")}, denied=("web.crawl",))
    async with running(log, rows, lists=lists):
        await request(log, "1", allowed_methods={"lookup": ("*",)}, denied_methods=("ai.process",))
        await committed(log, 1)
    (opened,) = await events(log)
    assert isinstance(opened, WorkflowRequested)
    assert opened.allowed_methods == {"lookup": ("ai.*", "web.*")}
    assert opened.denied_methods == ("web.crawl", "ai.process")


@pytest.mark.usefixtures("logged")
async def test_what_the_settings_of_an_executor_deny_does_not_run_whoever_opened_the_round() -> None:
    action = Counting("web.search")
    world = World([action], script("web.search"))
    async with world.process(lists=ActionLists(denied=("web.search",))):
        await world.ask()
        await world.ended(ID)
    (completed,) = (event for event in world.accepted(ID) if isinstance(event, ActionCompleted))
    assert (completed.outcome, completed.code, action.runs) == ("denied", "action_not_allowed", [])
    assert completed.detail == "The settings deny it; denied are web.search."
