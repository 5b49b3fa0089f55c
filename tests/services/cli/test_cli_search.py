"""`poweron search check`: whether the search engine works, and what to do where it does not."""

from pathlib import Path

import orjson
import pytest
from engines import KEY, Playing, page
from pytest_httpserver import HTTPServer
from typer.testing import CliRunner

from builders import At, Told, planned, requested
from poweron_events.client import Heard
from poweron_events.codec import read_record
from poweron_events.log import Record
from poweron_events.stream import WorkflowEvent
from poweron_events.topics import EVENTS, PARTITIONS, partition_of
from poweron_services.cli.ask_command import AskProgress
from poweron_services.cli.main import app
from poweron_services.settings.config import Settings

SITE = Path(__file__).parents[3] / "docs" / "examples" / "site"


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, httpserver: HTTPServer) -> None:
    monkeypatch.setenv("POWERON_HOME", str(tmp_path))
    for engine in ("TAVILY", "BRAVE"):
        monkeypatch.setenv(f"{engine}_API_KEY", KEY)
        monkeypatch.setenv(f"{engine}_BASE_URL", httpserver.url_for("/"))


@pytest.mark.req("C-01")
@pytest.mark.parametrize("engine", ["tavily", "brave"])
def test_an_engine_that_works_is_asked_once_for_one_page(
    engine: str, monkeypatch: pytest.MonkeyPatch, httpserver: HTTPServer
) -> None:
    playing = Playing(httpserver, engine, [page("https://harbor.example/")])
    monkeypatch.setenv("POWERON_SEARCH", engine)

    ended = CliRunner().invoke(app, ["search", "check"])

    assert (ended.exit_code, ended.stderr) == (0, "")
    row, sentence = ended.stdout.splitlines()
    assert row.split()[:2] == [engine, "works"]
    assert sentence == "The search engine works."
    assert [str(asked.get("max_results", asked.get("count"))) for asked in playing.asked] == ["1"]


def test_a_folder_is_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POWERON_SEARCH", f"folder:{SITE}")

    assert orjson.loads(CliRunner().invoke(app, ["search", "check", "--json"]).stdout) | {"durationMs": 0} == {
        "engine": "folder",
        "works": True,
        "problem": None,
        "code": None,
        "pages": 1,
        "durationMs": 0,
    }


def test_a_folder_without_pages_answers_and_finds_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("POWERON_SEARCH", f"folder:{tmp_path}")

    assert CliRunner().invoke(app, ["search", "check"]).stdout.splitlines()[1] == "It answered, and found nothing."


@pytest.mark.req("C-01")
def test_without_an_engine_it_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POWERON_SEARCH", "")

    ended = CliRunner().invoke(app, ["search", "check"])

    assert ended.exit_code == 1
    assert " ".join(ended.stdout.split()) == (
        "There is no search engine. Set POWERON_SEARCH to a search engine "
        "(`tavily`, `brave`, `searxng:URL` or `folder:PATH`), or attach documents."
    )


@pytest.mark.req("R-03")
@pytest.mark.req("S27")
@pytest.mark.parametrize(
    ("engine", "status", "said"),
    [
        ("tavily", 401, "Tavily does not let us in. Set TAVILY_API_KEY to a key that is valid and may search."),
        ("brave", 422, "Brave does not let us in. Set BRAVE_API_KEY to a key that is valid and may search."),
        ("tavily", 429, "Tavily is asked too often. Wait a minute, or have the limits of the account raised."),
        (
            "tavily",
            432,
            (
                "The account at Tavily has used up what it may search. "
                "Raise the limit of the account at the engine, or set POWERON_SEARCH to another one."
            ),
        ),
        (
            "brave",
            500,
            (
                "Brave could not search. "
                "Check that this machine can reach it; its status page, or its own log, may say more."
            ),
        ),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do_and_without_the_key(
    engine: str, status: int, said: str, monkeypatch: pytest.MonkeyPatch, httpserver: HTTPServer
) -> None:
    playing = Playing(httpserver, engine)
    playing.failing(status)
    playing.failing(status)
    monkeypatch.setenv("POWERON_SEARCH", engine)

    shown = CliRunner().invoke(app, ["search", "check"])
    as_json = CliRunner().invoke(app, ["search", "check", "--json"])

    assert (shown.exit_code, as_json.exit_code) == (1, 1)
    assert " ".join(shown.stdout.splitlines()[1:]) == said
    assert orjson.loads(as_json.stdout)["problem"] == said
    assert KEY not in shown.output + as_json.output


def test_a_searxng_that_gives_no_json_is_told_how_to(monkeypatch: pytest.MonkeyPatch, httpserver: HTTPServer) -> None:
    Playing(httpserver, "searxng").failing(403)
    monkeypatch.setenv("POWERON_SEARCH", f"searxng:{httpserver.url_for('/')}")

    ended = CliRunner().invoke(app, ["search", "check"])

    assert " ".join(ended.stdout.splitlines()[1:]) == (
        "SearXNG does not let us in. Add `json` to the `formats` below `search` in its settings.yml."
    )


def test_a_key_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POWERON_SEARCH", "brave")
    monkeypatch.setenv("BRAVE_API_KEY", "")

    ended = CliRunner().invoke(app, ["search", "check"])

    assert ended.exit_code == 1
    assert ended.stdout.splitlines()[1] == "POWERON_SEARCH names Brave: set BRAVE_API_KEY to your key."


def test_a_setting_that_names_no_engine_is_told_without_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POWERON_SEARCH", "searxng:http://ada:s3cret@localhost")

    ended = CliRunner().invoke(app, ["search", "check"])

    assert ended.exit_code == 2
    assert "POWERON_SEARCH: that is no search engine" in " ".join(ended.stderr.split())
    assert "s3cret" not in ended.output


# --- advice below an answer -----------------------------------------------------------------------------------


NONE_SET = (
    "Set POWERON_SEARCH to a search engine (`tavily`, `brave`, `searxng:URL` or `folder:PATH`), or attach documents."
)


def heard(*events: WorkflowEvent) -> AskProgress:
    """What `poweron ask` knows after it heard these events."""
    asked, told = AskProgress(), Told()
    for event in events:
        message = told.tell(event).messages[-1]
        partition = partition_of(told.id.encode(), PARTITIONS)
        record = Record(EVENTS.name, partition, len(told.values) - 1, 0, message.key, message.value, {})
        asked.heard(Heard(read_record(record), told.verdicts[-1], told.workflow))
    return asked


@pytest.mark.req("C-01")
def test_where_the_built_in_model_had_nothing_to_answer_from_ask_says_what_to_set() -> None:
    nothing = heard(requested(documents=()), planned())

    assert nothing.search_advice(Settings(), alone=True) == NONE_SET
    assert nothing.search_advice(Settings(), alone=False) is None
    assert nothing.search_advice(Settings(search=f"folder:{SITE}"), alone=True) is None
    assert nothing.search_advice(Settings(model="openai:gpt-5-mini"), alone=True) is None


@pytest.mark.req("C-01")
def test_where_a_model_wanted_to_search_and_could_not_ask_says_what_to_do() -> None:
    asked = heard(requested(), planned(), At().selection_rejected(code="search_unavailable"))

    assert asked.search_advice(Settings(), alone=False) == NONE_SET


@pytest.mark.req("C-01")
def test_what_can_be_done_about_an_engine_that_lets_nobody_in_depends_on_the_engine() -> None:
    asked = heard(requested(), planned(), At().selection_rejected(code="search_unauthorized"))

    advised = asked.search_advice(Settings(search="searxng:http://search.example"), alone=False)
    assert advised == "Add `json` to the `formats` below `search` in its settings.yml."
