"""Connections stand in a file that holds no secret; what is wrong with it is said at the start."""

from pathlib import Path

import pytest
from doubles import Counting

from poweron_events.catalog import ActionSpec
from poweron_services.actions.registry import offered
from poweron_services.settings.action_connections import ActionConnections, Connection, UnusableConnection

CRM = """
[crm]
kind = "crm"
description = "The customers"
url = "https://crm.example.org"
retries = 3
token = { env = "CRM_TOKEN" }

["mail of sales"]
kind = "imap"
password = { file = "FOLDER/password" }
"""
TOKEN, PASSWORD = "tok-1234567890", "pass-1234567890"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    (tmp_path / "connections.toml").write_text(CRM.replace("FOLDER", str(tmp_path)))
    return tmp_path / "connections.toml"


@pytest.mark.req("R-03")
def test_a_connection_is_handed_over_with_its_secrets_as_they_are_now(file: Path) -> None:
    environment = {"CRM_TOKEN": TOKEN}
    connections = ActionConnections.read(file, environment)
    assert connections.labels() == ("crm", "mail of sales")
    assert connections.labels("imap") == ("mail of sales",)
    crm, mail = connections.resolve_all().values()
    assert isinstance(crm, Connection)
    assert isinstance(mail, Connection)
    assert crm.settings == {"url": "https://crm.example.org", "retries": 3}
    assert crm.secrets["token"].get_secret_value() == TOKEN
    assert mail.secrets["password"].get_secret_value() == PASSWORD
    environment["CRM_TOKEN"] = "another-token"
    changed = connections.resolve_all()["crm"]
    assert isinstance(changed, Connection)
    assert changed.secrets["token"].get_secret_value() == "another-token"


@pytest.mark.req("R-03")
def test_a_connection_shows_no_secret_to_whoever_prints_it(file: Path) -> None:
    connections = ActionConnections.read(file, {"CRM_TOKEN": TOKEN})
    shown = repr(connections) + repr(connections.resolve_all())
    assert "'crm'" in shown
    assert TOKEN not in shown
    assert PASSWORD not in shown


@pytest.mark.req("R-03")
@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("crm = 3", r"'crm' is no table; write `\[crm\]` above what belongs to it\."),
        ("[crm", "Expected .* at the end of a table declaration"),
        ("['a/b']", "'a/b' is no label"),
        ('[crm]\npassword = "pass-1234567890"', "password of 'crm' looks like a secret, which must not be there"),
        ('[crm]\napi_key = "pass-1234567890"', "api_key of 'crm' looks like a secret"),
        ("[crm]\ntoken = { enw = 'A' }", "token of 'crm' does not say where the secret is; write { env ="),
        ("[crm]\nurls = ['a']", "urls of 'crm' is no text, number or truth value"),
        ("[crm]\nkind = 3", "kind and description of 'crm' must be texts"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_a_sentence(written: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "connections.toml"
    path.write_text(written)
    with pytest.raises(UnusableConnection, match=f"POWERON_CONNECTIONS: '.*' cannot be used: .*{why}") as refused:
        ActionConnections.read(path, {})
    assert "pass-1234567890" not in str(refused.value)


def test_a_file_that_is_not_there_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UnusableConnection, match=r"^POWERON_CONNECTIONS: '.*' cannot be read: No such file"):
        ActionConnections.read(tmp_path / "none.toml", {})


@pytest.mark.req("R-03")
@pytest.mark.parametrize(
    ("environment", "why"),
    [
        ({}, "token of 'crm' cannot be read: the variable CRM_TOKEN has no value; give it one\\.$"),
        ({"CRM_TOKEN": "1234567"}, "the variable CRM_TOKEN holds fewer than 8 characters"),
    ],
)
def test_a_secret_that_is_missing_or_too_short_to_be_hidden_is_told_at_the_start(
    environment: dict[str, str], why: str, file: Path
) -> None:
    with pytest.raises(UnusableConnection, match=f"^POWERON_CONNECTIONS: .*{why}"):
        ActionConnections.read(file, environment).check()


def test_a_file_with_a_secret_that_is_not_there_is_told_at_the_start(file: Path) -> None:
    file.with_name("password").unlink()
    with pytest.raises(UnusableConnection, match=r"password of 'mail of sales' .* the file .*: No such file"):
        ActionConnections.read(file, {"CRM_TOKEN": TOKEN}).check()


class Connected(Counting):
    """An action that works on a connection of some kind."""

    kind: str | None = None
    required: bool = True

    @property
    def spec(self) -> ActionSpec:
        described = {"type": "string"} | ({"connectionKind": self.kind} if self.kind else {})
        needed = {"required": ["connectionReference"]} if self.required else {}
        return ActionSpec(self.name, {"properties": {"connectionReference": described}, **needed}, "pure", 60_000)


@pytest.mark.req("R-03")
def test_an_action_is_there_only_where_a_connection_of_its_kind_is(file: Path) -> None:
    connections = ActionConnections.read(file, {})
    actions = {kind or "any": Connected(f"test.{kind}") for kind in ("imap", "sftp", None)}
    for name, action in actions.items():
        action.kind = None if name == "any" else name
    found = offered(actions, connections)
    assert {name: action.spec.properties["connectionReference"]["enum"] for name, action in found.items()} == {
        "imap": ["mail of sales"],
        "any": ["crm", "mail of sales"],
    }
    assert offered(actions, ActionConnections()) == {}


def test_an_action_that_may_do_without_a_connection_is_there_without_one() -> None:
    action = Connected("test.any")
    action.required = False
    (found,) = offered({"test.any": action}, ActionConnections()).values()
    assert found.spec.parameter_names == ()
