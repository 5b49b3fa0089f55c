"""What the settings name as secret stands in no log line, from the first one that a process writes."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog
import typer

from poweron_events.errors import Refused
from poweron_events.request import RequestWorkflow
from poweron_services import standalone, telemetry
from poweron_services.cli import service_commands
from poweron_services.cli.error_messages import load_settings
from poweron_services.settings.secret_redaction import NO_SECRETS

pytestmark = pytest.mark.req("R-03")

CRM, LOGIN, KEY = "a-token-of-the-crm", "a-login-of-a-program", "a-key-in-a-header"
CONNECTIONS = '[crm]\ntoken = { env = "CRM_TOKEN" }\n'
SERVERS = {
    "local": {"command": "museum", "env": {"MUSEUM_LOGIN": LOGIN}},
    "far": {"url": "https://museum.example/mcp", "headers": {"Authorization": f"Bearer {KEY}"}},
}


@pytest.fixture(autouse=True)
def _set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    (tmp_path / "connections.toml").write_text(CONNECTIONS)
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": SERVERS}))
    monkeypatch.setenv("POWERON_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("POWERON_CONNECTIONS", str(tmp_path / "connections.toml"))
    monkeypatch.setenv("POWERON_MCP", str(tmp_path / "servers.json"))
    monkeypatch.setenv("CRM_TOKEN", CRM)
    yield
    telemetry.hide_secrets(NO_SECRETS)


async def something_is_told(*_: object) -> None:
    """The first thing that happens, in place of servers that are begun."""
    structlog.get_logger().warning("server_unavailable", error=f"It refused {CRM}, {LOGIN} and {KEY}.")
    raise Refused("It does not go on from here.")


def a_command(_: pytest.MonkeyPatch) -> None:
    load_settings()
    with pytest.raises(Refused):
        asyncio.run(something_is_told())


def the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_commands, "_serve", something_is_told)
    with pytest.raises(typer.Exit):
        service_commands.serve([])


def a_program_that_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standalone, "check_content", something_is_told)
    with pytest.raises(Refused):
        asyncio.run(standalone.execute_unified_workflow(RequestWorkflow(prompt="Read it.")))


@pytest.mark.parametrize("beginning", [a_command, the_service, a_program_that_uses_it])
def test_no_secret_of_a_connection_or_a_tool_server_is_told_even_before_an_action_runs(
    beginning: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    beginning(monkeypatch)
    told = capsys.readouterr().err + "".join(path.read_text() for path in (tmp_path / "home").rglob("*.log"))
    assert "It refused [hidden], [hidden] and [hidden]." in told


def test_a_file_that_cannot_be_used_stops_nobody_here_and_shows_nothing_of_the_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "servers.json").write_text("[")
    a_program_that_uses_it(monkeypatch)
    assert f"It refused [hidden], {LOGIN} and {KEY}." in capsys.readouterr().err
