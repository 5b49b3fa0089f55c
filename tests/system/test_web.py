"""The web on the real servers: what a killed executor has fetched, the next one does not fetch again."""

import asyncio
import json
import threading
from collections import Counter
from pathlib import Path

import pytest
from commands import Shell, ended, told
from processes import ONE_STEP, script, serving
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

pytestmark = [pytest.mark.system, pytest.mark.soak, pytest.mark.timeout(240)]

OTHERS = "intake,planner,selector,parameterizer,observer,refiner,reviewer,projector"
MUSEUMS = {
    "/art": "The museum of art is open on Mondays from ten to five, and entry costs twelve euros for adults.",
    "/sea": "The museum of the sea is closed on Mondays, and entry costs nine euros for adults on all other days.",
    "/slow": "The museum of clocks opens on Mondays when somebody finds the key, and it asks for four euros.",
}
SCRAPE = {
    **ONE_STEP,
    "PlanningPrompt": [
        {"tasks": [{"objective": "Find museums.", "successCriteria": ["The text is written."], "taskType": "lookup"}]}
    ],
    "SelectionPrompt": [{"action": "web.scrape", "actionObjective": "Find museums that open on Mondays."}],
    "ParametersPrompt": [
        {"schema": "parameters_v1", "parameters": {"query": "museums open on Mondays", "maxResults": 3}}
    ],
}


def museums(server: HTTPServer, opened: threading.Event) -> None:
    """A search engine and three pages, of which one is sent only once it is let go."""

    def page(request: Request) -> Response:
        if request.path == "/slow":
            opened.wait(60)
        text = f"<!doctype html><html lang=en><title>{request.path[1:]}</title><p>{MUSEUMS[request.path]}</p></html>"
        return Response(text, content_type="text/html")

    hits = [{"url": server.url_for(path), "title": path[1:], "content": text} for path, text in MUSEUMS.items()]
    found = json.dumps({"results": hits})
    server.expect_request("/search").respond_with_data(found, content_type="application/json")
    server.expect_request("/robots.txt").respond_with_data("", 404)
    for path in MUSEUMS:
        server.expect_request(path).respond_with_handler(page)


async def kept(home: Path, count: int) -> None:
    """Wait until so many answers of the web are kept."""
    async with asyncio.timeout(60):
        while await asyncio.to_thread(lambda: len([*home.glob("content/*/pages/*")])) < count:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.05)


@pytest.mark.req("E-08")
async def test_what_an_executor_fetched_before_it_was_killed_is_not_fetched_again(
    shell: Shell, environment: dict[str, str], tmp_path: Path
) -> None:
    opened = threading.Event()
    with HTTPServer(threaded=True) as server:
        museums(server, opened)
        environment |= {
            "POWERON_MODEL": script(tmp_path, SCRAPE),
            "POWERON_SEARCH": f"searxng:{server.url_for('')}",
            "POWERON_WEB_PRIVATE_HOSTS": f"localhost:{server.port}",
        }
        with serving(environment, tmp_path, [OTHERS, "executor"]) as processes:
            asking = await shell.start("ask", "Which museums open on Mondays?", "--no-serve", "--json")
            workflow = (await told(asking, "Workflow ")).split()[1]
            await kept(tmp_path / "home", 3)  # the rules for robots and two pages
            processes.kill("executor")
            opened.set()
            processes.start("executor")
            answered = await ended(asking)
            assert (answered.code, answered.lines[-1]["status"]) == (0, "completed"), processes.log()
        asked = Counter(request.path for request, _ in server.log)
    events = (await shell("events", workflow, "--json")).lines
    (completed,) = [event["data"] for event in events if event["type"] == "poweron.action.completed.v1"]
    assert (completed["outcome"], completed["try"]) == ("done", 2)
    assert {document["page"]["url"].rpartition("/")[2] for document in completed["documents"]} == {"art", "sea", "slow"}
    assert asked == {"/search": 1, "/robots.txt": 1, "/art": 1, "/sea": 1, "/slow": 2}  # its answer had not come
