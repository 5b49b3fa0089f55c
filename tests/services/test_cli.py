"""The command line without any server: what is typed wrong, how text is printed, how commands end."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
import typer
from logs import logging_as_before
from rich.console import Console
from rich.text import Text
from typer.testing import CliRunner

from poweron_events.errors import Refused, Unavailable
from poweron_events.event import DocumentRef
from poweron_services import telemetry
from poweron_services.cli import files, printing
from poweron_services.cli.ending import sentences
from poweron_services.cli.main import app

COMMANDS = [
    *("ask", "workflows", "history", "events", "watch", "documents", "deadletters"),
    *("serve", "rebuild", "verify", "up", "down", "status", "bench", "chaos"),
]
HEAVY = {"aiokafka", "asyncpg", "pydantic", "obstore", "rich.console", "structlog", "asyncio"}


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Generator[None, None, None]:
    """Commands set up logging; other tests have their own. No server is where the settings say."""
    monkeypatch.setenv("POWERON_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("POWERON_KAFKA", "127.0.0.1:1")
    monkeypatch.setenv("POWERON_POSTGRES", "postgresql://nobody@127.0.0.1:1/nothing")
    with logging_as_before():
        yield


WRONG = {
    "an empty prompt": (["ask", ""], "The prompt is empty."),
    "a blank prompt": (["ask", " \n\t "], "The prompt is empty."),
    "a long prompt": (["ask", "x" * 20_001], "The prompt has 20,001 characters, 20,000 are possible."),
    "no prompt": (["ask"], "Missing argument 'PROMPT'"),
    "no steps": (["ask", "?", "--max-steps", "0"], "--max-steps"),
    "too many steps": (["ask", "?", "--max-steps", "1000"], "--max-steps"),
    "no number": (["ask", "?", "--max-steps", "many"], "--max-steps"),
    "no language": (["ask", "?", "--language", "nonsense"], "'nonsense' is not the tag of a language."),
    "a missing file": (["ask", "?", "--document", "no/such.pdf"], "There is no file 'no/such.pdf'."),
    "a folder": (["ask", "?", "--document", "/"], "'/' is a folder."),
    "a file as folder": (["ask", "?", "--document", "/dev/null/x"], "cannot be read: Not a directory."),
    "101 documents": (["ask", "?", *["--document", os.devnull] * 101], "101 documents are too many"),
    "an endless file": (["ask", "?", "--document", "/dev/zero"], "is larger than 200 MB"),
    "no output folder": (["ask", "?", "--output", "/dev/null/x"], "Nothing can be written to '/dev/null/x'"),
    "a name that would act": (["ask", "?", "--document", "a\x1b[2J\u202e\n"], r"'a\x1b[2J\u202e\n'"),
    "no workflow's id": (["history", "nope"], "'nope' is not a workflow's id."),
    "an id in capitals": (["events", "A" * 8 + "-AAAA-4AAA-8AAA-" + "A" * 12], "is not a workflow's id."),
    "nothing to watch": (["watch", "../etc"], "'../etc' is not a workflow's id."),
    "no document's workflow": (["documents", ""], "'' is not a workflow's id."),
    "no entries": (["history", "nope", "--limit", "0"], "--limit"),
    "no letters": (["deadletters", "--limit", "-1"], "--limit"),
    "no role": (["serve", "--role", "cook"], "'cook' is not one of 'intake'"),
    "too short": (["chaos", "--minutes", "-1"], "'--minutes': '-1' is not a number from 0.05 to 1440."),
    "not a time": (["chaos", "--minutes", "nan"], "'--minutes': 'nan' is not a number from 0.05 to 1440."),
    "no seed": (["chaos", "--seed", "x"], "'--seed': 'x' is not a whole number of at least 0."),
    "no seq": (["history", "nope", "--before", "x"], "'--before': 'x' should be a valid integer."),
    "no part": (["bench", "--only", "foo"], "'--only': 'foo' is not one of 'ask', 'latency'"),
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


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_is_said_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "secret.pdf"
    path.touch(mode=0o000)
    ended = CliRunner().invoke(app, ["ask", "?", "--document", str(path)])
    assert (ended.exit_code, "cannot be read: Permission denied." in ended.stderr) == (2, True)


UNUSABLE = {
    "POWERON_CONCURRENCY=abc": "'abc' should be a valid integer.",
    "POWERON_CONCURRENCY=0": "'0' should be greater than or equal to 1.",
    "POWERON_MODEL=gpt": "'gpt' is neither `builtin` nor `scripted:FILE`.",
    "POWERON_MODEL=scripted:": "'scripted:' is neither `builtin` nor `scripted:FILE`.",
    "POWERON_LOG_LEVEL=loud": "'loud' should be 'debug', 'info', 'warning' or 'error'.",
}


@pytest.mark.parametrize("setting", UNUSABLE)
@pytest.mark.parametrize("command", ["ask ?", "status", "serve", "workflows"])
def test_a_setting_that_cannot_be_used_is_named_with_what_is_wanted(
    command: str, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, _, value = setting.partition("=")
    monkeypatch.setenv(name, value)
    ended = CliRunner().invoke(app, command.split())
    assert ended.exit_code == 2
    assert ended.stderr == f"A setting cannot be used: {name}: {UNUSABLE[setting]}\n"


@pytest.mark.req("S27")
def test_a_setting_that_cannot_be_used_is_not_told_with_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POWERON_POSTGRES", "canary://user:canary@host/db")
    ended = CliRunner().invoke(app, ["workflows"])
    assert ended.exit_code == 1
    assert "canary@" not in ended.output


@pytest.mark.req("S27")
def test_a_secret_that_is_no_text_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POWERON_POSTGRES", "canary\udcff")
    ended = CliRunner().invoke(app, ["workflows"])
    assert "canary" not in ended.output


# --- how commands end -------------------------------------------------------------------------------

ENDS = {
    "unavailable": (Unavailable("kafka is away"), 1, "Kafka is away. `poweron status` tells"),
    "refused": (Refused("The topic is wrong."), 1, "The topic is wrong.\n"),
    "in a group": (ExceptionGroup("g", [ExceptionGroup("g", [Refused("no way")])]), 1, "No way.\n"),
    "a folder": (
        PermissionError(13, "Permission denied", "/root/x"),
        1,
        "'/root/x' cannot be used: Permission denied.",
    ),
    "unexpected": (KeyError("canary"), 1, "PowerOn met an error that it did not expect (KeyError)."),
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


# --- how text is printed ----------------------------------------------------------------------------


@pytest.mark.req("S23")
def test_control_and_bidi_characters_do_not_reach_the_terminal() -> None:
    hostile = "a\x1b]0;owned\x07\x9b2J\r\x00\u202egnp.exe\u2066\u2028\x7f"
    shown = printing.printable(hostile)
    assert shown == r"a\x1b]0;owned\x07\x9b2J\r\x00\u202egnp.exe\u2066\u2028\x7f"
    assert printing.printable("äß 表 🙂 é\n\t") == "äß 表 🙂 é\n\t"


@pytest.mark.req("S23")
def test_a_line_of_untrusted_text_stays_one_line() -> None:
    assert printing.one_line("a\nb\r\n c\u2029d", 7) == "a b c d"
    assert printing.one_line("x" * 8, 7) == "xxxxxx…"


def _beside(text: str, **options: object) -> list[str]:
    console = Console(width=60, color_system=None, **options)  # type: ignore[arg-type] # what Console takes
    with console.capture() as captured:
        printing.print_beside(console, Text("margin    "), text)
    return captured.get().splitlines()


def test_in_a_terminal_text_is_wrapped_beside_its_margin_and_cut_after_three_lines() -> None:
    lines = _beside("word " * 100, force_terminal=True)
    assert [line[:10] for line in lines] == ["margin    ", " " * 10, " " * 10]
    assert lines[-1].endswith("…")
    assert max(map(len, lines)) <= 60


def test_elsewhere_text_is_one_line_without_escape_codes() -> None:
    (line,) = _beside("word " * 30, force_terminal=False, soft_wrap=True)
    assert line == "margin    " + ("word " * 30).strip()


def _document(name: str) -> DocumentRef:
    return DocumentRef(document_id="r1d1", document_name=name, mime_type="text/plain", size=1, content="ab" * 32)


@pytest.mark.req("S20")
@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("answer.md", "r1d1-answer.md"),
        ("../../etc/passwd", "r1d1-etc_passwd"),
        ("/etc/passwd", "r1d1-etc_passwd"),
        ("..", "r1d1-document"),
        ("a\x00b\nc\x1b[2J.pdf", "r1d1-a_b_c__2J.pdf"),
        ("\u202efdp.exe", "r1d1-fdp.exe"),
        ("x" * 251 + ".pdf", "r1d1-" + "x" * 196 + ".pdf"),
        ("表" * 255, "r1d1-" + "表" * 66),
    ],
)
def test_a_document_is_written_under_a_name_that_stays_in_its_folder(name: str, written: str, tmp_path: Path) -> None:
    assert files._file_name(_document(name)) == written
    (tmp_path / written).touch()


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


def test_help_needs_nothing_heavy() -> None:
    program = (
        "import sys; from poweron_services.cli.main import app; app(['--help'], standalone_mode=False); "
        "print(*sys.modules, file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "Commands:" in ended.stdout
    assert HEAVY & set(ended.stderr.split()) == set()
