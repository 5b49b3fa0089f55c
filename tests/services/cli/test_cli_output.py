"""How the command line prints text that it did not write, and where it cannot print."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from builders import document
from poweron_projections.entries import EventEntry, HistoryEntry
from poweron_services.cli import output, query_commands


@pytest.mark.req("S23")
@pytest.mark.req("X-05")
def test_control_and_bidi_characters_do_not_reach_the_terminal() -> None:
    hostile = "a\x1b]0;owned\x07\x9b2J\r\x00\u202egnp.exe\u2066\u2028\x7f"
    shown = output.printable(hostile)
    assert shown == r"a\x1b]0;owned\x07\x9b2J\r\x00\u202egnp.exe\u2066\u2028\x7f"
    assert output.printable("äß 表 🙂 é ❤\ufe0f ক্ষ\n\t") == "äß 表 🙂 é ❤\ufe0f ক্ষ\n\t"


HIDDEN = "a\u200bb\u200d\ufeff\u2060\xad\U000e0041\U000e01ef"


@pytest.mark.req("S23")
def test_what_has_no_width_is_seen() -> None:
    assert output.printable(HIDDEN) == r"a\u200bb\u200d\ufeff\u2060\xad\U000e0041\U000e01ef"


@pytest.mark.req("S23")
def test_json_holds_nothing_that_is_not_seen_and_loses_nothing(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    value = {"said": f"\x9b2J\x7f\u202egnp{HIDDEN}\r\n\x00 äß 表 🙂", "n": [1, None]}
    output.print_json(value)
    written = capsysbinary.readouterr().out.decode()
    assert json.loads(written) == value
    assert r"\u009b2J\u007f\u202egnp" in written
    assert r"\udb40\udc41" in written
    assert written == f"{output.printable(written.rstrip())}\n"
    assert "äß 表 🙂" in written


@pytest.mark.req("S23")
@pytest.mark.req("X-05")
def test_a_line_of_untrusted_text_stays_one_line() -> None:
    assert output.one_line("a\nb\r\n c\u2029d", 7) == "a b c d"
    assert output.one_line("x" * 8, 7) == "xxxxxx…"


def _beside(text: str, **options: object) -> list[str]:
    console = Console(width=60, color_system=None, **options)  # type: ignore[arg-type] # what Console takes
    with console.capture() as captured:
        output.print_beside(console, Text("margin    "), text)
    return captured.get().splitlines()


def test_in_a_terminal_text_is_wrapped_beside_its_margin_and_cut_after_three_lines() -> None:
    lines = _beside("word " * 100, force_terminal=True)
    assert [line[:10] for line in lines] == ["margin    ", " " * 10, " " * 10]
    assert lines[-1].endswith("…")
    assert max(map(len, lines)) <= 60


def test_elsewhere_text_is_one_line_without_escape_codes() -> None:
    (line,) = _beside("word " * 30, force_terminal=False, soft_wrap=True)
    assert line == "margin    " + ("word " * 30).strip()


def _row(text: str, **options: object) -> list[str]:
    console = Console(width=30, color_system=None, **options)  # type: ignore[arg-type] # what Console takes
    with console.capture() as captured:
        output.print_row(console, Text("margin    "), text)
    return captured.get().splitlines()


def test_in_a_terminal_a_row_is_one_line_that_says_where_it_is_cut() -> None:
    assert _row("a prompt of two\nlines that is long", force_terminal=True) == ["margin    a prompt of two lin…"]
    assert _row("表" * 20, force_terminal=True) == ["margin    " + "表" * 9 + " …"]
    assert _row("short", force_terminal=True) == ["margin    short"]


def test_elsewhere_a_row_is_whole() -> None:
    assert _row("word " * 4_000, force_terminal=False, soft_wrap=True) == ["margin    " + ("word " * 4_000).strip()]


@pytest.mark.req("H-01")
def test_the_history_shows_the_references_of_a_messages_documents() -> None:
    label = "round1_task1_action1_process"
    entry = HistoryEntry(
        seq=6, round=1, prompt="What is the total?", task=1, attempt=1, step=1, kind="step", action="ai.process",
        status="step", success=True, message="It is 42.", summary="It is 42.", review_reason=None,
        documents_label=label, documents=(document("answer.md", document_id="r1t1a1d1"),),
        references=(f"docList:{label}", "docItem:r1t1a1d1:answer.md"),
        error="", findings=("One page.",), links=("https://a.example/",), unread=(), unread_left_out=0, learnings=("It is short.",), time="2026-11-21T00:00:00Z",
    )  # fmt: skip
    with query_commands.stdout.capture() as captured:
        query_commands._print_entry(entry)
    assert captured.get().splitlines()[1:] == [
        "      finding: One page.",
        "      link: https://a.example/",
        "      learning: It is short.",
        f"      documents: docList:{label}",
        "      document: docItem:r1t1a1d1:answer.md (1 kB)",
    ]


def _run(redirected: str) -> subprocess.CompletedProcess[str]:
    poweron = Path(sys.executable).with_name("poweron")
    typed = f"{poweron} --help {redirected}"
    return subprocess.run(["/bin/sh", "-c", typed], check=False, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("redirected", "printed"), [(">&-", False), ("2>&-", True), (">&- 2>&-", False), ("<&- >&- 2>&-", False)]
)
def test_a_stream_that_is_closed_is_one_that_nobody_reads(redirected: str, printed: bool) -> None:
    ended = _run(redirected)
    assert (ended.returncode, ended.stderr, "Commands:" in ended.stdout) == (0, "", printed)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a file that is always full")
def test_what_finds_no_room_is_said_and_is_a_failure() -> None:
    ended = _run(">/dev/full")
    assert ended.returncode == 1
    assert ended.stderr.startswith("Not everything could be printed: No space left on device.")
    assert _run("2>/dev/full").returncode == 0


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (None, None),
        ("ada", None),
        ({"id": ""}, None),
        ({"id": "ada", "via": "cli"}, "(cli, not verified) ada"),
        ({"id": "ada", "via": "cli", "fieldOfANewerRelease": 1}, "(cli, not verified) ada"),
    ],
)
def test_an_actor_that_cannot_be_read_does_not_end_the_list_of_events(given: object, shown: str | None) -> None:
    entry = EventEntry.model_construct(data={"actor": given})
    actor = query_commands._actor(entry)
    assert (actor and actor.described) == shown
