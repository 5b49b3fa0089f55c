"""What `poweron erase` and `poweron retain` refuse before they ask any server."""

from typing import cast

import pytest
from typer.testing import CliRunner

from builders import Told
from poweron_events.archive_events import RequestErasure
from poweron_events.errors import Unavailable
from poweron_services.cli import erase_command
from poweron_services.cli.main import app
from poweron_services.client.connect import Connections
from poweron_services.client.erase import Erasure

IDS = (Told("one").id, Told("two").id)

WRONG = {
    "nothing to erase": (["erase"], "Name a workflow, or use --expired, not both."),
    "no reason to erase": (["erase", Told().id], "Say with --reason why the content is erased"),
    "documents of expired ones": (
        ["erase", "--expired", "--document", "r1d1", "--reason", "Over."],
        "--expired erases all content; it takes no --document.",
    ),
    "no document to erase": (["erase", Told().id, "--document", "../x", "--reason", "Over."], "An id of --document"),
    "an erasure without a question": (
        ["erase", Told().id, "--reason", "Over."],
        "Nothing was done: add --yes to erase without a question.",
    ),
    "two changes at once": (
        ["retain", Told().id, "--until", "2033-12-31", "--hold", "case-1"],
        "Give only one of --until, --hold and --release.",
    ),
    "a reason for nothing": (["retain", Told().id, "--reason", "It matters."], "--reason says why"),
    "a date that is past": (["retain", Told().id, "--until", "2020-01-01"], "is past, so the content could be erased"),
    "a release without a reason": (["retain", Told().id, "--release", "case-1"], "Say with --reason why the hold"),
    "no date": (["retain", Told().id, "--until", "soon"], "'soon' is neither a date such as 2033-12-31"),
    "no hold": (["retain", Told().id, "--hold", "two words"], "The name of a hold"),
}


@pytest.mark.parametrize(("arguments", "said"), WRONG.values(), ids=WRONG.keys())
def test_a_command_that_cannot_be_carried_out_says_why(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("POWERON_KAFKA", "127.0.0.1:1")
    monkeypatch.setenv("POWERON_POSTGRES", "postgresql://nobody@127.0.0.1:1/nothing")
    ended = CliRunner().invoke(app, arguments)
    assert (ended.exit_code, said in " ".join(ended.stderr.split())) == (2, True), ended.stderr


async def test_of_several_workflows_none_keeps_the_others_from_being_erased(monkeypatch: pytest.MonkeyPatch) -> None:
    async def erased(_: object, request: RequestErasure, **__: object) -> Erasure:
        if request.workflow_id == IDS[0]:
            raise Unavailable("The store does not answer")
        return Erasure(request.workflow_id)

    async def unchanged(_: object, erasures: list[Erasure]) -> list[Erasure]:
        return erasures

    monkeypatch.setattr(erase_command, "erase_content", erased)
    monkeypatch.setattr(erase_command, "with_remains", unchanged)
    requests = [RequestErasure(workflow_id=id_, reason="It is over.") for id_ in IDS]
    found = await erase_command._erase_all(cast("Connections", None), requests)
    assert [(each.workflow_id, each.code) for each in found] == [(IDS[0], "unavailable"), (IDS[1], None)]
    with pytest.raises(Unavailable):
        await erase_command._erase_all(cast("Connections", None), requests[:1])
