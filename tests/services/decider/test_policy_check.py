"""`poweron policy check`: one sentence for each mistake that says what is wrong, where, and what to write instead."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import orjson
import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from poweron_events.event import Model
from poweron_events.policy import PATTERNS_IN_WORDS, Escalation, Grants, Group, Policy, Rule, WorkflowLimits
from poweron_services.cli.main import app
from poweron_services.cli.policy_commands import read_policy
from poweron_services.decider.policy_check import form_problems, problems

HEAD: Final = """\
apply = ["owners"]
groups.owners.members = ["carla"]
groups.risk.members = ["ada", "bob"]
groups.heads.members = ["eve"]
"""
RULE: Final = f"{HEAD}[[rules]]\n"
APPROVAL: Final = f'{RULE}actions = ["web"]\ndecision = "approve"\n'


def check(file: Path) -> tuple[int, str]:
    ended = CliRunner().invoke(app, ["policy", "check", str(file)])
    assert ended.exception is None or isinstance(ended.exception, SystemExit)
    return ended.exit_code, ended.output.removesuffix("\n").replace(str(file), "FILE")


def refused(folder: Path, text: str | bytes, name: str = "policy.toml") -> str:
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    exit_code, said = check(file)
    assert exit_code == 1, said
    return said


FILES = [
    ("policy.toml", "apply = [owners]", "FILE is not valid TOML: …"),
    ("policy.toml", 'apply = ["owners"\n', "FILE is not valid TOML: …"),
    ("policy.toml", f'{HEAD}name = "a"\nname = "b"', "FILE is not valid TOML: …"),
    ("policy.toml", b'name = "B\xfcro"\n', "FILE is not UTF-8."),
    ("policy.toml", "#" * 200_001, "FILE takes 200,001 bytes; the file of a policy may take 200,000."),
    ("policy.json", "", "FILE is not valid JSON: …"),
    ("policy.json", "{'apply': []}", "FILE is not valid JSON: …"),
    ("policy.json", '{"apply": ["owners"], "apply": ["risk"]}', "FILE is not valid JSON: 'apply' is given twice."),
    ("policy.yaml", "apply: [owners]\n", "FILE is not valid JSON: … The name of a TOML file ends in .toml."),
    ("policy.json", "[" * 100_000, "FILE is not a policy: the data is nested too deeply."),
    ("policy.toml", "name = " + "[" * 300 + "]" * 300, "FILE is not a policy: the policy is nested too deeply, or a text in it is not Unicode."),
    ("policy.json", '{"name": "\\ud800"}', "FILE is not a policy: the policy is nested too deeply, or a text in it is not Unicode."),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "sentence"), FILES)
def test_a_file_that_cannot_be_read_says_why(name: str, text: str | bytes, sentence: str, tmp_path: Path) -> None:
    said = refused(tmp_path, text, name)
    before, parser, after = sentence.partition("…")
    assert (said.startswith(before), said.endswith(after or ".")) == (True, True), said
    assert parser or said == sentence


AT_ALL = "must be a table (in JSON, an object) with name, apply, groups, rules, otherwise, limits, perActor, perSource"
IN_GROUP = "members, roles, verified"
IN_RULE = "actions, taskTypes, decision, approvers, from, notRequester, expires, escalate"
IN_QUOTA = "startsPerDay, openWorkflows, tokensPerDay, costUsdPerDay"
IN_LIMITS = "steps, tokens, costUsd, onBudget, grants"
PATTERN = "must be an action (`web.search`), a method (`web` or `web.*`) or `*` for every action"
DURATION = next(words for words in PATTERNS_IN_WORDS.values() if "duration" in words)
DOLLARS = 'must be an amount from 0 to 9999.999999999 US dollars, such as "0.50"'
ONE_OF_THREE = "must be 'allow', 'deny' or 'approve'"
IN_JSON = [
    ("[]", f"the policy {AT_ALL}"),
    ("null", f"the policy {AT_ALL}"),
    ('"allow"', f"the policy {AT_ALL}"),
    ('{"groups": {}}', "`apply` is missing: name the groups that may apply the next policy"),
    ('{"apply": ["owners"]}', "`groups` is missing: list the members of each group that the policy names"),
    ('{"apply": "owners", "groups": {}}', '`apply` must be a list, such as ["owners"]'),
    ('{"apply": [], "groups": {}}', "`apply` must have at least 1 entry"),
    ('{"apply": ["The owners"], "groups": {}}', "entry 1 of `apply` must be the name of a group: lower-case letters, digits, `-` and `_`"),
    ('{"apply": [null], "groups": {}}', "entry 1 of `apply` must be a text"),
    ('{"apply": ["owners"], "groups": ["owners"]}', "`groups` must be a table (in JSON, an object)"),
    ('{"apply": ["owners"], "groups": {"owners": ["carla"]}}', f"group 'owners' must be a table (in JSON, an object) with {IN_GROUP}"),
]  # fmt: skip
AT_THE_TOP = [
    ('default = "deny"', "`default` is not a known field: there are name, apply, groups, rules, otherwise, limits, perActor, perSource"),
    ("name = 7", "`name` must be a text"),
    ("perActor = 5", "`perActor` must be a list: in TOML, begin each quota with `[[perActor]]`"),
    ("[perSource]\nweight = 2", "`perSource` must be a list: in TOML, begin each quota with `[[perSource]]`"),
    ("[[perActor]]\nweight = 2", f"`weight` of `perActor` 1 is not a known field: there are {IN_QUOTA}, groups"),
    ("[[perSource]]\ngroups = []", f"`groups` of `perSource` 1 is not a known field: there are {IN_QUOTA}, sources, weight"),
    ("[[perActor]]\nstartsPerDay = 0", "`startsPerDay` of `perActor` 1 must be at least 1"),
    ("[[perActor]]\nopenWorkflows = 1.5", "`openWorkflows` of `perActor` 1 must be a whole number"),
    ('[[perActor]]\ntokensPerDay = "many"', "`tokensPerDay` of `perActor` 1 must be a whole number"),
    ("[[perActor]]\ncostUsdPerDay = -1", f"`costUsdPerDay` of `perActor` 1 {DOLLARS}"),
    ("[[perSource]]\nweight = 101", "`weight` of `perSource` 1 must be at most 100"),
    ('[[perSource]]\nsources = "/batch"', '`sources` of `perSource` 1 must be a list, such as ["https://portal.example/*"]'),
    ('name = "Bank\\nof today"', "`name` must be one line without control characters"),
    ('groups.audit.members = ["dora\\u0007"]', "entry 1 of `members` of group 'audit' must be a name on one line, without control characters"),
    ('groups.audit.roles = ["\\t"]', "entry 1 of `roles` of group 'audit' must be a name on one line, without control characters"),
    (f'name = "{"x" * 101}"', "`name` must have at most 100 characters"),
    ('otherwise = "approve"', "`otherwise` must be 'allow' or 'deny'"),
    ("otherwise = true", "`otherwise` must be 'allow' or 'deny'"),
    ('groups.risk.people = ["ada"]', f"`people` of group 'risk' is not a known field: there are {IN_GROUP}"),
    ('groups."Risk Team".members = ["ada"]', "the name of group 'Risk Team' must be lower-case letters, digits, `-` and `_`, beginning with a letter"),
    ('groups.audit.members = "dora"', "`members` of group 'audit' must be a list, such as [\"ada\"]"),
    ("groups.audit.members = [7]", "entry 1 of `members` of group 'audit' must be a text"),
    ('groups.audit.members = ["dora", " "]', "entry 2 of `members` of group 'audit' must be a name on one line, without control characters"),
    ('groups.audit.members = [""]', "entry 1 of `members` of group 'audit' must have at least 1 character"),
    (f'groups.audit.members = ["{"x" * 256}"]', "entry 1 of `members` of group 'audit' must have at most 255 characters"),
    (f"groups.audit.members = {[f'p{n}' for n in range(201)]}", "`members` of group 'audit' must have at most 200 entries"),
    ('groups.audit.roles = "auditor"', "`roles` of group 'audit' must be a list, such as [\"auditor\"]"),
    ('groups.audit = { members = ["dora"], verified = "yes" }', "`verified` of group 'audit' must be true or false"),
    ("\n".join(f'groups.g{n}.members = ["ada"]' for n in range(48)), "`groups` must have at most 50 entries"),
    ("limits = 5", f"`limits` must be a table (in JSON, an object) with {IN_LIMITS}"),
    ("limits.dollars = 5", f"`limits.dollars` is not a known field: there are {IN_LIMITS}"),
    ("limits.steps = 0", "`limits.steps` must be at least 1"),
    ("limits.steps = 101", "`limits.steps` must be at most 100"),
    ("limits.steps = 99999999999999999999", "`limits.steps` must be at most 100"),
    ("limits.tokens = 0", "`limits.tokens` must be at least 1"),
    ('limits.tokens = "many"', "`limits.tokens` must be a whole number"),
    ("limits.costUsd = -1", f"`limits.costUsd` {DOLLARS}"),
    ("limits.costUsd = 10_000", f"`limits.costUsd` {DOLLARS}"),
    ("limits.costUsd = nan", f"`limits.costUsd` {DOLLARS}"),
    ("limits.costUsd = true", f"`limits.costUsd` {DOLLARS}"),
    ('limits.costUsd = "$5"', f"`limits.costUsd` {DOLLARS}"),
    ('limits.costUsd = "0,50"', f"`limits.costUsd` {DOLLARS}"),
    ('limits.onBudget = "wait"', "`limits.onBudget` must be 'ask' or 'stop'"),
    ('limits.grants = "risk"', "`limits.grants` must be a table (in JSON, an object) with from, notRequester"),
    ('limits.grants.to = ["risk"]', "`limits.grants.to` is not a known field: there are from, notRequester"),
    ('rules = ["web"]', f"rule 1 must be a table (in JSON, an object) with {IN_RULE}"),
    ('[rules]\nactions = ["web"]', "`rules` must be a list: in TOML, begin each rule with `[[rules]]`"),
    ('[[rules]]\nactions = ["a"]\ndecision = "deny"\n' * 101, "`rules` must have at most 100 entries"),
]  # fmt: skip
IN_A_RULE = [
    ('decision = "deny"', '`actions` of rule 1 is missing: list patterns of actions, such as ["web.*"]'),
    ('actions = "web"\ndecision = "deny"', '`actions` of rule 1 must be a list, such as ["web.*"]'),
    ('actions = []\ndecision = "deny"', "`actions` of rule 1 must have at least 1 entry"),
    ('actions = ["web.*", "*.search"]\ndecision = "deny"', f"entry 2 of `actions` of rule 1 {PATTERN}"),
    ('actions = [""]\ndecision = "deny"', f"entry 1 of `actions` of rule 1 {PATTERN}"),
    ('actions = ["files.read.all"]\ndecision = "deny"', f"entry 1 of `actions` of rule 1 {PATTERN}"),
    (f'actions = {["a"] * 101}\ndecision = "deny"', "`actions` of rule 1 must have at most 100 entries"),
    ('actions = ["web"]', f"`decision` of rule 1 is missing: {ONE_OF_THREE.replace('must be', 'write')}"),
    ('actions = ["web"]\ndecision = "ask"', f"`decision` of rule 1 {ONE_OF_THREE}"),
    ('actions = ["web"]\ndecision = "Deny"', f"`decision` of rule 1 {ONE_OF_THREE}"),
    ('actions = ["web"]\ndecision = "deny"\napprover = 2', f"`approver` of rule 1 is not a known field: there are {IN_RULE}"),
    ('actions = ["web"]\ndecision = "deny"\ntaskTypes = ["reports"]', "entry 1 of `taskTypes` of rule 1 must be 'lookup', 'analysis', 'report' or 'transform'"),
    ('actions = ["web"]\ndecision = "deny"\ntaskTypes = "report"', '`taskTypes` of rule 1 must be a list, such as ["report"]'),
    ('actions = ["a"]\ndecision = "deny"\n[[rules]]\nactions = ["b"]\ndecision = "no"', f"`decision` of rule 2 {ONE_OF_THREE}"),
]  # fmt: skip
IN_AN_APPROVAL = [
    ("approvers = 0", "`approvers` of rule 1 must be at least 1"),
    ("approvers = 11", "`approvers` of rule 1 must be at most 10"),
    ("approvers = 1.5", "`approvers` of rule 1 must be a whole number"),
    ('approvers = "two"', "`approvers` of rule 1 must be a whole number"),
    ('from = "risk"', '`from` of rule 1 must be a list, such as ["risk"]'),
    ('notRequester = "yes"', "`notRequester` of rule 1 must be true or false"),
    ('expires = "soon"', f"`expires` of rule 1 {DURATION}"),
    ('expires = "0h"', f"`expires` of rule 1 {DURATION}"),
    ('expires = "4 hours"', f"`expires` of rule 1 {DURATION}"),
    ("expires = 4", '`expires` of rule 1 must be a text such as "7d"'),
    ('escalate = "4h"', "`escalate` of rule 1 must be a table (in JSON, an object) with after, to"),
    ('escalate = { to = ["heads"] }', '`escalate.after` of rule 1 is missing: write a duration, such as "4h"'),
    ('escalate = { after = "4h" }', "`escalate.to` of rule 1 is missing: name the groups that may answer, too"),
    ('escalate = { after = "4h", to = [] }', "`escalate.to` of rule 1 must have at least 1 entry"),
    ('escalate = { after = 4, to = ["heads"] }', '`escalate.after` of rule 1 must be a text such as "4h"'),
    ('escalate = { after = "4h", to = ["heads"], also = "1d" }', "`escalate.also` of rule 1 is not a known field: there are after, to"),
]  # fmt: skip
FORMS = [
    *(("policy.json", text, sentence) for text, sentence in IN_JSON),
    *(("policy.toml", f"{HEAD}{text}", sentence) for text, sentence in AT_THE_TOP),
    *(("policy.toml", f"{RULE}{text}", sentence) for text, sentence in IN_A_RULE),
    *(("policy.toml", f"{APPROVAL}{text}", sentence) for text, sentence in IN_AN_APPROVAL),
]


@pytest.mark.parametrize(("name", "text", "sentence"), FORMS, ids=[sentence for *_, sentence in FORMS])
def test_a_mistake_in_the_form_is_one_sentence(name: str, text: str, sentence: str, tmp_path: Path) -> None:
    assert refused(tmp_path, text, name) == f"FILE is not a policy: {sentence}."


UNKNOWN = "which `groups` does not define; it defines heads, owners, risk."
NOTHING = "has no effect; remove it, or set `decision` to 'approve'."
CONTENTS = [
    (HEAD.replace('["owners"]', '["admins"]'), f"`apply` names the group 'admins', {UNKNOWN}"),
    (f"{HEAD}groups.empty = {{}}", "Group 'empty' has neither members nor roles; list at least one."),
    (f'{HEAD}groups.audit.members = ["dora", "Dora "]', "Group 'audit' lists 'Dora ' twice, since case and extra spaces do not count; remove one."),
    (f'{HEAD}limits.grants.from = ["bank"]', f"`limits.grants.from` names the group 'bank', {UNKNOWN}"),
    (f"{HEAD}[[perActor]]", "`perActor` 1 limits nothing; set `startsPerDay`, `openWorkflows`, `tokensPerDay` or `costUsdPerDay`, or remove it."),
    (f"{HEAD}[[perSource]]", "`perSource` 1 has no effect; set `startsPerDay`, `openWorkflows`, `tokensPerDay` or `costUsdPerDay` or `weight`, or remove it."),
    (f'{HEAD}[[perActor]]\ngroups = ["bank"]\nstartsPerDay = 1', f"`perActor` 1: `groups` names the group 'bank', {UNKNOWN}"),
    (f'{HEAD}[[perActor]]\nstartsPerDay = 1\n[[perActor]]\ngroups = ["risk"]\nstartsPerDay = 9', "`perActor` 2 can never apply: `perActor` 1 comes first and covers all its actors; move it before `perActor` 1, or remove it."),
    (f'{HEAD}[[perSource]]\nsources = ["/batch*"]\nweight = 2\n[[perSource]]\nsources = ["/batch/1"]\nweight = 3', "`perSource` 2 can never apply: `perSource` 1 comes first and covers all its sources; move it before `perSource` 1, or remove it."),
    (f'{HEAD}[[perSource]]\nsources = ["/b*/1"]\nweight = 2', "`perSource` 1: in '/b*/1' the `*` is not at the end; end the pattern there: '/b*'."),
    (f"{HEAD}[[perActor]]\ncostUsdPerDay = 0", "`perActor` 1: `costUsdPerDay` is 0, so no round would ever be opened; set a larger amount, or remove it."),
    (f'{APPROVAL}from = ["risks"]', f"Rule 1: `from` names the group 'risks', {UNKNOWN}"),
    (f'{APPROVAL}from = ["risk"]\napprovers = 3', "Rule 1 needs 3 approvals, but the groups in `from` have only 2 members and no roles; list more, or require fewer in `approvers`."),
    (f'{APPROVAL}from = ["heads"]\napprovers = 2', "Rule 1 needs 2 approvals, but the groups in `from` have only 1 member and no roles; list more, or require fewer in `approvers`."),
    (APPROVAL.replace("[[rules]]", 'groups.more.members = ["ADA"]\n[[rules]]') + 'from = ["risk", "more"]\napprovers = 3', "Rule 1 needs 3 approvals, but the groups in `from` have only 2 members and no roles; list more, or require fewer in `approvers`."),
    (f'{APPROVAL}from = ["risk"]\nescalate = {{ after = "4h", to = ["head"] }}', f"Rule 1: `escalate.to` names the group 'head', {UNKNOWN}"),
    (f'{APPROVAL}escalate = {{ after = "4h", to = ["heads"] }}', "Rule 1 lets anyone approve, so it has no one to escalate to; name groups in `from`, or remove `escalate`."),
    (f'{APPROVAL}from = ["risk"]\nexpires = "4h"\nescalate = {{ after = "1d", to = ["heads"] }}', "Rule 1 escalates after 1d, but its approvals expire after 4h; lengthen `expires`, or shorten `escalate.after`."),
    (f'{APPROVAL}from = ["risk"]\nexpires = "60m"\nescalate = {{ after = "1h", to = ["heads"] }}', "Rule 1 escalates after 1h, but its approvals expire after 60m; lengthen `expires`, or shorten `escalate.after`."),
    (f'{RULE}actions = ["web"]\ndecision = "deny"\nfrom = ["risk"]', f"Rule 1 denies its actions, so no one approves them and `from` {NOTHING}"),
    (f'{RULE}actions = ["web"]\ndecision = "allow"\napprovers = 2', f"Rule 1 allows its actions, so no one approves them and `approvers` {NOTHING}"),
    (f'{RULE}actions = ["web"]\ndecision = "allow"\nnotRequester = true', f"Rule 1 allows its actions, so no one approves them and `notRequester` {NOTHING}"),
    (f'{RULE}actions = ["web"]\ndecision = "allow"\nexpires = "4h"', f"Rule 1 allows its actions, so no one approves them and `expires` {NOTHING}"),
    (f'{RULE}actions = ["web"]\ndecision = "deny"\nescalate = {{ after = "4h", to = ["heads"] }}', f"Rule 1 denies its actions, so no one approves them and `escalate` {NOTHING}"),
    (f'{RULE}actions = ["*"]\ndecision = "allow"\n[[rules]]\nactions = ["web.search"]\ndecision = "deny"', "Rule 2 can never apply: rule 1 comes first and matches all its actions; move it before rule 1, or remove it."),
    (f'{RULE}actions = ["web"]\ntaskTypes = ["report", "lookup"]\ndecision = "allow"\n[[rules]]\nactions = ["web.*"]\ntaskTypes = ["report"]\ndecision = "deny"', "Rule 2 can never apply: rule 1 comes first and matches all its actions; move it before rule 1, or remove it."),
    (HEAD + "".join(f"groups.g{n}.members = {[f'person-{n}-{m:04}' for m in range(200)]}\n" for n in range(8)), "The policy takes 26,252 bytes as JSON; it may take 16,000, because each round carries its rules, so list fewer members or rules."),
]  # fmt: skip


@pytest.mark.parametrize(("text", "sentence"), CONTENTS, ids=[sentence for *_, sentence in CONTENTS])
def test_a_policy_that_contradicts_itself_is_one_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    assert refused(tmp_path, text) == sentence


VALID: Mapping[str, str] = {
    "the least": 'apply = ["a"]\ngroups.a.members = ["ada"]',
    "a byte order mark": f"\ufeff{HEAD}",
    "line ends of Windows": HEAD.replace("\n", "\r\n"),
    "no rules and everything allowed": f'{HEAD}otherwise = "allow"',
    "a group that no rule names": f'{HEAD}groups.audit.roles = ["auditor"]',
    "only verified owners": f"{HEAD}groups.owners.verified = true",
    "owners by a role": HEAD.replace('members = ["carla"]', 'roles = ["owner"]'),
    "only verified approvers": APPROVAL.replace("[[rules]]", "groups.risk.verified = true\n[[rules]]") + 'from = ["risk"]\napprovers = 2',
    "more approvers than members, and a role": APPROVAL.replace("[[rules]]", 'groups.more.roles = ["officer"]\n[[rules]]') + 'from = ["heads", "more"]\napprovers = 3',
    "a group with members and roles, all verified": f'{HEAD}groups.x = {{ members = ["a"], roles = ["b"], verified = true }}',
    "names that differ by more than case": f'{HEAD}groups.audit.members = ["dora", "dorah"]',
    "the same member in two groups": f'{HEAD}groups.audit.members = ["ada"]',
    "names of fields with underscores": f'{APPROVAL}task_types = ["report"]\nnot_requester = true',
    "defaults that are spelled out": f'{RULE}actions = ["web"]\ndecision = "deny"\napprovers = 1\nfrom = []\nnotRequester = false',
    "a method, all of a method, one action of a tool": f'{RULE}actions = ["web", "mail.*", "files.write_file"]\ndecision = "deny"',
    "an exception before the rule": f'{RULE}actions = ["web.search"]\ndecision = "allow"\n[[rules]]\nactions = ["web"]\ndecision = "deny"',
    "the same actions in other tasks": f'{RULE}actions = ["web"]\ntaskTypes = ["report"]\ndecision = "allow"\n[[rules]]\nactions = ["web"]\ndecision = "deny"',
    "anyone may approve, several have to": f"{APPROVAL}approvers = 10",
    "as many approvers as members": f'{APPROVAL}from = ["risk"]\napprovers = 2',
    "members of several groups": f'{APPROVAL}from = ["risk", "heads"]\napprovers = 3',
    "it expires after the escalation": f'{APPROVAL}from = ["risk"]\nexpires = "61m"\nescalate = {{ after = "1h", to = ["heads"] }}',
    "the longest duration": f'{APPROVAL}expires = "9999d"',
    "an amount as a number": f"{HEAD}limits.costUsd = 0.1",
    "an amount as text": f'{HEAD}limits.costUsd = "9999.999999999"',
    "no money at all": f"{HEAD}limits.costUsd = 0",
    "quotas, the narrower ones first": f'{HEAD}[[perActor]]\ngroups = ["risk"]\nstartsPerDay = 9\n[[perActor]]\nstartsPerDay = 1\ncostUsdPerDay = 2.5',
    "only a weight": f'{HEAD}[[perSource]]\nsources = ["/batch/*"]\nweight = 3',
    "an exception before all sources like it": f'{HEAD}[[perSource]]\nsources = ["/batch/1"]\nweight = 3\n[[perSource]]\nsources = ["/batch*"]\nweight = 2',
    "only limits": f'{HEAD}limits = {{ steps = 100, tokens = 1, onBudget = "ask", grants = {{ from = ["heads"] }} }}',
    "anyone but the requester grants": f"{HEAD}limits.grants.notRequester = true",
}  # fmt: skip


@pytest.mark.parametrize("text", VALID.values(), ids=VALID.keys())
def test_what_only_looks_like_a_mistake_can_be_applied(text: str, tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_bytes(text.encode())
    exit_code, said = check(file)
    assert (exit_code, "FILE can be applied. Its SHA-256 is " in said) == (0, True), said


def test_what_policy_show_prints_as_json_is_the_same_policy(tmp_path: Path) -> None:
    toml, as_json = tmp_path / "policy.toml", tmp_path / "policy.json"
    toml.write_text(f'{APPROVAL}from = ["risk"]\nnotRequester = true\nexpires = "2d"\n[limits]\ncostUsd = 2.50\n')
    written = read_policy(toml)
    as_json.write_bytes(orjson.dumps(written.model_dump(mode="json", by_alias=True)))
    assert read_policy(as_json) == written
    assert written.limits.cost_usd == "2.5"


def test_an_action_that_poweron_does_not_have_is_only_noted(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(f'{RULE}actions = ["web", "mail.send"]\ndecision = "deny"')
    exit_code, said = check(file)
    assert exit_code == 0
    assert "Note: rule 1: 'mail.send' matches no action of PowerOn; it may be one of a tool server." in said


NO_ONE_LEFT = [
    ('from = ["risk"]\napprovers = 2', True),
    ('from = ["heads"]', True),
    ('from = ["risk"]\napprovers = 2\nescalate = { after = "4h", to = ["risk"] }', True),
    ('from = ["risk"]\napprovers = 2\nescalate = { after = "4h", to = ["heads"] }', False),
    ('from = ["risk", "heads"]\napprovers = 2', False),
    ('from = ["risk"]', False),
    ("approvers = 2", False),
]


@pytest.mark.parametrize(("text", "noted"), NO_ONE_LEFT)
def test_a_rule_that_too_few_could_meet_if_one_of_them_asked_is_only_noted(
    text: str, noted: bool, tmp_path: Path
) -> None:
    file = tmp_path / "policy.toml"
    note = (
        "Note: rule 1: if a member of its groups requests the round, too few others are left to approve; list more "
        "members, require fewer in `approvers`, or remove `notRequester`."
    )
    for line, expected in (("\nnotRequester = true", noted), ("", False)):
        file.write_text(f"{APPROVAL}{text}{line}")
        exit_code, said = check(file)
        assert (exit_code, note in said, "Note" in said) == (0, expected, expected)


def test_every_mistake_is_reported_with_its_place(tmp_path: Path) -> None:
    said = refused(tmp_path, f'{RULE}actions = ["web"]\ndecision = "no"\n[[rules]]\ndecision = "deny"')
    first, second = said.removeprefix("FILE is not a policy: ").split("; ")
    assert first.startswith("`decision` of rule 1 ")
    assert second.startswith("`actions` of rule 2 ")


@pytest.mark.parametrize("model", [Policy, Group, Rule, Escalation, Grants, WorkflowLimits])
def test_every_required_field_says_what_to_write(model: type[Model]) -> None:
    required = [name for name, field in model.model_fields.items() if field.is_required()]
    if required:
        with pytest.raises(ValidationError) as raised:
            model.model_validate({})
        assert form_problems(raised.value).count(" is missing: ") == len(required)


def test_a_file_that_is_not_there_is_wrong_usage(tmp_path: Path) -> None:
    assert check(tmp_path / "none.toml") == (2, "FILE cannot be read: No such file or directory.")


def test_a_valid_policy_has_no_problems(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(HEAD)
    assert list(problems(read_policy(tmp_path / "policy.toml"))) == []
