"""What the command line says before any server is started."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

from poweron_services.cli.main import COMMANDS, app

HEAVY = {
    "pydantic_ai",
    "jsonschema",
    "aiokafka",
    "asyncpg",
    "pydantic",
    "obstore",
    "rich.console",
    "structlog",
    "asyncio",
}


def test_the_version_is_printed() -> None:
    ended = CliRunner().invoke(app, ["--version"])
    assert (ended.exit_code, ended.stdout) == (0, f"poweron {version('poweron-services')}\n")
    assert "Run work that a language model steers" in CliRunner().invoke(app, ["--help"]).stdout


@pytest.mark.parametrize(
    ("arguments", "flag", "advice"),
    [
        ("'--prefix=/opt' '--enable-optimizations' '--with-lto'", "-fprofile-use", ""),
        ("'--prefix=/usr' '--with-dtrace'", "", ""),  # of Debian
        (None, None, ""),  # of Windows
        ("'--prefix=/opt'", "-fprofile-use", "built without optimisations"),
    ],
)
def test_an_interpreter_that_was_built_without_optimisations_is_named(
    arguments: str | None, flag: str | None, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = {"CONFIG_ARGS": arguments, "PGO_PROF_USE_FLAG": flag}
    monkeypatch.setattr("sysconfig.get_config_var", built.get)
    ended = CliRunner().invoke(app, ["--version"])
    assert ended.exit_code == 0
    assert (advice in ended.stderr) if advice else (ended.stderr == "")


def test_the_list_of_commands_says_what_the_help_of_each_begins_with() -> None:
    commands = typer.main.get_group(app).commands
    first = {name: " ".join((command.help or "").split("\n\n")[0].split()) for name, command in commands.items()}
    assert first == {name: command.meaning for name, command in COMMANDS.items()}


def test_help_needs_nothing_heavy() -> None:
    program = (
        "import sys; from poweron_services.cli.main import app; app(['--help'], standalone_mode=False); "
        "print(*sys.modules, file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "Commands:" in ended.stdout
    assert HEAVY & set(ended.stderr.split()) == set()


def test_a_bucket_without_credentials_is_told_before_any_server_is_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("POWERON_CONTENT", "s3://poweron-tests/prefix")
    ended = CliRunner().invoke(app, ["ask", "?"])
    assert ended.exit_code == 1
    assert ended.stderr.endswith(
        "The content store cannot be used. No credentials were found for it: set AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY, or give this machine a role.\n"
    )
    assert "POWERON_KAFKA" not in ended.stderr
    assert "tarting" not in ended.stderr


@pytest.mark.parametrize("setting", ["POWERON_MCP", "POWERON_CONNECTIONS"])
def test_a_file_that_cannot_be_used_is_told_before_any_server_is_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, setting: str
) -> None:
    (tmp_path / "named").write_text("{")
    monkeypatch.setenv("POWERON_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(setting, str(tmp_path / "named"))
    ended = CliRunner().invoke(app, ["ask", "?"])
    assert ended.exit_code == 1
    assert ended.stderr.startswith(f"{setting}: {str(tmp_path / 'named')!r} ")
    assert "tarting" not in ended.stderr
