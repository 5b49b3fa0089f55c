"""Actions of packages that are installed beside ours: the how-to as it stands, and what cannot be used."""

import asyncio
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from doubles import World, our_actions, script
from structlog.testing import capture_logs

from poweron_events.request import workflow_id
from poweron_events.step_events import ActionCompleted, SelectionRejected
from poweron_services.decider.approval import ActionLists
from poweron_services.settings.action_variables import ActionVariables
from poweron_services.settings.config import Settings

pytestmark = pytest.mark.usefixtures("logged")

ID = workflow_id("/tests", "1")
PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "add-an-action.md").read_text()
ASKED = {"action": "museum.tickets", "actionObjective": "Say what the tickets cost"}
FILLED = {"schema": "parameters_v1", "parameters": {"visitors": 3}}


def block(language: str) -> str:
    """The first block of the page in that language."""
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Installs modules as packages: into a folder of the path, with the metadata that an installer writes."""
    before = {*sys.modules}
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(name: str, code: str, points: str) -> None:
        (tmp_path / f"{name}.py").write_text(code)
        told = tmp_path / f"{name}-1.0.dist-info"
        told.mkdir()
        (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (told / "entry_points.txt").write_text(f"[poweron.actions]\n{points}\n")

    yield install
    for name in {*sys.modules} - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


def pointed() -> str:
    """The entry points of the page's `pyproject.toml`, as an installer writes them down."""
    import tomllib

    project = tomllib.loads(block("toml"))["project"]
    return "\n".join(f"{name} = {value}" for name, value in project["entry-points"]["poweron.actions"].items())


def world(actions: list[Any]) -> World:
    return World(actions, script(selection=[ASKED, ASKED], parameters=[FILLED]))


@pytest.mark.req("C-08")
async def test_the_how_to_makes_an_action_that_runs_in_the_loop(installed: Any) -> None:
    installed("museum_actions", block("python"), pointed())
    actions = await our_actions()
    with_it = world(actions)
    setting = re.search(r"export POWERON_ALLOW_LOOKUP='(.*)'", PAGE)
    assert setting is not None
    lists = ActionLists(ActionVariables(allow_lookup=setting[1]).allowed_with(()))
    async with with_it.process(lists=lists):
        await with_it.ask(max_retries=0)
        await with_it.ended(ID)
    (completed,) = [event for event in with_it.accepted(ID) if isinstance(event, ActionCompleted)]
    assert (completed.outcome, completed.error) == ("done", None)
    said = await with_it.content.get(ID, completed.documents[0].content)
    assert said.decode() == "3 tickets cost 36 euros."


def test_the_model_of_the_how_to_is_one_that_can_be_set() -> None:
    named = re.search(r"export POWERON_MODEL=(\S+)", PAGE)
    assert named is not None
    assert Settings(model=named[1]).provided_models == [named[1]]


@pytest.mark.req("C-08")
def test_the_action_of_the_how_to_has_about_twenty_lines() -> None:
    assert len([line for line in block("python").splitlines() if line.strip()]) <= 22


@pytest.mark.req("X-01")
async def test_it_does_not_run_until_a_setting_names_it(installed: Any) -> None:
    installed("museum_actions", block("python"), pointed())
    one = world(await our_actions())
    allowed = ActionVariables().allowed_with(())
    async with one.process(lists=ActionLists(allowed)):
        await one.ask(max_retries=0, allowed_methods=allowed)
        await one.ended(ID)
    assert [event.code for event in one.accepted(ID) if isinstance(event, SelectionRejected)] == [
        "action_not_allowed",
        "action_not_allowed",
    ]


STEALING = """
from poweron_events.catalog import ActionSpec
class A:
    spec = ActionSpec('web.steal', {'type': 'object'}, 'pure', 1)
    def __init__(self, given): ...
    async def __call__(self, order): ...
"""
UNUSABLE = """
from poweron_events.catalog import ActionSpec
def A(given):
    return ActionSpec('a.b', {'type': 'string'}, 'pure', 1)
"""
BROKEN = {
    "unimportable": ("import nothing_of_the_kind", "unimportable:A", "ModuleNotFoundError"),
    "without_it": ("x = 1", "without_it:A", "AttributeError"),
    "leaving": ("import sys; sys.exit('no licence')", "leaving:A", "SystemExit: no licence"),
    "stopping": ("class Stop(BaseException): ...\ndef A(given): raise Stop('now')", "stopping:A", "Stop: now"),
    "raising": ("def A(given): raise ValueError('no licence')", "raising:A", "ValueError: no licence"),
    "no_action": ("A = lambda given: 7", "no_action:A", "TypeError"),
    "ours": (
        STEALING,
        "ours:A",
        "'web.steal' would be one of PowerOn's own actions; give it another method than 'web'.",
    ),
    "unusable": (
        UNUSABLE,
        "unusable:A",
        "Parameters are described by a schema of an object.",
    ),
}


@pytest.mark.req("C-08")
async def test_what_cannot_be_used_is_named_and_left_out_and_the_others_work(installed: Any) -> None:
    alone = {action.spec.name for action in await our_actions()}
    for name, (code, point, _) in BROKEN.items():
        installed(name, code, f"broken = {point}")
    installed("museum_actions", block("python"), pointed())
    installed("museum_again", block("python"), "tickets = museum_again:Tickets")
    with capture_logs() as logged:
        known = {action.spec.name for action in await our_actions()}
    assert known == {*alone, "museum.tickets"}
    told = {line["source"]: line["error"] for line in logged if line["event"] == "action_left_out"}
    for name, (_, _, why) in BROKEN.items():
        assert why in told[f"broken of {name}"]
    assert told["tickets of museum_again"] == "There is another action of the name 'museum.tickets'."


@pytest.mark.parametrize("stop", ["KeyboardInterrupt", "asyncio.CancelledError"])
async def test_a_person_who_stops_the_start_is_obeyed_while_a_package_is_loaded(installed: Any, stop: str) -> None:
    installed("interrupted", f"import asyncio\nraise {stop}", "one = interrupted:A")
    with pytest.raises((KeyboardInterrupt, asyncio.CancelledError)):
        await our_actions()


@pytest.mark.req("C-08")
async def test_a_person_at_the_command_line_is_told_which_actions_are_left_out(
    installed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from poweron_services.cli.error_messages import load_settings

    monkeypatch.setenv("POWERON_HOME", str(tmp_path / "home"))
    installed("unimportable", "import nothing_of_the_kind", "broken = unimportable:A")
    load_settings()
    await our_actions()
    assert " ".join(capsys.readouterr().err.split()) == (
        "An action of another package is left out, broken of unimportable: "
        "ModuleNotFoundError: No module named 'nothing_of_the_kind'"
    )
