"""The command line without any server: what is typed wrong, how text is printed, how commands end."""

import json
import logging
import os
import socket
import stat
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import orjson
import pytest
import typer
from typer.testing import CliRunner

from builders import CALL, Told, cancellation, planned, requested
from poweron_events.client import Heard
from poweron_events.codec import read_record
from poweron_events.errors import Refused, Unavailable, Unserved
from poweron_events.log import Record
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_events.round_events import RoundCancelled, TasksPlanned, Totals
from poweron_events.stream import WorkflowEvent
from poweron_events.topics import EVENTS, PARTITIONS, partition_of
from poweron_services import embedded, telemetry
from poweron_services.cli.ask_command import AskProgress, summary
from poweron_services.cli.error_messages import sentences
from poweron_services.cli.main import app
from poweron_services.client.follow import Outcome

COMMANDS = [
    *(
        "ask",
        "cancel",
        *("pause", "resume", "restart"),
        "approve",
        "deny",
        "approvals",
        *("erase", "retain"),
        *("policy", "permissions"),
        "workflows",
        "history",
        "events",
        "watch",
        "sources",
        *("show", "replay", "fork", "diff"),
        "deadletters",
    ),
    *(
        *("serve", "door", "keys"),
        "rebuild",
        "verify",
        "recover",
        "up",
        "down",
        "status",
        "bench",
        "chaos",
        *("evaluate", "export"),
        *("audit", "witness", "models", "search", "mcp", "documents", "bi"),
    ),
]


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No server is where the settings say."""
    monkeypatch.setenv("POWERON_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("POWERON_KAFKA", "127.0.0.1:1")
    monkeypatch.setenv("POWERON_POSTGRES", "postgresql://nobody@127.0.0.1:1/nothing")


WRONG = {
    "permissions at no time": (
        ["permissions", "--at", "yesterday"],
        "--at: 'yesterday' is not a time; write it like 2026-11-21T09:30:00Z or 2026-11-21.",
    ),
    "permissions in the future": (["permissions", "--at", "9999-01-01"], "--at: This time is in the future"),
    "permissions of no pattern": (["permissions", "--action", "web:*"], "--action: 'web:*' is no pattern"),
    "permissions of no actor": (
        ["permissions", "--actor", ""],
        "--actor: the name of an actor has 1 to 255 characters.",
    ),
    "an empty prompt": (["ask", ""], "The prompt is empty."),
    "a blank prompt": (["ask", " \n\t "], "The prompt is empty."),
    "a long prompt": (["ask", "x" * 20_001], "The prompt has 20,001 characters; at most 20,000 are allowed."),
    "no prompt": (["ask"], "Missing argument 'PROMPT'"),
    "no steps": (["ask", "?", "--max-steps", "0"], "--max-steps"),
    "too many steps": (["ask", "?", "--max-steps", "1000"], "--max-steps"),
    "no number": (["ask", "?", "--max-steps", "many"], "--max-steps"),
    "no language": (["ask", "?", "--language", "nonsense"], "'nonsense' is not the tag of a language."),
    "a missing file": (["ask", "?", "--document", "no/such.pdf"], "There is no file 'no/such.pdf'."),
    "a folder": (["ask", "?", "--document", "/"], "'/' is a folder."),
    "a file as folder": (["ask", "?", "--document", "/dev/null/x"], "cannot be read: Not a directory."),
    "101 documents": (["ask", "?", *["--document", os.devnull] * 101], "Put them into a ZIP archive"),
    "an endless file": (["ask", "?", "--document", "/dev/zero"], "is a device, not a file"),
    "a file as output folder": (["ask", "?", "--output", __file__], "is a file. Choose a folder with --output."),
    "no output folder": (["ask", "?", "--output", "/dev/null/x"], "Nothing can be written to '/dev/null/x'"),
    "a name that would act": (["ask", "?", "--document", "a\x1b[2J\u202e\n"], r"'a\x1b[2J\u202e\n'"),
    "no workflow's id": (["history", "nope"], "'nope' is not a workflow's id."),
    "an id in capitals": (["events", "A" * 8 + "-AAAA-4AAA-8AAA-" + "A" * 12], "is not a workflow's id."),
    "nothing to follow up on": (["ask", "?", "--workflow", "nope"], "'nope' is not a workflow's id."),
    "nothing to cancel": (["cancel", "nope"], "'nope' is not a workflow's id. `poweron workflows` lists them."),
    "a long reason": (
        ["cancel", Told().id, "--reason", "why" * 400],
        "The reason has 1,200 characters; at most 1,000 are",
    ),
    "nothing to approve": (["approve", "nope"], "'nope' is not a workflow's id. `poweron workflows` lists them."),
    "nothing to deny": (["deny", "../etc", "--reason", "No."], "'../etc' is not a workflow's id."),
    "a long yes": (
        ["approve", Told().id, "--reason", "why" * 400],
        "The reason has 1,200 characters; at most 1,000 are",
    ),
    "a long no": (
        ["deny", Told().id, "--reason", "why" * 400],
        "The reason has 1,200 characters; at most 1,000 are",
    ),
    "a no without a reason": (["deny", Told().id], "Missing option '--reason'"),
    "nothing to show": (["show", "nope"], "'nope' is not a workflow's id. `poweron workflows` lists them."),
    "nothing to replay": (["replay"], "or give --all for every one."),
    "a blank reason": (["deny", Told().id, "--reason", " \n"], "The reason is empty. Say why the action must not run."),
    "no approvals": (["approvals", "--limit", "0"], "--limit"),
    "nothing to watch": (["watch", "../etc"], "'../etc' is not a workflow's id."),
    "no document's workflow": (["documents", ""], "'' is not a workflow's id."),
    "no entries": (["history", "nope", "--limit", "0"], "--limit"),
    "no letters": (["deadletters", "--limit", "-1"], "--limit"),
    "no mode": (["ask", "?", "--mode", "plan"], "'--mode': 'plan' is not one of 'React', 'Actionplan'."),
    "no role": (["serve", "--role", "cook"], "'cook' is not one of 'intake'"),
    "too short": (["chaos", "--minutes", "-1"], "'--minutes': '-1' is not a number from 0.05 to 1,440."),
    "not a time": (["chaos", "--minutes", "nan"], "'--minutes': 'nan' is not a number from 0.05 to 1,440."),
    "no tokens": (["ask", "?", "--max-tokens", "0"], "'0' is not a whole number from 1 to 2,147,483,647."),
    "no tokens of a workflow": (["ask", "?", "--max-workflow-tokens", "0"], "'0' is not a whole number from 1 to"),
    "no price": (["ask", "?", "--max-cost", "-1"], "'-1' is not a number from 0 to 10,000."),
    "no seed": (["chaos", "--seed", "x"], "'--seed': 'x' is not a whole number of at least 0."),
    "no seq": (["history", "nope", "--before", "x"], "'--before': 'x' is not a whole number from 0 to 2,147,483,647."),
    "no part": (["bench", "--only", "foo"], "'--only': 'foo' is not one of 'ask', 'documents', 'latency'"),
    "no command": (["cook"], "No such command 'cook'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_typed_wrong_is_said_in_a_sentence(name: str) -> None:
    arguments, sentence = WRONG[name]

    ended = CliRunner().invoke(app, arguments)

    assert ended.exit_code == 2, ended.output
    assert sentence in ended.stderr
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr
    assert "Value error" not in ended.stderr


def test_a_setting_that_is_misspelled_is_told_with_the_one_that_it_is_closest_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("POWERON_HOME", str(tmp_path))
    monkeypatch.setenv("POWERON_MODLE", "openai:gpt-4o")
    monkeypatch.setenv("POWERON_SOMETHING_OF_ANOTHER_TOOL", "1")
    said = CliRunner().invoke(app, ["models", "check"]).stderr
    assert said == "POWERON_MODLE is no setting, and is ignored; there is POWERON_MODEL.\n"


@pytest.mark.parametrize("mode", ["Actionplan", "actionplan", "ACTIONPLAN"])
def test_a_mode_is_known_in_any_case_and_the_deprecated_one_says_so(mode: str) -> None:
    said = CliRunner().invoke(app, ["ask", "?", "--mode", mode]).stderr.splitlines()
    assert [line for line in said if "deprecated" in line] == [
        "Mode Actionplan is deprecated; mode React, the default, learns from each action for the next."
    ]
    assert "deprecated" not in CliRunner().invoke(app, ["ask", "?", "--mode", "react"]).stderr


def test_ctrl_c_says_how_the_workflow_stands_at_that_moment() -> None:
    asked, told = AskProgress(), Told()
    assert asked.interrupted(serving=True) == "Stopped before anything was asked for."
    asked.requested(told.id)
    for event in (requested(), planned(), cancellation()):
        hear(asked, told, event)
        said = asked.interrupted(serving=False)
        assert said.startswith(f"Stopped, but workflow {told.id} remains in the log. The serving process continues it")
        assert said.endswith(f"`poweron cancel {told.id}` cancels it.")
        served = asked.interrupted(serving=True)
        assert served.endswith(f"`poweron cancel {told.id}` cancels it while that runs.")
    hear(asked, told, RoundCancelled(round=1, message="The round was cancelled.", totals=Totals(), reason=""))
    assert asked.interrupted(serving=True).startswith(f"Stopped; workflow {told.id} is cancelled already.")


def test_the_summary_names_the_models_that_answered_whichever_are_set_here() -> None:
    asked, told = AskProgress(), Told()
    hear(asked, told, requested())
    hear(asked, told, asking("gpt-9"))
    hear(asked, told, asking("too-late"))  # superseded: it had no part in it
    hear(asked, told, cancellation())
    assert asked.models == ["builtin/gpt-9"]

    outcome = Outcome(told.id, "completed", "It is so.", (), Totals(steps=2), 1_840)
    said = f"Workflow {told.id} completed after 2 steps in 1.8 s"
    assert summary(outcome, []) == f"{said}."
    assert summary(outcome, asked.models) == f"{said}, with gpt-9."
    assert summary(outcome, ["a/a/b", "b/c", "d/e\x1b"]) == f"{said}, with a/b, c and e\\x1b."


def test_a_request_that_was_refused_began_nothing() -> None:
    outcome = Outcome("w", "failed", "It was refused.", (), Totals(), 40, refusal="invalid", code="pattern_meaningless")
    assert summary(outcome, []) == "Nothing was started for workflow w."


def asking(model: str) -> TasksPlanned:
    return planned().model_copy(update={"model_call": CALL.model_copy(update={"model": model})})


def hear(asked: AskProgress, told: Told, event: WorkflowEvent) -> None:
    message = told.tell(event).messages[-1]
    partition = partition_of(told.id.encode(), PARTITIONS)
    record = Record(EVENTS.name, partition, len(told.values) - 1, 0, message.key, message.value, {})
    asked.heard(Heard(read_record(record), told.verdicts[-1], told.workflow))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_is_said_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "secret.pdf"
    path.touch(mode=0o000)
    ended = CliRunner().invoke(app, ["ask", "?", "--document", str(path)])
    assert (ended.exit_code, "cannot be read: Permission denied." in ended.stderr) == (2, True)


@pytest.mark.req("X-06")
@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
def test_what_is_no_file_is_said_at_once(kind: str, tmp_path: Path) -> None:
    path = Path("/dev/zero") if kind == "device" else tmp_path / kind
    with socket.socket(socket.AF_UNIX) as listener:
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "socket":
            listener.bind(str(path))
        ended = CliRunner().invoke(app, ["ask", "?", "--document", str(path)])
    assert ended.exit_code == 2
    assert f"{str(path)!r} is a {kind}, not a file. Write its data to a file" in " ".join(ended.stderr.split())


@pytest.mark.parametrize("address", ["postgresql://u@h/db?sslmode=perhaps", "postgres://h/db?target_session_attrs=x"])
def test_a_server_that_does_not_answer_is_told_by_status_with_what_to_do(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POWERON_POSTGRES", address)
    ended = CliRunner().invoke(app, ["status"])
    kafka, postgres, where = ended.stderr.splitlines()
    assert kafka == "Kafka at 127.0.0.1:1 does not answer, or does not let us in."
    assert postgres.startswith("The address of Postgres cannot be read: ")
    assert postgres.endswith("write it like `postgresql://user@host:5432/database`.")
    assert where.startswith("POWERON_KAFKA and POWERON_POSTGRES say where they are")


def test_status_as_json_has_the_first_problem_with_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POWERON_POSTGRES", "postgresql://u@127.0.0.1:1/db")
    ended = CliRunner().invoke(app, ["status", "--json"])
    found = orjson.loads(ended.stdout)
    assert (ended.exit_code, found["kafka"], found["postgres"], found["log"]) == (1, None, None, "unknown")
    assert (found["error"], found["code"]) == (ended.stderr.splitlines()[0], "unavailable")


@pytest.mark.parametrize(
    ("silent", "said"),
    [
        (["Postgres"], "Postgres does not answer on this machine"),
        (["Kafka"], "Kafka does not answer on this machine"),
        (["Kafka", "Postgres"], "No Kafka and no Postgres run on this machine"),
    ],
)
def test_status_says_which_of_the_two_servers_of_this_machine_does_not_answer(
    silent: list[str], said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("POWERON_KAFKA")
    monkeypatch.delenv("POWERON_POSTGRES", raising=False)
    servers = embedded.Servers(KafkaSettings("127.0.0.1:1"), "postgresql://u@127.0.0.1:1/db", tmp_path)
    monkeypatch.setattr(embedded, "status", lambda _: (servers, silent))
    ended = CliRunner().invoke(app, ["status", "--json"])
    found = orjson.loads(ended.stdout)
    assert ended.stderr.startswith(f"{said} for this data directory. `poweron up` starts what is not running.\n")
    assert (found["error"], found["code"]) == (ended.stderr.splitlines()[0], "unavailable")
    assert [name for name in ("Kafka", "Postgres") if found[name.lower()] is None] == silent


def test_a_prompt_with_invalid_bytes_is_refused_in_plain_words() -> None:
    ended = CliRunner().invoke(app, ["ask", "a\udcff"])
    assert (ended.exit_code, ended.stderr) == (
        2,
        "The request is invalid: prompt must be a text in UTF-8, which some of its bytes are not.\n",
    )


@pytest.mark.req("S27")
def test_a_setting_that_cannot_be_used_is_not_told_with_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POWERON_POSTGRES", "canary://user:canary@host/db")
    ended = CliRunner().invoke(app, ["workflows"])
    assert ended.exit_code == 2
    assert "canary" not in ended.output


@pytest.mark.req("S27")
@pytest.mark.parametrize(
    "setting",
    [
        "POWERON_POSTGRES=postgresql://ada:canary/x@host/db",
        "POWERON_POSTGRES=postgresql://ada:7?canary@host/db",
        "POWERON_POSTGRES=postgresql://ada:canary#7@host/db",
        "POWERON_CONTENT=nowhere://ada:canary@host/x?key=canary",
    ],
)
def test_no_part_of_an_address_that_cannot_be_read_is_taken_for_anything_but_a_secret(
    setting: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name, _, value = setting.partition("=")
    monkeypatch.setenv(name, value)
    for command in (["status"], ["workflows"], ["ask", "?", "--no-serve"]):
        assert "canary" not in CliRunner().invoke(app, command).output
    assert not any("canary" in path.read_text() for path in tmp_path.rglob("*.log"))


@pytest.mark.req("S27")
def test_a_secret_that_is_no_text_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POWERON_POSTGRES", "canary\udcff")
    ended = CliRunner().invoke(app, ["workflows"])
    assert "canary" not in ended.output


# --- how commands end -------------------------------------------------------------------------------

ENDS = {
    "unavailable": (Unavailable("kafka is away"), 1, "Kafka is away. `poweron status` shows"),
    "unserved": (Unserved("Nobody serves."), 1, "Nobody serves.\n"),
    "refused": (Refused("The topic is wrong."), 1, "The topic is wrong.\n"),
    "in a group": (ExceptionGroup("g", [ExceptionGroup("g", [Refused("no way")])]), 1, "No way.\n"),
    "a folder": (
        PermissionError(13, "Permission denied", "/root/x"),
        1,
        "'/root/x' cannot be used: Permission denied.",
    ),
    "unexpected": (KeyError("canary"), 1, "PowerOn met an unexpected error (KeyError)."),
    "interrupted": (KeyboardInterrupt(), 130, "Stopped.\n"),
    "interrupted in words": (KeyboardInterrupt("Stopped, but it stands."), 130, "Stopped, but it stands.\n"),
}


@pytest.mark.parametrize("name", ENDS)
def test_whatever_goes_wrong_ends_in_a_sentence_and_an_exit_code(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    error, code, sentence = ENDS[name]
    with pytest.raises(typer.Exit) as ended, sentences():
        raise error
    said = capsys.readouterr().err
    assert ended.value.exit_code == code
    assert said.startswith(sentence)
    assert "Traceback" not in said


JSON_ERRORS = {
    "an id": (["history", "nope", "--json"], 2, "'nope' is not a workflow's id. `poweron workflows` lists them."),
    "a number": (["history", "nope", "--limit", "0", "--json"], 2, "Invalid value for '--limit': '0' is not a whole"),
    "nothing asked": (["ask", "--json"], 2, "Missing argument 'PROMPT'."),
    "a server": (["cancel", Told().id, "--json"], 1, "Kafka at 127.0.0.1:1 does not answer"),
    "bytes": (["documents", "\udcff\x1b", "--json"], 2, r"'\udcff\x1b' is not a workflow's id."),
}
CODES = {
    "an id": "not_a_workflow_id",
    "a number": "usage",
    "nothing asked": "usage",
    "a server": "unavailable",
    "bytes": "not_a_workflow_id",
}


@pytest.mark.parametrize("name", JSON_ERRORS)
def test_a_command_that_fails_says_why_in_json_where_that_is_asked_for(name: str) -> None:
    arguments, code, sentence = JSON_ERRORS[name]
    ended = CliRunner().invoke(app, arguments)
    (said,) = map(json.loads, ended.stdout.splitlines())
    error = said["error"]
    assert said == {"error": error, "code": CODES[name]}
    assert (ended.exit_code, error[: len(sentence)]) == (code, sentence)
    assert error in ended.stderr
    plain = CliRunner().invoke(app, arguments[:-1])
    assert (plain.exit_code, plain.stdout) == (code, "")


STOPPED_EARLY = """
import os, signal, sys
signalled, wanted = sys.argv.pop(1), sys.argv.pop(1)
class CtrlC:
    def find_spec(self, name, *_):
        if name == wanted:
            os.kill(os.getpid(), getattr(signal, signalled))
sys.meta_path.insert(0, CtrlC())
from poweron_services.cli.entry import main
main()
"""


@pytest.mark.parametrize(
    "imported",
    ["typer", "pydantic", "poweron_services.cli.ask_command"],  # before, while and after the arguments are read
)
@pytest.mark.parametrize(("signalled", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_before_a_command_has_begun_is_said_in_a_sentence(imported: str, signalled: str, code: int) -> None:
    command = [sys.executable, "-c", STOPPED_EARLY, signalled, imported, "ask", "?", "--json"]
    stopped = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (stopped.returncode, stopped.stderr) == (code, "Stopped before anything was asked for.\n")
    assert json.loads(stopped.stdout) == {"error": "Stopped before anything was asked for.", "code": "stopped"}


@pytest.mark.parametrize("signalled", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("imported", ["typer", "poweron_services.wiring"])
def test_a_service_that_is_stopped_while_it_starts_exits_with_0(imported: str, signalled: str) -> None:
    command = [sys.executable, "-c", STOPPED_EARLY, signalled, imported, "serve"]
    stopped = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (stopped.returncode, stopped.stdout, stopped.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("command", "read"),
    [("models check", "stdout"), ("models check --json", ""), ("watch --help", ""), ("history nope --json", "")],
)
def test_a_reader_that_goes_away_changes_no_exit_code(command: str, read: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    begin = [sys.executable, "-c", "from poweron_services.cli.entry import main; main()"]
    streams = {name: subprocess.PIPE if name == read else writing for name in ("stdout", "stderr")}
    ended = subprocess.run([*begin, *command.split()], check=False, text=True, **streams)  # type: ignore[call-overload]
    os.close(writing)
    assert ended.returncode == (2 if "nope" in command else 0)
    assert "Traceback" not in (ended.stderr or "")


def test_the_command_begins_where_ctrl_c_is_waited_for() -> None:
    (command,) = entry_points(group="console_scripts", name="poweron")
    assert command.value == "poweron_services.cli.entry:main"


def test_the_log_of_a_command_does_not_wait_for_its_data_directory(tmp_path: Path) -> None:
    file = telemetry.LogFile(tmp_path / "not" / "yet" / "poweron.log")
    file.write("a line\n")
    assert file.path.read_text() == "a line\n"


@pytest.mark.req("S24")
@pytest.mark.parametrize("there", [False, True])
def test_the_log_is_its_owners_alone(there: bool, tmp_path: Path) -> None:
    path = tmp_path / "poweron.log"
    if there:  # as releases before 0.3 made it
        path.touch(mode=0o644)
    telemetry.LogFile(path).write("a line\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.req("S24")
def test_the_log_of_a_command_has_what_was_unexpected_on_one_line(tmp_path: Path) -> None:
    file = telemetry.LogFile(tmp_path / "poweron.log")
    telemetry.configure("warning", file)
    assert not file.path.exists()

    with pytest.raises(typer.Exit), sentences():
        raise KeyError("a\nb")
    logging.getLogger("library").warning("told by a %s", "library", extra={"error": "x" * 5_000})

    met, told = (json.loads(line) for line in file.path.read_text().splitlines())
    assert "KeyError: 'a\\nb'" in met["exception"]
    assert (told["event"], told["error"]) == ("told by a library", "x" * 2_000)


# --- help -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_what_it_does(command: str) -> None:
    helped = CliRunner().invoke(app, [command, "--help"])
    assert helped.exit_code == 0
    first = helped.stdout.split("\n\n")[1].strip()
    assert first.endswith("."), first
    assert max(map(len, helped.stdout.splitlines())) <= 80


def test_the_list_of_commands_is_complete_and_cuts_no_sentence() -> None:
    listed = CliRunner().invoke(app, ["--help"]).stdout.partition("Commands:")[2].strip().splitlines()
    assert [line.split()[0] for line in listed] == COMMANDS
    assert [line for line in listed if not line.endswith(".") or line.endswith("...")] == []


def test_a_person_is_told_what_their_own_workflow_waits_for(capsys: pytest.CaptureFixture[str]) -> None:
    asked = AskProgress()
    asked.workflow_id = "mine"
    asked.waits("another", "plan", "ollama:x cannot be reached.", 4.0)
    asked.waits("mine", "plan", "openai:test has trouble of its own (500): Out of order.", 4.0)
    asked.waits("mine", "select", "The content store did not answer.", None)
    assert capsys.readouterr().err == (
        "The stage 'plan' waits: openai:test has trouble of its own (500): Out of order. It tries again in 4 s.\n"
        "The stage 'select' waits: The content store did not answer. It tries again.\n"
    )
