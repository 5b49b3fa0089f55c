"""What a client is told where it gets no answer: facts and a code below, commands in the command line only."""

import ast
import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
import typer

import poweron_services
from poweron_services.cli.advice import WHERE
from poweron_services.cli.context import AS_JSON
from poweron_services.cli.error_messages import sentences
from poweron_services.cli.event_lines import tell_untaken
from poweron_services.client.client_errors import (
    AskedFor,
    ClientError,
    ClientErrorCode,
    LastAnswer,
    NewerRelease,
    NotAWorkflowId,
    NothingToApprove,
    NothingToEdit,
    NotServed,
    PendingRequest,
    RoundEnded,
    RoundOpen,
    RoundOverdue,
    RowsBehind,
    UnknownSeq,
    UnknownWorkflow,
    WorkflowPending,
)

PACKAGE = Path(poweron_services.__file__).parent
CODES = (Path(__file__).parents[3] / "docs" / "codes.md").read_text()
OURS = re.compile(r"\bpoweron [a-z]|POWERON_|--[a-z]|Ctrl-C")
ID = "e4d9c3d3-4439-547e-a89e-4165bcddd933"
AT = "2026-11-22T18:18:21.658Z"

SAID: dict[str, tuple[ClientError, str, str]] = {
    "no id": (NotAWorkflowId("nope"), "'nope' is not a workflow's id", "`poweron workflows` lists them."),
    "unknown": (UnknownWorkflow(ID), f"There is no workflow {ID}", "`poweron workflows` lists all workflows."),
    "pending": (
        WorkflowPending(ID, PendingRequest(12.3, 0, is_served=False, key=None)),
        f"Workflow {ID} was requested 12 s ago and is not open yet: no process is serving",
        f"Start `poweron serve` on these servers: it does the work. `poweron watch {ID}` waits for it, `poweron cancel {ID}` cancels it.",
    ),
    "in its turn": (
        WorkflowPending(ID, PendingRequest(0.4, 7, is_served=True, key=None)),
        f"Workflow {ID} was requested 0 s ago and is not open yet: it waits for its turn, behind at most 7 others",
        f"`poweron watch {ID}` waits for it, `poweron cancel {ID}` cancels it.",
    ),
    "next": (
        WorkflowPending(ID, PendingRequest(0.4, 0, is_served=True, key=None)),
        f"Workflow {ID} was requested 0 s ago and is not open yet: it is the next one",
        f"`poweron watch {ID}` waits for it, `poweron cancel {ID}` cancels it.",
    ),
    "opened just now": (WorkflowPending(ID, None), f"Workflow {ID} was opened just now", "Repeat the command."),
    "open": (
        RoundOpen(ID, 2, waits_for_approval=False),
        f"Round 2 of workflow {ID} is still running",
        f"`poweron watch {ID}` follows it to its end, `poweron cancel {ID}` cancels it; then ask again.",
    ),
    "waiting": (
        RoundOpen(ID, 1, waits_for_approval=True),
        f"Round 1 of workflow {ID} is still running",
        f"It waits for an approval, which `poweron approve {ID}` and `poweron deny {ID}` answer. `poweron watch {ID}` follows it to its end, `poweron cancel {ID}` cancels it; then ask again.",
    ),
    "ended": (
        RoundEnded(ID, 3),
        f"Round 3 of workflow {ID} has already ended: there is nothing to cancel",
        f"`poweron history {ID}` shows the outcome.",
    ),
    "never asked": (
        NothingToApprove(ID, None),
        f"Nothing in workflow {ID} waits for an approval",
        "`poweron approvals` lists all pending approvals.",
    ),
    "approved": (
        NothingToApprove(ID, LastAnswer((1, 2, 1, 3), "approved", "Ada", AT)),
        f"Nothing in workflow {ID} waits for an approval",
        "Step 3 of task 2 in round 1 was approved by Ada at 2026-11-22 18:18:21 (UTC). `poweron approvals` lists all pending approvals.",
    ),
    "expired": (
        NothingToApprove(ID, LastAnswer((1, 2, 2, 3), "expired", None, AT)),
        f"Nothing in workflow {ID} waits for an approval",
        "Step 3 of task 2 in round 1, attempt 2, expired at 2026-11-22 18:18:21 (UTC), which counts as denied. `poweron approvals` lists all pending approvals.",
    ),
    "no such event": (
        UnknownSeq(ID, 99, superseded=False, nearest=15, last=15),
        f"Event 99 of workflow {ID} does not exist: the last event is 15. The nearest accepted one is 15",
        f"`poweron events {ID}` lists them.",
    ),
    "a superseded event": (
        UnknownSeq(ID, 6, superseded=True, nearest=5, last=15),
        f"Event 6 of workflow {ID} was superseded: it changed nothing. The nearest accepted one is 5",
        f"`poweron events {ID}` lists them.",
    ),
    "no decision to edit": (
        NothingToEdit(ID, 6, "the parameters"),
        f"Event 6 of workflow {ID} is not followed by a decision about the parameters",
        f"`poweron events {ID}` lists them.",
    ),
    "newer": (
        NewerRelease(ID, 0, what="opens a round by the rules number 2", knows="the rules number 1"),
        f"Workflow {ID} was worked on by a newer release of PowerOn: event 0 opens a round by the rules number 2, and this release knows the rules number 1",
        "Install that release, or a later one; `poweron --version` shows the installed one.",
    ),
    "behind": (
        RowsBehind(ID, 60.0),
        f"The answer is in the log of workflow {ID}, but the rows in Postgres do not hold it after 60 s",
        f"`poweron events {ID}` updates them and shows it. `poweron status` shows which server answers. {WHERE}",
    ),
    "a request": (
        NotServed(ID, "request", 60.0),
        "No process has taken the request within 60 s. It remains in the log",
        f"As soon as a `poweron serve` runs on these servers, it does the work, and `poweron watch {ID}` shows it.",
    ),
    "a cancellation": (
        NotServed(ID, "cancellation", 60.0),
        "No process has taken the cancellation within 60 s. It remains in the log",
        f"As soon as a `poweron serve` runs on these servers, it cancels the round, and `poweron watch {ID}` shows it.",
    ),
    "an answer": (
        NotServed(ID, "answer", 60.0),
        "No process has taken the answer within 60 s. It remains in the log",
        f"As soon as a `poweron serve` runs on these servers, it judges the answer, and `poweron watch {ID}` shows the outcome.",
    ),
    "overdue": (
        RoundOverdue(ID, 1),
        f"The time for workflow {ID} is over, and no process has ended it",
        "As soon as a `poweron serve` runs on these servers, it does.",
    ),
}
"""An error, the sentence of the client, and what the command line adds."""


@pytest.mark.parametrize("name", SAID)
def test_the_command_line_adds_its_commands_to_what_the_client_says(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    error, sentence, added = SAID[name]
    assert str(error) == sentence
    assert told(error, as_json=False, capsys=capsys) == (exit_code(error), "", f"{sentence}. {added}")


@pytest.mark.parametrize("name", SAID)
def test_a_program_is_given_the_code_beside_the_sentence(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    error, sentence, added = SAID[name]
    ended, printed, _ = told(error, as_json=True, capsys=capsys)
    assert (ended, json.loads(printed)) == (exit_code(error), {"error": f"{sentence}. {added}", "code": error.code})


def exit_code(error: ClientError) -> int:
    """What was typed wrong is wrong usage; the rest has failed."""
    return 2 if error.code == "not_a_workflow_id" else 1


def told(error: ClientError, *, as_json: bool, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """How a command ends that meets the error: its exit code, stdout and stderr."""
    token = AS_JSON.set(as_json)
    try:
        with pytest.raises(typer.Exit) as ended, sentences():
            raise error
    finally:
        AS_JSON.reset(token)
    printed, said = capsys.readouterr()
    return ended.value.exit_code, printed, said.strip()


def test_every_error_of_a_client_has_a_code_of_its_own_which_the_page_of_codes_names() -> None:
    codes = [each.code for each in get_args(ClientError)]
    assert sorted(codes) == sorted(get_args(ClientErrorCode))
    assert {error.code for error, _, _ in SAID.values()} == set(codes)
    assert [code for code in codes if f"`{code}`" not in CODES] == []


@pytest.mark.parametrize("asked", get_args(AskedFor))
def test_whoever_waits_in_vain_is_told_how_to_serve(asked: Any, capsys: pytest.CaptureFixture[str]) -> None:
    tell_untaken(asked)
    assert capsys.readouterr().err == (
        f"No process has taken the {asked} yet. It is in the log and is carried out as soon as a process serves. "
        f"Start `poweron serve` on these servers, if none runs there. Ctrl-C stops waiting; the {asked} remains in the log.\n"
    )


def test_below_the_command_line_no_sentence_of_the_client_names_what_only_a_terminal_has() -> None:
    modules = [*(PACKAGE / "client").glob("*.py"), PACKAGE / "standalone.py"]
    assert {named for module in modules for named in texts(module) if OURS.search(named)} == set()


def texts(module: Path) -> set[str]:
    """Every text of a module that is no docstring."""
    tree = ast.parse(module.read_text())
    docstrings = {id(statement.value) for statement in ast.walk(tree) if isinstance(statement, ast.Expr)}
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    }
