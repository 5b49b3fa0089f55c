"""What the README and the pages of `docs` show is what happens."""

import json
import os
import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer.main
from servers import furnished
from typer import Typer

from poweron_events.log.kafka_settings import KafkaSettings
from poweron_services.cli.main import app
from poweron_services.settings.config import Settings
from poweron_services.settings.secret_settings import setting_variables

HOUSE = Path(__file__).parent.parent
README = (HOUSE / "README.md").read_text()
DOCS = HOUSE / "docs"


def load(path: Path) -> ModuleType:
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def test_the_list_of_tool_servers_that_is_shown_begins_with_the_one_that_is_run() -> None:
    (shown,) = re.findall(
        r"^```json\n(\{\n  \"mcpServers\".*?)^```$", (DOCS / "mcp.md").read_text(), re.MULTILINE | re.DOTALL
    )
    example = json.loads((HOUSE / "docs" / "examples" / "mcp.json").read_text())
    assert json.loads(shown)["mcpServers"]["files"] == example["mcpServers"]["files"]


transcripts = load(HOUSE / "docs" / "transcripts.py")

VARYING = {
    r"127\.0\.0\.1:\d+": "ADDRESS",
    r"(\d{4}-\d\d-\d\d[T ])?\d\d:\d\d(:\d\d)?(\.\d+)?": "TIME",
    r"\d+\.\d s\b": "SECONDS",
    r"%2F\S*(?=&port)": "SOCKET",
    r"[ \d]\d/\d+ +(?=\w+\.)": "PLACE ",  # a process may have recorded its start in the same partition
    r"(?<=^(?:<<<|>>>) )[0-9a-f]{16}$": "DELIMITER",
}


def lasting(text: str) -> list[str]:
    """The lines without what differs from run to run, and without when servers are started and stopped."""
    for pattern, name in VARYING.items():
        text = re.sub(pattern, name, text, flags=re.MULTILINE)
    return [line for line in text.splitlines() if not line.startswith(("Downloading ", "Starting ", "Stopping "))]


@pytest.fixture
def home(software: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty data directory but for the software."""
    return furnished(tmp_path_factory.mktemp("ada"), software)


@pytest.mark.system
@pytest.mark.timeout(300)
def test_the_commands_print_what_the_pages_show(home: Path, tmp_path: Path) -> None:
    (tmp_path / "docs").symlink_to(HOUSE / "docs")
    shell = transcripts.Shell(tmp_path, {"POWERON_HOME": str(home), "POWERON_KAFKA": "", "POWERON_POSTGRES": ""})
    try:
        shell.run("up", "")  # one start for all commands
        for page in transcripts.PAGES:
            for block in transcripts.blocks(page.read_text()):
                for command, shown in transcripts.conversation(block):
                    assert lasting(shell.run(command, shown)) == lasting(shown), f"{command}: run `make transcripts`"
    finally:
        shell.run("down", "")


def test_how_far_a_download_has_come_is_not_written_down() -> None:
    began, starting = "Downloading Kafka (43 MB, once)…\n", "Starting Kafka…\n"
    printed = f"{began}Downloading Kafka: 7 of 43 MB…\nDownloading Kafka: 43 of 43 MB…\n{starting}"
    assert transcripts._FETCHING.sub("", printed) == began + starting


@pytest.fixture
def given(kafka: KafkaSettings, dsn: str, tmp_path: Path) -> dict[str, str]:
    """The environment of somebody who has a Kafka and a Postgres."""
    (tmp_path / "docs").symlink_to(HOUSE / "docs")
    return {
        **os.environ,
        **kafka.environment(),
        "POWERON_POSTGRES": dsn,
        "POWERON_HOME": str(tmp_path / "home"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }


def examples(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (HOUSE / page).read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.system
@pytest.mark.parametrize(("page", "fact"), [("README.md", "September 12, 2025"), ("services/README.md", "$1,980.84")])
def test_the_example_with_a_service_of_ones_own_runs(
    page: str, fact: str, given: dict[str, str], tmp_path: Path
) -> None:
    (example,) = [block for block in examples(page, "sh") if "--no-serve" in block]
    own = re.sub(r"^(export|uv run poweron (up|down)).*\n", "", example, flags=re.MULTILINE)
    script = own.replace("uv run ", "") + "wait\n"

    done = subprocess.run(["bash", "-ec", script], cwd=tmp_path, env=given, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert fact in done.stdout


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{page.name}" for page in sorted(DOCS.glob("*.md")))])
def test_every_command_of_a_page_runs_and_lets_the_next_one_run(page: str) -> None:
    for block in examples(page, "sh"):
        commands = [line for line in block.splitlines() if re.search(r"\bpoweron [a-z]", line)]
        assert [line for line in commands if "uv run poweron " not in line] == []
        assert [line for line in commands[:-1] if " serve" in line and not line.endswith(" &")] == []


@pytest.mark.system
def test_the_example_in_python_runs(given: dict[str, str], tmp_path: Path) -> None:
    (example,) = examples("services/README.md", "python")

    done = subprocess.run(
        [sys.executable, "-c", example], cwd=tmp_path, env=given, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "\ncompleted " in f"\n{done.stdout}"
    assert "September 12, 2025" in done.stdout


def test_the_table_of_settings_names_every_setting_with_its_default() -> None:
    tables = "".join((DOCS / page).read_text() for page in ("settings.md", "web.md"))
    shown = dict(re.findall(r"^\| `(?:POWERON_)?([A-Z]\w+)` \|(?: `(.*?)`)? \|", tables, re.MULTILINE))
    fields = {
        field.validation_alias if isinstance(field.validation_alias, str) else name.upper(): field
        for name, field in Settings.model_fields.items()
    }
    defaults = {name: field.default for name, field in fields.items() if field.default_factory is None}
    written = {None: "", False: "false"}
    assert shown == {
        **{name: written.get(default, str(default)) for name, default in defaults.items()},
        "HOME": "~/.local/share/poweron",
    }


def test_the_page_of_commands_is_the_command_line() -> None:
    page = load(DOCS / "commands.py")
    assert (DOCS / "commands.md").read_text() == page.page(), "run `uv run docs/commands.py`"


def test_the_index_names_every_page_and_the_readme_is_short() -> None:
    index = (DOCS / "README.md").read_text()
    assert [page.name for page in DOCS.glob("*.md") if page.name != "README.md" and f"({page.name})" not in index] == []
    assert len(README.encode()) <= 12_000


def _parameters(command: Any) -> list[Any]:
    """What a command takes, and what those within it take."""
    inner = getattr(command, "commands", {}).values()
    return [*getattr(command, "params", ()), *(each for one in inner for each in _parameters(one))]


@pytest.mark.parametrize(
    "name",
    sorted(
        str(page.relative_to(HOUSE)) for page in [*HOUSE.glob("*.md"), *HOUSE.glob("*/README.md"), *DOCS.glob("*.md")]
    ),
)
def test_what_a_page_names_exists(name: str) -> None:
    page = HOUSE / name
    text = page.read_text()
    links = [link for link in re.findall(r"\]\(([^)#:]+)\)", text) if not (page.parent / link).exists()]
    assert isinstance(app, Typer)
    commands = typer.main.get_group(app).commands
    unknown = []
    for command, rest in re.findall(r"\bpoweron ([a-z]+)\b([^`\n]*)", text):
        options = {name for each in _parameters(commands.get(command)) for name in each.opts}
        unknown += [f"{command} {name}" for name in re.findall(r"--[a-z-]+", rest) if name not in options]
    settings = {*setting_variables(Settings), "POWERON_TEST_SERVERS"}
    unknown += set(re.findall(r"\bPOWERON_[A-Z_]+", text)) - settings
    assert (links, unknown) == ([], [])


def test_continuous_integration_runs_what_the_readme_tells() -> None:
    ((unset, command),) = re.findall(r"^(unset .*)\npip install uv && (uv run pytest.*)$", README, re.MULTILINE)
    lines = (HOUSE / ".ci" / "run").read_text().splitlines()
    assert lines[-1].endswith(f" {command}")
    assert [line for line in lines if line.startswith(unset)]
