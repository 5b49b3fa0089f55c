"""The policies that `docs/policies.md` shows are files that can be applied, and decide what the page says."""

import re
from pathlib import Path
from typing import get_args

import pytest

from builders import identity
from poweron_events.event import TaskType
from poweron_events.policy import AppliedPolicy, Group, Policy, Rule, WorkflowLimits
from poweron_events.request import Budgets, RequestWorkflow
from poweron_services.cli.policy_commands import read_policy
from poweron_services.client.policy_words import rule_in_words
from poweron_services.decider.policy_check import problems
from poweron_services.intake.judgement import terms

HOUSE = Path(__file__).parents[3]
POLICIES = HOUSE / "deploy" / "policies"
PAGE = (HOUSE / "docs" / "policies.md").read_text()
EXAMPLES = sorted(path.stem for path in POLICIES.glob("*.toml"))


def section(name: str) -> str:
    """The part of the page about one example."""
    (part,) = [part for part in PAGE.split("\n## ") if f"(../deploy/policies/{name}.toml)" in part]
    return part


def decided(name: str) -> list[tuple[str, str, str]]:
    """The rows of its table: action, types of tasks, decision."""
    rows = re.findall(r"^\| `([\w.]+)` \| ([\w, ]+) \| (.+) \|$", section(name), re.MULTILINE)
    return [(action, kinds, decision) for action, kinds, decision in rows]


def opened_under(policy: Policy, **request: object) -> dict[str, object]:
    applied = AppliedPolicy(1, "ab" * 32, policy)
    asked = RequestWorkflow(prompt="Compare the offers.", **request)
    return terms(asked, identity("1"), marks=(), default_language=None, policy=applied)


def test_there_are_three_examples() -> None:
    assert EXAMPLES == ["bank", "lab", "office"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_page_shows_the_file(name: str) -> None:
    (shown,) = re.findall(r"^```toml\n(.*?)^```$", section(name), re.MULTILINE | re.DOTALL)
    assert shown == (POLICIES / f"{name}.toml").read_text()


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_can_be_applied(name: str) -> None:
    assert list(problems(read_policy(POLICIES / f"{name}.toml"))) == []


@pytest.mark.parametrize(
    ("name", "action", "kinds", "decision"), [(name, *row) for name in EXAMPLES for row in decided(name)]
)
def test_an_example_decides_what_its_table_says(name: str, action: str, kinds: str, decision: str) -> None:
    policy = read_policy(POLICIES / f"{name}.toml")
    in_tasks: tuple[TaskType, ...] = get_args(TaskType)
    rules = policy.terms(1, "ab" * 32)
    found = {
        kind: rule_in_words(policy, rules.rule(action, kind)).rpartition(": ")[2]
        for kind in in_tasks
        if kinds == "any" or kind in kinds.split(", ")
    }
    assert found == dict.fromkeys(found, decision)
    assert found


def test_every_rule_of_an_example_is_in_its_table() -> None:
    for name in EXAMPLES:
        policy = read_policy(POLICIES / f"{name}.toml")
        rules = policy.terms(1, "ab" * 32)
        kinds: tuple[TaskType, ...] = get_args(TaskType)
        used = [rules.rule(action, kind) for action, _, _ in decided(name) for kind in kinds]
        assert [rule for rule in policy.rules if rule not in used] == []


def test_every_field_of_a_policy_is_in_a_table_of_the_page() -> None:
    models = (Policy, Group, Rule, WorkflowLimits)
    fields = {field.alias or name for model in models for name, field in model.model_fields.items()}
    assert fields - set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == set()


def test_of_two_limits_the_smaller_one_applies() -> None:
    bank = read_policy(POLICIES / "bank.toml")
    opened = opened_under(bank, budgets=Budgets(workflow_tokens=1_000, workflow_cost_nano_usd=9 * 10**9))
    assert opened["budgets"] == Budgets(workflow_tokens=1_000, workflow_cost_nano_usd=5 * 10**9)
    assert opened["on_budget"] == "ask"


def test_a_limit_of_steps_narrows_what_a_request_asks_for() -> None:
    lab = read_policy(POLICIES / "lab.toml")
    assert [opened_under(lab, max_steps=steps)["max_steps"] for steps in (5, 100)] == [5, 30]


def test_a_request_that_asks_does_so_under_a_policy_that_stops() -> None:
    office = read_policy(POLICIES / "office.toml")
    assert office.limits.on_budget == "stop"
    assert opened_under(office, on_budget="ask")["on_budget"] == "ask"
    assert opened_under(office)["on_budget"] == "stop"
