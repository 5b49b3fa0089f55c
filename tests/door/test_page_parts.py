"""The parts of pages without a server: the vendored scripts, the answer as HTML, and the timeline."""

import asyncio
import hashlib
import json
import re
import tomllib
from functools import partial
from io import BytesIO
from pathlib import Path

import httpx2
import pytest
from fastapi.exceptions import RequestValidationError
from hostile_texts import HOSTILE
from jinja2.meta import find_undeclared_variables
from markupsafe import Markup
from pydantic import JsonValue
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.types import Message

from poweron_events.actor import Actor
from poweron_events.errors import Unavailable
from poweron_events.policy import Policy
from poweron_projections.workflow_excerpts import TimedStep
from poweron_services.client.policy_words import example_policy, rule_in_words
from poweron_services.door import form_parser
from poweron_services.door.answer_cache import MOST, AnswerCache
from poweron_services.door.answer_html import ShownCheck, ShownSource, answer_html, marked_html
from poweron_services.door.application import build
from poweron_services.door.door_state import DoorState
from poweron_services.door.page_forms import files_of
from poweron_services.door.page_rendering import HERE, TEMPLATES, day, duration, money, origin, plain, prose, visible
from poweron_services.door.problems import Problem, problem_of
from poweron_services.door.step_view import fact
from poweron_services.door.text_difference import DifferenceLine, differences
from poweron_services.door.timeline import timeline
from poweron_services.settings.config import Settings

SCRIPTS = HERE / "static"
VENDORED = {
    "htmx-4.0.1.min.js": "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",
    "hx-csp-4.0.1.min.js": "a7e1e6711ae6c3e50ad300fba7936cbe8d07599cdae313414a179ddd6b26e143",
}


def test_vendored_scripts_are_the_published_ones_and_bring_their_licence() -> None:
    for name, sha256 in VENDORED.items():
        assert hashlib.sha256((SCRIPTS / name).read_bytes()).hexdigest() == sha256
    assert "Zero-Clause BSD" in (SCRIPTS / "htmx-LICENSE.txt").read_text()


@pytest.mark.parametrize("name", ["components.html", "difference.html"])
def test_a_part_of_pages_uses_only_what_it_is_given(name: str) -> None:
    assert TEMPLATES.loader is not None
    source, _, _ = TEMPLATES.loader.get_source(TEMPLATES, name)
    assert find_undeclared_variables(TEMPLATES.parse(source)) <= set(TEMPLATES.globals)


def test_all_scripts_together_have_at_most_60_kb() -> None:
    assert sum(script.stat().st_size for script in SCRIPTS.glob("*.js")) <= 60_000


@pytest.mark.parametrize("text", HOSTILE)
def test_an_answer_has_no_picture_script_or_hidden_address(text: str) -> None:
    html = str(answer_html(text))
    assert not re.search(r"<(?:img|script|svg|iframe|style|link|meta|base|form|button|math|details)", html)
    for address, shown in re.findall(r'<a href="([^"]*)"[^>]*>(.*?)</a>', html):
        assert address == shown
        assert address.startswith(("http://", "https://", "mailto:"))
    assert "javascript:" not in re.sub(r">[^<]*<", "><", html)


def test_invisible_characters_are_shown_by_their_numbers() -> None:
    assert visible("a\u202eb\u200bc\U000e0061\x00") == "a[U+202E]b[U+200B]c[U+E0061][U+0000]"
    assert visible("Zwölf Euro, ۱۲, ok 👍🏽") == "Zwölf Euro, ۱۲, ok 👍🏽"


def test_a_statement_leads_to_its_source_in_the_place_of_its_own_number() -> None:
    source = ShownSource(1, "letter.txt", "", "", "r1d1", "", "", [ShownCheck("It opens on Monday.", "not quoted")])
    html = str(answer_html("It opens **on Monday** [1].\n\nNothing else.", [source]))
    assert html.count('href="#source-1"') == 1
    assert "[1]" not in html
    assert html.index("#source-1") < html.index("Nothing else")


def test_a_link_whose_text_is_its_address_has_the_address_once() -> None:
    html = str(answer_html("See [https://a.example/b](https://a.example/b) or [b](https://a.example/b)."))
    assert Markup(html).striptags() == "See https://a.example/b or b (https://a.example/b)."
    assert html.count('<a href="https://a.example/b"') == 2


@pytest.mark.parametrize(
    ("last", "is_shown"),
    [
        ("- [1] a.pdf, page 1\n- [2] b.pdf", False),
        ("- [1] a.pdf\n- [3] c.pdf", True),
        ("- [1] a.pdf\n- More.", True),
        ("- [1] a.pdf\n\nMore.", True),
    ],
)
def test_the_list_of_sources_of_an_answer_is_left_out_where_the_page_has_it(last: str, is_shown: bool) -> None:
    sources = [ShownSource(n, "a.pdf", "", "", "", "", "", []) for n in (1, 2)]
    html = str(answer_html(f"# A\n\nIt opens.\n\n## Quellen\n\n{last}", sources))
    assert ("Quellen" in html, "It opens." in html) == (is_shown, True)


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("deadlineMs", 1_800_000, ("Deadline", "30 min")),
        ("costNanoUsd", 12_345_678_901, ("Cost", "$12.35")),
        ("maxTokens", 20_000, ("Max tokens", "20,000")),
        ("userLanguageDetected", True, ("User language detected", "yes")),
        ("documents", [{"documentName": "a.pdf", "size": 5_162}], ("Documents", "a.pdf (5.2 kB)")),
        ("budgets", {"taskTokens": None}, ("Budgets", "none")),
        ("actor", {"id": "ada", "roles": [], "verified": False}, ("Actor", "Id: ada\nVerified: no")),
        ("allowed", {"report": ["ai.*", "web.*"]}, ("Allowed", "Report: ai.*, web.*")),
        ("schema", {"fields": [{"name": "a"}]}, ("Schema", '{"fields":[{"name":"a"}]}')),
    ],
)
def test_a_field_of_an_event_is_shown_with_its_unit(name: str, value: JsonValue, shown: tuple[str, str]) -> None:
    assert fact(name, value) == shown


def test_the_label_of_a_document_says_where_it_is_from() -> None:
    assert origin("round2_request") == "given in round 2"
    assert origin("round1_task2_action3_process") == "round 1, task 2, action 3: process"
    assert origin("anything") == "anything"


def test_amounts_and_spans_read_well() -> None:
    assert [day(date) for date in ("2026-01-01", "2026-11-29")] == ["1 Jan", "29 Nov"]
    assert [money(nano) for nano in (0, 1, 1_234_567, 12_345_678_901)] == ["$0", "< $0.0001", "$0.0012", "$12.35"]
    assert [duration(ms) for ms in (None, 12, 1_234, 61_000, 90_061_000)] == [
        "-",
        "12 ms",
        "1.2 s",
        "1 min 1 s",
        "1 d 1 h",
    ]


def step(number: int, *times: int | None, **more: object) -> TimedStep:
    names = ("begun_ms", "selected_ms", "parameterized_ms", "claimed_ms", "completed_ms", "observed_ms", "refined_ms")
    empty = dict.fromkeys(TimedStep.model_fields)
    counts = dict.fromkeys(("tries", "input_tokens", "output_tokens", "cost_nano_usd"), 0)
    place = {"round": 1, "task": 1, "attempt": 1, "step": number}
    given = dict(zip(names, times, strict=False))
    return TimedStep.model_validate({**empty, **counts, **place, "status": "done", "refusals": (), **given, **more})


def test_idle_time_is_folded_and_said() -> None:
    first = step(1, 0, 100, 200, 200, 900, 950, 1_000)
    second = step(2, 3_601_000, 3_601_100, 3_601_200, 3_601_200, 3_601_900, 3_601_950, 3_602_000)
    rows = timeline([first, second], 3_602_000)
    assert [row.gap_ms for row in rows] == [0, 3_600_000]
    assert rows[0].bars[2].width > 200  # of 1000, although it is 0.02 % of the time
    assert max(bar.x + bar.width for row in rows for bar in row.bars) == pytest.approx(1_000, abs=1)


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ({"approval": "denied", "approval_by": "ada", "success": False, "error": "ada denied it."}, "denied"),
        ({"approval": "denied", "success": False, "error": "No one answered."}, "expired"),
        ({"outcome": "denied", "success": False, "error": "The policy denies it."}, "denied"),
        ({"success": False, "error": "The page is gone."}, "failed"),
        ({"refusals": ["No such action."]}, "failed"),
        ({"approval": "asked", "approval_ms": 2}, "waits for approval"),
        ({"approval": "asked", "approval_ms": 2, "status": "stopped", "stopped_by": "cancelled"}, "cancelled"),
        ({"outcome": "cancelled", "success": False, "error": "It was stopped."}, "cancelled"),
        ({"outcome": "failed", "success": False, "stopped_by": "cancelled"}, "failed"),
        ({"success": True}, "done"),
    ],
)
def test_a_step_that_was_not_allowed_is_denied_and_not_failed(more: dict[str, object], word: str) -> None:
    (row,) = timeline([step(1, 0, 1, 2, **more)], 10)
    assert (row.result, row.has_failed) == (word, word in ("denied", "expired", "failed"))


def test_marks_of_markdown_are_left_out_of_a_line() -> None:
    assert plain("ai.process: **GRAND TOTAL: $1** — a\n## Part **B**.") == "ai.process: GRAND TOTAL: $1 — a\nPart B."
    assert plain("1 document: a.md - ## Part") == "1 document: a.md - Part"
    assert plain("2**10 ** a **b") == "2**10 ** a b"


def test_hints_name_commands_as_they_are_typed() -> None:
    assert prose("Start `poweron serve`, or ask in `poweron.requests`.") == Markup(
        "Start <code>uv run poweron serve</code>, or ask in <code>poweron.requests</code>."
    )
    templates = [source.read_text() for source in (HERE / "templates").glob("*.html")]
    assert not [found for text in templates for found in re.findall(r"<code>poweron .*?</code>", text)]


def test_the_policy_that_pages_propose_makes_actions_wait_and_allows_the_rest() -> None:
    for name in ("ada", 'a"b\\c', "Ada 😀"):
        policy = Policy.model_validate_json(json.dumps(tomllib.loads(example_policy(Actor(id=name, via="http")))))
        assert rule_in_words(policy, policy.rules[0]) == "web.*: 1 approval by anyone"
        assert (policy.otherwise, policy.groups["owners"].members) == ("allow", (name,))


async def test_a_page_of_a_door_that_starts_says_what_is_missing_and_loads_itself_again(tmp_path: Path) -> None:
    door = DoorState(Settings(home=tmp_path), frozenset({"127.0.0.1"}), is_local=True, roles=("planner",))
    door.progress = "Starting Kafka…"
    door.has_log.set()
    transport = httpx2.ASGITransport(app=build(door))
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        page = await http.get("/", headers={"Accept": "text/html"})
        words = " ".join(re.sub(r"<[^>]+>", " ", page.text).split())
        assert (page.status_code, page.headers["refresh"]) == (503, "2")
        assert "PowerOn is starting Starting Kafka… ✓ ready Kafka … not yet Postgres … not yet The roles" in words
        assert (await http.get("/api/v1/workflows")).json()["code"] == "unavailable"


def test_a_quotation_mark_in_the_name_of_a_file_is_read_as_browsers_write_it() -> None:
    (file,) = files_of(FormData([("files", UploadFile(BytesIO(b"x"), filename="the %22plan%22.txt"))]))
    assert file.filename == 'the "plan".txt'


def test_a_wrong_value_of_a_repeated_parameter_is_named_by_the_parameter_alone() -> None:
    wrong = {"type": "literal_error", "loc": ("query", "status", 0), "input": "x", "ctx": {"expected": "'running'"}}
    assert str(problem_of(RequestValidationError([wrong]))) == "status must be 'running'."


def test_time_that_a_person_takes_is_no_work() -> None:
    asked = step(1, 0, 100, 200, None, None, None, None, approval="asked", approval_ms=200)
    (row,) = timeline([asked], 60_200)
    assert [(span.kind, span.ms) for span in row.spans] == [("select", 100), ("parameters", 100), ("wait", 60_000)]
    assert (row.ms, row.wait_ms) == (200, 60_000)


def test_an_empty_head_of_a_table_is_left_out_and_an_empty_cell_of_a_head_is_no_header() -> None:
    empty = str(answer_html("|  |  |\n|---|---|\n| a | b |"))
    assert "<thead>" not in empty
    assert "a</td>" in empty
    half = str(answer_html("| x |  |\n|---|---|\n| a | b |"))
    assert (half.count("<th dir"), half.count("<td dir")) == (1, 3)


def test_the_words_of_a_statement_are_marked_in_the_text_of_their_page() -> None:
    html, count = marked_html(
        "| | |\n|---|---|\n| **Grand total** | $1,980.84 |\n\nGrand  total < 5", ["GRAND TOTAL"], 1_000
    )
    assert count == 2
    assert "Grand  total</mark> &lt; 5" in html
    spread, count = marked_html("It *costs* 5 euros.", ["It costs 5 euros"], 1_000)
    assert count == 1
    assert spread.startswith('<p dir="auto"><mark id="mark-1">It <em>costs</em> 5 euros.</mark>')


def test_underscores_are_no_words_to_look_for() -> None:
    """With them, the search for these words in a line of underscores takes longer than anyone waits."""
    _, count = marked_html(f"`{'_' * 60}` {'_' * 60}", ["_ " * 14 + "b"], 1_000)
    assert count == 0
    html, count = marked_html("It has a snake_case name.", ["snake_case"], 1_000)
    assert ("<mark" in html, count) == (True, 1)


def test_a_long_line_is_compared_word_by_word_in_a_moment() -> None:
    """If its spaces were compared, each with each, this would take half a minute."""
    words = [f"word{number % 900}" for number in range(6_000)]
    changed = ["other" if number % 500 == 0 else word for number, word in enumerate(words)]
    (line,) = differences(" ".join(words), " ".join(changed))
    assert [text for differs, text in line.b if differs] == ["other "] * 12


def test_only_the_first_rows_of_a_difference_are_shown() -> None:
    lines = differences("a\n" * 30_000, "b\n" * 30_000)
    assert (len(lines), lines[-2].kind, lines[-1]) == (2_001, "changed", DifferenceLine("cut", hidden=2_000))
    assert differences("a\n" * 2_000, "b\n" * 2_000)[-1].kind == "changed"
    html = str(TEMPLATES.from_string(SIDE_BY_SIDE).render(lines=lines[-2:]))
    assert "Only the first 2,000 rows are shown" in html


SIDE_BY_SIDE = '{% import "difference.html" as difference %}{{ difference.side_by_side(lines, "Texts") }}'
UPLOAD, FIELDS = "multipart/form-data; boundary=B", "application/x-www-form-urlencoded"
FILE = b'--B\r\nContent-Disposition: form-data; name="files"; filename="huge.bin"\r\n\r\n'
FIELD = b'--B\r\nContent-Disposition: form-data; name="prompt"\r\n\r\n'
PIECE = b"x" * 65_536


@pytest.mark.parametrize(
    ("media_type", "head", "takes_files", "words"),
    [
        (
            UPLOAD,
            FILE,
            True,
            "The document 'huge.bin' is too large, and nothing was sent. Up to 100 documents, at most ",
        ),
        (UPLOAD, FILE, False, "This form takes no files."),
        (UPLOAD, FIELD, True, "The fields of the form have more than 100,000 bytes."),
        (FIELDS, b"prompt=", False, "The fields of the form have more than 100,000 bytes."),
        (FIELDS, b"a=1&" * 20_000, False, "Too many fields"),
    ],
)
async def test_a_form_of_a_page_is_read_no_further_than_its_limit(
    monkeypatch: pytest.MonkeyPatch, media_type: str, head: bytes, takes_files: bool, words: str
) -> None:
    monkeypatch.setattr(form_parser, "MAX_TEXT", 100_000)
    monkeypatch.setattr(form_parser.PageFormParser, "most_of_file", 100_000)
    pieces = [head]

    async def receive() -> Message:
        pieces.append(PIECE)
        return {"type": "http.request", "body": pieces[-2], "more_body": True}

    request = Request({"type": "http", "method": "POST", "headers": [(b"content-type", media_type.encode())]}, receive)
    with pytest.raises(Problem, match=re.escape(words)):
        async with form_parser.page_form(request, takes_files=takes_files):
            pass
    assert len(pieces) <= 4


@pytest.mark.parametrize("is_declared", [True, False])
async def test_the_documents_of_a_form_are_refused_where_they_are_too_large_together(
    monkeypatch: pytest.MonkeyPatch, *, is_declared: bool
) -> None:
    monkeypatch.setattr(form_parser.PageFormParser, "most_of_files", 150_000)
    pieces = [FILE + PIECE + b"\r\n"]

    async def receive() -> Message:
        pieces.append(pieces[-1])
        return {"type": "http.request", "body": pieces[-2], "more_body": True}

    headers = [(b"content-type", UPLOAD.encode()), *([(b"content-length", b"300000000")] if is_declared else [])]
    request = Request({"type": "http", "method": "POST", "headers": headers}, receive)
    with pytest.raises(Problem, match="200 MB together"):
        async with form_parser.page_form(request, takes_files=True):
            pass
    assert len(pieces) == (1 if is_declared else 4)


async def test_a_form_whose_sender_is_gone_is_no_error_of_the_door() -> None:
    async def receive() -> Message:
        return {"type": "http.disconnect"}

    request = Request({"type": "http", "method": "POST", "headers": [(b"content-type", FIELDS.encode())]}, receive)
    with pytest.raises(Problem, match="closed before the end"):
        async with form_parser.page_form(request, takes_files=False):
            pass


async def test_only_the_answers_that_were_shown_last_are_kept() -> None:
    answers, checked = AnswerCache[int](set()), list[int]()

    async def check(number: int) -> int:
        checked.append(number)
        return number

    numbers = [*range(MOST), 0, MOST, 0, 1]
    assert [await answers.get(number, partial(check, number)) for number in numbers] == numbers
    assert checked == [*range(MOST), MOST, 1]


async def test_an_answer_whose_check_failed_is_checked_again() -> None:
    answers, results = AnswerCache[int](set()), [Unavailable("no content store"), 1]

    async def check() -> int:
        result = results.pop(0)
        if isinstance(result, Unavailable):
            raise result
        return result

    outcomes = await asyncio.gather(*(answers.get(0, check) for _ in range(2)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Unavailable] * 2
    assert await answers.get(0, check) == 1
