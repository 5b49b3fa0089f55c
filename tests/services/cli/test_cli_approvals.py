"""What the command line shows of an action that waits for a person, without any server."""

import io
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from builders import Told, document
from poweron_events.policy import AnswerTerms, Group
from poweron_projections import open_questions, workflow_excerpts
from poweron_projections.entries import ApprovalEntry, DocumentEntry, WorkflowSummary
from poweron_services.cli import approval_commands, query_commands
from poweron_services.cli.approval_commands import shown
from poweron_services.cli.main import app
from poweron_services.cli.query_commands import print_workflow
from poweron_services.client.approve import MOST_WAITING
from poweron_services.settings.config import Settings

HOSTILE = "a\x1b[2J\x9b\u202egnp.exe"
HARMLESS = r"a\x1b[2J\x9b\u202egnp.exe"
WORKFLOW = Told().id


def asked(**fields: Any) -> ApprovalEntry:
    entry = {
        "workflow_id": WORKFLOW,
        "round": 1,
        "task": 1,
        "attempt": 1,
        "step": 1,
        "action": "web.search",
        "objective": "Look it up.",
        "parameters": {"query": "roof"},
        "parameters_sha256": "0" * 64,
        "prompt": "What does a roof cost?",
        "asked": "2026-11-22T10:00:00.000Z",
        "expires": "2026-11-23T10:00:00.000Z",
    }
    return ApprovalEntry.model_validate(entry | fields)


def test_what_is_decided_about_is_shown_with_what_was_asked_for_and_how_long_it_waits() -> None:
    assert shown(asked()).plain.splitlines() == [
        f"Workflow {WORKFLOW}: web.search",
        "  asked for:  What does a roof cost?",
        "  objective:  Look it up.",
        "  waits since 2026-11-22 10:00:00, until 2026-11-23 10:00:00 (UTC)",
        "  parameters: {",
        '    "query": "roof"',
        "  }",
    ]


class Waiting:
    """Rows in which others' approvals wait for longer than ada's."""

    settings = Settings(actor="ada", _env_file=None)
    pool = None

    def __init__(self, others: int) -> None:
        theirs = AnswerTerms(groups={"risk": Group(members=("bob",))})
        hers = AnswerTerms(groups={"risk": Group(members=("Ada",))}, escalated=True)
        self.entries = [*[asked(terms=theirs)] * others, *[asked(terms=hers, action="web.crawl")] * 3]

    @asynccontextmanager
    async def opened(self, *_: object) -> AsyncGenerator["Waiting", None]:
        yield self

    async def approvals(
        self, _: object, *, limit: int, wanted: Callable[[AnswerTerms], bool] | None
    ) -> list[ApprovalEntry]:
        return [entry for entry in self.entries if wanted is None or wanted(entry.terms)][:limit]


async def nothing(*_: object, **__: object) -> list[object]:
    return []


@pytest.mark.parametrize("choice", ["--mine", "--overdue"])
def test_what_waits_for_you_is_shown_even_if_more_waits_for_others(
    choice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = Waiting(others=MOST_WAITING + 1)
    monkeypatch.setattr(approval_commands, "open_connections", rows.opened)
    monkeypatch.setattr(approval_commands, "bring_rows_on", nothing)
    monkeypatch.setattr(open_questions, "approvals", rows.approvals)
    monkeypatch.setattr(open_questions, "budget_questions", nothing)
    monkeypatch.setattr(workflow_excerpts, "documents", nothing)
    shown_lines = CliRunner().invoke(app, ["approvals", choice, "--limit", "2"]).stdout.splitlines()
    assert [line for line in shown_lines if line.startswith("Workflow ")] == [f"Workflow {WORKFLOW}: web.crawl"] * 2


def entry(name: str, label: str) -> DocumentEntry:
    return DocumentEntry(**{**dict(document(name)), "round": 1, "label": label, "seq": 0})


def test_the_documents_that_the_action_reads_are_named() -> None:
    given = {"documentList": ["docList:round1_request", "docItem:r1d1:a.pdf", "docList:round1_task1_action1_gone"]}
    found = [entry("a.pdf", "round1_request"), entry("b.pdf", "round1_request"), entry("c.pdf", "other")]
    lines = shown(asked(parameters=given), found).plain.splitlines()
    assert lines[3:5] == ["  documents:  round1_request: a.pdf, b.pdf", "  documents:  round1_task1_action1_gone: none"]


def test_a_long_objective_keeps_its_indent_in_a_terminal() -> None:
    lines = shown(asked(objective="Look it up in every paper there is."), width=40).plain.splitlines()
    assert lines[2:4] == ["  objective:  Look it up in every paper", "              there is."]


@pytest.mark.req("S23")
@pytest.mark.parametrize("field", ["action", "objective", "prompt", "parameters"])
def test_nothing_that_is_decided_about_acts_on_the_terminal(field: str) -> None:
    text = shown(asked(**{field: {"query": HOSTILE, HOSTILE: [HOSTILE]} if field == "parameters" else HOSTILE})).plain
    assert not {"\x1b", "\x9b", "\u202e"} & set(text)
    assert HARMLESS.removeprefix(r"a\x1b") in text


@pytest.mark.req("S23")
def test_a_parameter_cannot_feign_another_line() -> None:
    feigned = asked(parameters={"query": 'roof"\n}\nWorkflow: harmless'}, objective="a\n  parameters: {}")
    assert len(shown(feigned).plain.splitlines()) == len(shown(asked()).plain.splitlines())


def test_parameters_are_shown_in_full_since_the_answer_is_bound_to_them() -> None:
    assert "x" * 4_000 in shown(asked(parameters={"query": "x" * 4_000})).plain


def listed(capsys: pytest.CaptureFixture[str], **fields: Any) -> str:
    """The workflow's line in the list."""
    listed_in(**fields)
    return capsys.readouterr().out


def listed_in(**fields: Any) -> None:
    """List the workflow."""
    numbers = ("current_round", "current_task", "attempt", "current_step", "current_action", "steps", "tokens", "seq")
    texts = ("workflow_mode", "message", "updated", "cursor")
    given = {
        **dict.fromkeys(numbers, 1),
        **dict.fromkeys(texts, ""),
        "workflow_id": WORKFLOW,
        "status": "running",
        "phase": "select",
        **dict.fromkeys(("stopped_by", "forked_from", "forked_seq")),
        "frozen": False,
        "stuck": False,
        "prompt": "Write it.",
        "max_steps": 5,
        "cost_nano_usd": 0,
        "opened": "2026-11-22T10:00:00.000Z",
    }
    print_workflow(WorkflowSummary.model_validate(given | fields))


def test_a_workflow_that_waits_for_a_person_or_is_stuck_stands_out_in_the_list(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert listed(capsys, phase="approve") == f"{WORKFLOW}  2026-11-22 10:00  approval     Write it.\n"
    assert listed(capsys, stuck=True) == f"{WORKFLOW}  2026-11-22 10:00  stuck        Write it.\n"
    assert listed(capsys, phase="act") == f"{WORKFLOW}  2026-11-22 10:00  running      Write it.\n"


@pytest.mark.req("S23")
def test_a_prompt_in_the_list_stays_on_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert listed(capsys, prompt=f"{HOSTILE}\nand more").endswith(f"  {HARMLESS} and more\n")


def test_the_list_stays_a_table_in_a_terminal_of_eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Console(file=io.StringIO(), width=80, color_system=None, force_terminal=True)
    monkeypatch.setattr(query_commands, "stdout", terminal)
    with terminal.capture() as captured:
        listed_in(prompt="Which deadline is the earliest of all?", status="cancelled")
        listed_in(prompt="Write it.", phase="approve")
    assert captured.get().splitlines() == [
        f"{WORKFLOW}  11-22 10:00  cancelled  Which deadline is…",
        f"{WORKFLOW}  11-22 10:00  approval   Write it.",
    ]
