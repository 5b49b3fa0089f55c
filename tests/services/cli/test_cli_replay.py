"""`poweron replay`, typed wrongly: said before any server is started."""

import pytest
from typer.testing import CliRunner

from builders import Told
from poweron_services.cli.main import app

WRONG = {
    "one and all": ([Told().id, "--all"], "Both a workflow and --all are given: leave one of them out."),
    "nothing": ([], "Name the workflow to replay (`poweron workflows` lists them), or give --all for every one."),
    "how often, of no model": ([Told().id, "-n", "3"], "-n says how often a model is asked: name one with --model."),
    "a model for nothing": ([Told().id, "--model", "builtin"], "--model asks for one decision: name the workflow,"),
    "a model for all": (
        ["--all", "--at", "3", "--model", "builtin"],
        "--model asks for one decision: name the workflow,",
    ),
    "an event of all": (["--all", "--at", "3"], "--at is an event of one workflow: name that, without --all."),
    "no event": ([Told().id, "--at", "-1"], "'-1' is not a whole number from 0 to 2,147,483,647."),
    "never": ([Told().id, "--at", "2", "--model", "builtin", "-n", "0"], "'0' is not a whole number from 1 to 100."),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_typed_wrongly_is_said_and_nothing_is_opened(name: str) -> None:
    arguments, said = WRONG[name]
    ended = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["replay", *arguments])
    assert ended.exit_code == 2
    assert said in ended.stderr
