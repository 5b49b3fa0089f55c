"""The questions of docs/for-auditors.md: each command answers its question, on the real servers."""

import asyncio
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from commands import Ended, Shell
from test_audit_exports import key_of, now

from poweron_projections.audit.verify_script import verify_script
from poweron_services.client.connect import Connections
from poweron_services.models.builtin import BuiltinModel

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]

PAGE = Path(__file__).parents[2] / "docs" / "for-auditors.md"
ROW = re.compile(r"^\| \d+\. (.+) \| `(.+)` \|$", re.MULTILINE)
POLICY = """
apply = ["admins"]
[groups.admins]
members = ["carla"]
[[rules]]
actions = ["*"]
decision = "allow"
"""
ANSWERS = (
    r"Written: sample\.zip",
    r"V15  ok .*V16  ok .*sample\.zip is verified: it is what the ledger holds",
    r"V9  ok .*V13  ok .*is verified: it is what its checkpoints say",
    r"Ledger: \d+ entries.*Checkpoint: of \d+ entries, signed \d+ s ago.*Witnesses: none are configured",
    r"workflow\.requested\.v1 .* by \(cli, not verified\) ada.*workflow\.exported\.v1 .* ada",
    r"round end .*120\.50 EUR.*workflow start .*What is the total of the invoice\?",
    r"model +builtin:.*prompt:.*What is the total of the invoice\?.*answer:",
    r"13 decisions: 13 same, 0 different, 0 inconclusive",
    r"invoice\.txt.*found +“120\.50 EUR”",
    r"by \(cli, not verified\) carla: The board wants it\..*ai\.process: allowed.*can be executed by",
    r"(?=.*carla)(?=.*The board wants)",
    r"Nothing waits for an approval",
    r"There are no dead letters",
    r"The retention of no workflow is over",
    r"'invoice\.txt', handed over.*is whole",
)


@pytest.fixture
def model() -> BuiltinModel:
    return BuiltinModel()


async def test_each_question_of_an_auditor_is_answered_by_its_command(shell: Shell, service: Connections) -> None:
    shell.environment["POWERON_ACTOR"] = "ada"
    (shell.folder / "invoice.txt").write_text("Invoice 7\nTotal: 120.50 EUR\n")
    (shell.folder / "policy.toml").write_text(POLICY)
    (shell.folder / "verify.py").write_text(verify_script())
    applied = await shell("policy", "apply", "policy.toml", "--reason", "The board wants it.", POWERON_ACTOR="carla")
    assert applied.code == 0, applied.err
    asked = await shell(
        *("ask", "What is the total of the invoice?", "--document", "invoice.txt"), "--no-serve", "--json"
    )
    workflow = asked.lines[0]["workflowId"]
    values = {
        "WORKFLOW": workflow,
        "VKEY": await key_of(shell),
        "TIME": now(),
        "FILE": "invoice.txt",
        "SEQ": "8",
        "TEXT": "dice",
        "25": "1",
        "OLD": "old.txt",
        "2026-07-01": "2020-01-01",
        "2026-10-01": now(),
    }
    questions = ROW.findall(PAGE.read_text())
    assert len(questions) == len(ANSWERS) == 15
    for number, ((question, command), answer) in enumerate(zip(questions, ANSWERS, strict=True), start=1):
        program, *arguments = [values.get(word, word) for word in shlex.split(command)]
        found = await (shell(*arguments) if program == "poweron" else asyncio.to_thread(_python, shell, arguments))
        assert found.code == 0, (question, found.out, found.err)
        assert re.search(answer, found.out + found.err, re.DOTALL), (question, found.out)
        if number == 1:
            with zipfile.ZipFile(shell.folder / "sample.zip") as bundle:
                (shell.folder / "old.txt").write_bytes(bundle.read("period/checkpoint"))


def _python(shell: Shell, arguments: list[str]) -> Ended:
    command = [sys.executable, "-I", "-S", *arguments]
    found = subprocess.run(command, check=False, capture_output=True, text=True, env={}, cwd=shell.folder, timeout=60)
    return Ended(found.returncode, found.stdout, found.stderr)
