"""Models that a command names with `--model`: where one is not configured, it is said which are, before any server."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import typer
from commands import Shell

from builders import Told
from poweron_services import wiring
from poweron_services.cli.model_option import check_nameable
from poweron_services.models.chat_model import ChatModel
from poweron_services.settings.config import Settings

WORKFLOW = Told().id
COMMANDS = {
    "fork": ["fork", WORKFLOW, "--at", "1"],
    "replay": ["replay", WORKFLOW, "--at", "1"],
    "evaluate": ["evaluate", "requests.jsonl"],
}
KINDS = (
    "`builtin`, `openai:MODEL`, `openai-responses:MODEL`, `anthropic:MODEL`, `mistral:MODEL`, `azure:MODEL`, "
    "`ollama:MODEL` or `scripted:FILE`"
)
UNSET = {"OPENAI_API_KEY": "", "ANTHROPIC_API_KEY": "", "MISTRAL_API_KEY": "", "AZURE_OPENAI_API_KEY": ""}


KEY = "A model of openai is asked for: set OPENAI_API_KEY to your key."
NO_SCRIPT = (
    "The script 'none.json' cannot be read: No such file or directory. It must be a JSON object of lists. "
    "Configured is builtin."
)
OTHERS = {"POWERON_MODEL": "mistral:large", "ANTHROPIC_API_KEY": "a key", "MISTRAL_API_KEY": "a key"}
CONFIGURED = "Configured are builtin and mistral:large; keys are set for models of anthropic and mistral."


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("model", "settings", "why"),
    [
        ("nope", {}, f"'nope' is no model: it must be {KINDS}. Configured is builtin."),
        ("openai:gpt-5", {}, f"{KEY} Configured is builtin."),
        ("openai:gpt-5", OTHERS, f"{KEY} {CONFIGURED}"),
        ("scripted:none.json", {}, NO_SCRIPT),
    ],
)
async def test_a_model_that_is_not_configured_is_told_with_those_that_are(
    tmp_path: Path, command: str, model: str, settings: dict[str, str], why: str
) -> None:
    (tmp_path / "requests.jsonl").write_text('{"prompt": "What?", "expect": {}}\n')
    shell = Shell({"POWERON_HOME": str(tmp_path / "home"), "COLUMNS": "500", **UNSET, **settings}, tmp_path)
    ended = await shell(*COMMANDS[command], "--model", model)
    assert (ended.code, ended.err) == (2, f"The model {model!r} of --model is not configured. {why}\n")
    assert not (tmp_path / "home" / "servers").exists()


def test_the_model_of_a_fork_is_built_once_to_be_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[list[str]] = []
    build = wiring.build_model

    def counted(settings: Settings, stack: AsyncExitStack) -> ChatModel:
        names.append(settings.named_models)
        return build(settings, stack)

    monkeypatch.setattr(wiring, "build_model", counted)
    check_nameable(Settings(_env_file=None), "builtin")
    assert names == [["builtin"]]


def test_a_fork_asks_no_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "script.json").write_text("{}")
    with pytest.raises(typer.Exit):
        check_nameable(Settings(_env_file=None), f"scripted:{tmp_path / 'script.json'}")
    assert "A fork asks one model, and no script." in " ".join(capsys.readouterr().err.split())
