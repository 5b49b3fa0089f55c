"""A whole loop with a model of a provider: its own client library, over HTTP, against a server that plays it."""

import pytest
from commands import Shell
from providers import KEY, Playing, failing, playing_stages
from pytest_httpserver import HTTPServer
from test_commands import EXAMPLES

pytestmark = [pytest.mark.system]

CRITERION = "The day of the opening is named"
SAID = "The exhibition opens on the day that the letter names."
SELECTED = {
    "action": "ai.process",
    "actionObjective": "Find when the exhibition opens",
    "requiredInputDocuments": ["docList:round1_request"],
    "parametersSchema": {"fields": [{"name": "aiPrompt", "type": "string", "required": True}]},
}
PARAMETERS = {"schema": "parameters_v1", "parameters": {"aiPrompt": "When does the exhibition open?"}}
REPLY = playing_stages(CRITERION, SAID, answer_select=SELECTED, answer_parameterize=PARAMETERS)


@pytest.mark.req("L-01")
@pytest.mark.req("S27")
async def test_ask_goes_through_the_whole_loop_with_a_model_of_a_provider(shell: Shell, httpserver: HTTPServer) -> None:
    playing = Playing(httpserver, "openai", [REPLY])
    model = {
        "POWERON_MODEL": "openai:test",
        "OPENAI_BASE_URL": httpserver.url_for("/v1"),
        "OPENAI_API_KEY": KEY,
    }
    asked = await shell("ask", "When does it open?", "--document", EXAMPLES / "letter.txt", "--json", **model)
    assert asked.code == 0, asked.err
    (told,) = asked.lines
    assert (told["status"], told["message"]) == ("completed", SAID)
    assert len(playing.asked) == 6
    assert told["tokens"] >= 120 * 6
    assert playing.headers[0]["Authorization"] == f"Bearer {KEY}"

    events = await shell("events", told["workflowId"], "--json")
    calls = [line["data"]["modelCall"] for line in events.lines if line["data"].get("modelCall")]
    assert {(call["provider"], call["model"]) for call in calls} == {("openai", "test")}
    assert KEY not in asked.out + asked.err + events.out + events.err
    written = [path.read_bytes() for path in shell.folder.rglob("*") if path.is_file()]
    assert written
    assert not any(KEY.encode() in data for data in written)


@pytest.mark.req("B-01")
async def test_ask_says_at_each_try_that_the_model_is_waited_for_and_its_event_tells_them(
    shell: Shell, httpserver: HTTPServer
) -> None:
    busy = failing("openai", 429, "Slow down", **{"retry-after-ms": "1200"})
    playing = Playing(httpserver, "openai", [failing("openai", 500, "Out of order"), busy, REPLY])
    model = {
        "POWERON_MODEL": "openai:test",
        "OPENAI_BASE_URL": httpserver.url_for("/v1"),
        "OPENAI_API_KEY": KEY,
    }
    asked = await shell("ask", "When does it open?", "--document", EXAMPLES / "letter.txt", "--json", **model)
    assert (asked.code, len(playing.asked)) == (0, 8), asked.err
    said = " ".join(asked.err.split())
    assert "(500): Out of order. The provider's status page, or the log of a server of your own, may say more." in said
    assert said.count("It tries again in") == 2
    assert said.index("It tries again in 0.5 s.") < said.index("It tries again in 1.2 s.")
    events = await shell("events", asked.lines[0]["workflowId"], "--json")
    (failed,) = [line["data"]["failedCalls"] for line in events.lines if "failedCalls" in line["data"]]
    assert {each["code"]: each["count"] for each in failed} == {"model_unavailable": 1, "model_busy": 1}
