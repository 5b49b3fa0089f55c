"""`poweron models check`: whether every configured model works, what it cost, and what to do where one does not."""

from pathlib import Path

import orjson
import pytest
from providers import KEY, Playing, failing, saying
from pytest_httpserver import HTTPServer
from test_providers import PLAN
from typer.testing import CliRunner

from poweron_services.cli.main import app


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, httpserver: HTTPServer) -> None:
    monkeypatch.setenv("POWERON_HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_BASE_URL", httpserver.url_for("/v1"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "")


def test_the_built_in_model_works_and_costs_nothing() -> None:
    ended = CliRunner().invoke(app, ["models", "check"])
    assert (ended.exit_code, ended.stderr) == (0, "")
    row, head, *stages, sentence = ended.stdout.splitlines()
    assert row.split()[:2] == ["builtin", "works"]
    assert row.endswith("-  all stages")
    assert head.split() == ["stage", "form", "right", "time", "tokens", "cost"]
    assert [each.split()[0] for each in stages] == [
        *("plan", "select", "parameterize", "refine", "review", "process", "message")
    ]
    assert all(each.split()[1:4] == ["5", "of", "5"] for each in stages)
    assert sentence == "Every model works."


def test_what_is_wrong_with_each_model_is_said_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, httpserver: HTTPServer
) -> None:
    usage = {"input_tokens": 1_000, "output_tokens": 40}
    playing = Playing(httpserver, "openai-responses", [saying("openai-responses", PLAN, usage=usage)])
    monkeypatch.setenv("POWERON_MODEL", "openai-responses:gpt-4o-mini")
    monkeypatch.setenv("POWERON_MODEL_PLAN", "anthropic:claude-opus-5")
    ended = CliRunner().invoke(app, ["models", "check"])
    assert ended.exit_code == 1
    assert len(playing.asked) == 31  # a plan for next to nothing, and five cases of six stages
    rows = ended.stdout.splitlines()
    assert rows[0].split()[:2] == ["anthropic:claude-opus-5", "fails"]
    assert rows[0].endswith("  plan")
    assert rows[1] == "  A model of anthropic is asked for: set ANTHROPIC_API_KEY to your key."
    assert "$0.000174" in rows[2]
    assert "select          0 of 5    0 of 5" in rows[4]
    assert "too weak: read before answering: its form; write the file that is asked for: its form" in rows[4]
    assert "process         5 of 5    0 of 5" in rows[8]
    assert rows[-2].startswith("openai-responses:gpt-4o-mini is too weak for select, parameterize, refine, review, ")
    assert "name another model with POWERON_MODEL_SELECT and POWERON_MODEL_PARAMETERIZE" in rows[-2]
    assert rows[-1] == "Of 2 models, 1 does not work."


@pytest.mark.req("S27")
def test_as_json_a_key_that_was_refused_is_no_part_of_the_answer(
    monkeypatch: pytest.MonkeyPatch, httpserver: HTTPServer
) -> None:
    Playing(httpserver, "openai", [failing("openai", 401, f"Incorrect API key provided: {KEY}")])
    monkeypatch.setenv("POWERON_MODEL", "openai:gpt-4o-mini")
    ended = CliRunner().invoke(app, ["models", "check", "--json"])
    assert ended.exit_code == 1
    assert KEY not in ended.output
    told = orjson.loads(ended.stdout)
    assert (told["model"], told["works"], told["costNanoUsd"]) == ("openai:gpt-4o-mini", False, 0)
    assert told["code"] == "model_access_denied"
    assert told["problem"].endswith(" Set OPENAI_API_KEY to a key that is valid and may use the model.")


def test_a_script_that_is_not_there_is_said_in_plain_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POWERON_MODEL", "scripted:/nope")
    said = CliRunner().invoke(app, ["models", "check"]).stdout
    assert "The script '/nope' cannot be read: No such file or directory. It must be" in said


def test_an_answer_in_a_wrong_form_does_not_count_as_working(
    monkeypatch: pytest.MonkeyPatch, httpserver: HTTPServer
) -> None:
    Playing(httpserver, "openai", [saying("openai", "Hello!")])
    monkeypatch.setenv("POWERON_MODEL", "openai:gpt-4o-mini")
    ended = CliRunner().invoke(app, ["models", "check"])
    assert ended.exit_code == 1
    _, problem, sentence = ended.stdout.splitlines()
    assert problem.startswith("  The answer")
    assert problem.endswith(" POWERON_MODEL_OUTPUT=prompted or a larger model may help.")
    assert sentence == "The model does not work."


def test_an_answer_that_was_cut_off_is_no_matter_of_its_form(
    monkeypatch: pytest.MonkeyPatch, httpserver: HTTPServer
) -> None:
    cut = [{"index": 0, "message": {"role": "assistant", "content": "{"}, "finish_reason": "length"}]
    Playing(httpserver, "openai", [saying("openai", PLAN, choices=cut)])
    monkeypatch.setenv("POWERON_MODEL", "openai:gpt-4o-mini")
    problem = CliRunner().invoke(app, ["models", "check"]).stdout.splitlines()[1]
    assert problem.endswith(" A larger POWERON_MODEL_MAX_TOKENS or a larger budget leaves more room.")


@pytest.mark.req("S41")
@pytest.mark.parametrize(
    ("said", "code", "advised"),
    [
        (
            "max_tokens is too large: 16000. This model supports at most 4096 completion tokens.",
            "answer_limit_too_large",
            "Set POWERON_MODEL_MAX_TOKENS to what it accepts.",
        ),
        ("Unknown parameter: 'stop'.", "model_refused", "Unknown parameter: 'stop'."),
    ],
)
def test_what_a_provider_refuses_is_said_with_what_to_set_and_never_to_check_again(
    said: str, code: str, advised: str, monkeypatch: pytest.MonkeyPatch, httpserver: HTTPServer
) -> None:
    Playing(httpserver, "openai", [failing("openai", 400, said)])
    monkeypatch.setenv("POWERON_MODEL", "openai:gpt-4o-mini")
    told = orjson.loads(CliRunner().invoke(app, ["models", "check", "--json"]).stdout)
    assert told["code"] == code
    assert told["problem"].endswith(advised)


@pytest.mark.req("B-02")
def test_a_model_that_reports_no_usage_is_marked(monkeypatch: pytest.MonkeyPatch, httpserver: HTTPServer) -> None:
    Playing(httpserver, "openai", [saying("openai", PLAN, usage=None)])
    monkeypatch.setenv("POWERON_MODEL", "openai:gpt-4o-mini")
    ended = CliRunner().invoke(app, ["models", "check"])
    assert "It does not report what it used: tokens and cost are estimates" in ended.stdout
