"""The pages of approvers, operators and auditors: what each shows, and what their forms do."""

import asyncio
import json
import re
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from html import unescape

import pytest
from page_door import LOOKS, Look, PageDoor, expect_accessible, page_door, watched
from playwright.sync_api import Browser, expect
from servers import Pair
from structlog.testing import capture_logs

from poweron_events import topics
from poweron_events.actor import Actor
from poweron_events.log import Message
from poweron_events.policy import Group, Policy, Rule
from poweron_events.request import workflow_id
from poweron_projections import access_keys, reader
from poweron_projections.connection import Pool
from poweron_services.client.approve import OpenQuestions, waiting_for_people
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Callbacks
from poweron_services.client.policy_request import apply_policy
from poweron_services.door import approval_pages, workflow_list_page
from poweron_services.standalone import open_connections

pytestmark = pytest.mark.system

PAGE = {"Accept": "text/html"}
ADA = Actor(id="ada", via="cli")
MISSPELT = (
    b'{"specversion":"1.0","id":"17","source":"/crm","type":"poweron.request.workflw.v1",'
    b'"data":{"prompt":"When does it open?\\u202e"}}'
)


@dataclass(frozen=True)
class World:
    """What happened before anyone looks at a page."""

    first: str
    second: str
    letters: list[str]
    """The addresses of dead letters: two requests and an event."""


@pytest.fixture(scope="module")
def door(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Generator[PageDoor, None, None]:
    with page_door(pair, tmp_path_factory.mktemp("door")) as opened:
        yield opened


@pytest.fixture(scope="module")
def world(door: PageDoor) -> World:
    first = door.ask("When does it open?", "letter.txt")
    second = door.ask("Who wrote the letter, and when does it open?", "letter.txt")
    with ThreadPoolExecutor() as threads:  # beside the event loop of the browser
        threads.submit(asyncio.run, _disturb(door, first)).result()
    items: list[dict[str, object]] = []
    while len(items) < 3:
        items = door.http.get("/api/v1/deadletters").json()["items"]
    letters = [f"/operations/deadletters/{each['topic']}/{each['partition']}/{each['offset']}" for each in items]
    return World(first, second, sorted(letters, key=lambda address: "events" in address))


async def _disturb(door: PageDoor, workflow: str) -> None:
    """Write what no role would: a copy of an event, unreadable records, two policies and a key."""
    async with open_connections(door.settings, lambda _: None) as connections:
        records = await reader.stored_records(connections.pool, workflow)
        await connections.log.append(topics.EVENTS.name, [Message(workflow.encode(), records[3].value)])
        await connections.log.append(topics.EVENTS.name, [Message(b"x", b"no event \xe2\x80\xae")])
        await connections.log.append(
            topics.REQUESTS.name, [Message(b"crm", MISSPELT), Message(b"x", bytes(range(256)))]
        )
        await _apply(connections, Policy(name="First", apply=("heads",), groups=HEADS, otherwise="allow"))
        rules = (Rule(actions=("web.*",), decision="deny"),)
        await _apply(connections, Policy(name="Second", apply=("heads",), groups=HEADS, otherwise="allow", rules=rules))
        await access_keys.add_key(connections.pool, "crm", ADA, scopes=("read",), life_ms=1_000_000, created_by="ada")


HEADS = {"heads": Group(members=("ada",))}


async def _apply(connections: Connections, policy: Policy) -> None:
    callbacks = Callbacks()
    outcome = await apply_policy(connections, policy, reason="", actor=ADA, source="/tests", callbacks=callbacks)
    assert outcome.number is not None, outcome


def waiting(door: PageDoor, action: str = "*") -> str:
    """Ask for something that waits for an approval."""
    workflow = door.ask("What does the letter say?", "letter.txt", wait=False, approve=[action])
    door.until(workflow, phase="approve")
    return workflow


def form_of(html: str, action: str) -> dict[str, str]:
    """Return the hidden fields of the form that posts to an address."""
    form = html[html.index(f'action="{action}"') :].partition("</form>")[0]
    fields = re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', form)
    return {name: unescape(value) for name, value in fields}


def posted(door: PageDoor, page: str, action: str, **fields: str) -> str:
    """Send a form of a page, and return the page that it leads to."""
    hidden = form_of(door.http.get(page, headers=PAGE).text, action)
    response = door.http.post(action, data=hidden | fields, headers=PAGE, follow_redirects=True)
    return response.text


def pages(world: World, door: PageDoor) -> list[str]:
    process = re.search(r'"(/operations/processes/[^"]+)"', door.http.get("/operations", headers=PAGE).text)
    assert process is not None
    return [
        "/approvals",
        "/approvals?show=all",
        "/approvals?show=overdue",
        "/log",
        "/log?type=poweron.nothing.v1",
        f"/w/{world.first}/log",
        f"/w/{world.first}/log?verdict=superseded",
        "/compare",
        "/compare?a=nonsense",
        f"/compare?a={world.first}&b={world.second}",
        f"/compare?a={world.first}&b={world.first}",
        "/operations",
        process[1],
        "/operations/deadletters",
        *world.letters,
        f"/operations/redriven?workflow={world.first}&source=/crm&id=17",
        "/costs",
        "/costs?days=365",
        "/permissions?actor=ada",
        "/permissions?at=nonsense",
        "/policy",
        "/policy/1",
        "/policy/99",
        "/keys",
        "/problems",
        "/problems?q=nothing-has-these-words",
        "/problems/budget_question",
        "/problems/nobody_serves",
        "/api",
        "/login",
    ]


@pytest.mark.parametrize("looks", LOOKS)
def test_each_further_page_passes_axe_and_asks_no_other_host(
    door: PageDoor, browser: Browser, world: World, looks: Sequence[Look]
) -> None:
    waiting(door)
    expect_accessible(browser, door.address, pages(world, door), looks)


def test_an_approver_approves_by_keyboard_and_sees_who_answered(door: PageDoor, browser: Browser, world: World) -> None:
    workflow = waiting(door)
    with watched(browser, door.address) as seen:
        seen.page.goto("/approvals")
        card = seen.page.locator("article", has=seen.page.locator(f'a[href="/w/{workflow}"]'))
        card.get_by_role("button", name="Deny").click()
        expect(card.get_by_label("Reason")).to_be_focused()  # the browser asks for the reason, and sends nothing
        assert seen.page.url.endswith("/approvals")
        card.get_by_label("Reason").fill("It only reads.")
        card.get_by_role("button", name="Approve").press("Enter")
        expect(seen.page.get_by_role("status").filter(has_text="Approved.")).to_be_visible()
        expect(seen.page.locator("#answered")).to_contain_text("It only reads.")
        assert seen.problems == []


def test_the_page_shows_what_the_hash_covers_and_a_denial_needs_a_reason(door: PageDoor, world: World) -> None:
    workflow = waiting(door)
    html = door.http.get("/approvals", headers=PAGE).text
    action = re.search(rf'action="(/approvals/{workflow}/[^"]+)"', html)
    assert action is not None
    (entry,) = [each for each in door.http.get("/api/v1/approvals").json()["items"] if each["workflowId"] == workflow]
    assert form_of(html, action[1])["parametersSha256"] == entry["parametersSha256"]
    assert json.dumps(entry["parameters"], indent=2) in unescape(html)
    assert re.search(rf'<a href="/w/{workflow}/text/[^"]+" dir="auto">letter.txt</a>', html)
    refused = posted(door, "/approvals", action[1], decision="deny", set="aiPrompt=Other words.")
    assert "The reason is empty" in refused
    assert "aiPrompt=Other words.</textarea>" in refused
    assert form_of(refused, action[1])["parametersSha256"] == entry["parametersSha256"]
    hidden = form_of(refused, action[1])
    shown = '<span aria-hidden="true">⊘</span>denied'
    assert shown not in door.http.get(f"/w/{workflow}", headers=PAGE).text
    denied = posted(door, "/approvals", action[1], decision="deny", reason="Not this one.")
    assert "Denied. The workflow takes the reason into account." in denied
    assert shown in door.http.get(f"/w/{workflow}", headers=PAGE).text
    late = door.http.post(action[1], data=hidden | {"decision": "approve", "reason": "Yes!"}, headers=PAGE)
    words = unescape(re.sub(r"<[^>]+>", "", late.text))
    assert late.status_code == 409
    assert re.search(r"Nothing was decided. \S+ denied this action at .* UTC, before your answer.", words)
    assert "You typed as reason: Yes!" in words
    assert "<h1>Approvals</h1>" in late.text


def test_of_very_many_approvals_those_that_wait_longest_are_listed_and_the_page_says_so(
    door: PageDoor, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        waiting(door)
    assert "wait longest are listed here" not in door.http.get("/approvals", headers=PAGE).text
    monkeypatch.setattr(approval_pages, "waiting_for_people", partial(waiting_for_people, most=1))
    monkeypatch.setattr(approval_pages, "MOST_WAITING", 1)
    html = door.http.get("/approvals", headers=PAGE).text
    assert "More than 1 wait; only those that wait longest are listed here and counted." in html
    assert (html.count("<article"), html.count("<b>1+</b>"), html.count("<b>0</b>")) == (1, 2, 1)


def test_what_waits_for_the_reader_is_listed_and_counted_from_the_same_rows(
    door: PageDoor, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow = waiting(door)
    reads: list[list[str]] = []

    async def read(pool: Pool, *, answerer: Actor) -> OpenQuestions:
        questions = await waiting_for_people(pool, answerer=answerer)
        reads.append([entry.workflow_id for entry in questions.entries])
        return questions

    monkeypatch.setattr(workflow_list_page, "waiting_for_people", read)
    html = door.http.get("/?show=waiting", headers=PAGE).text
    (ids,) = reads
    assert workflow in ids
    assert {id_ for id_ in ids if f'href="/w/{id_}"' in html} == {*ids}
    assert world.first not in html
    assert f"Waiting for me <b>{len(ids)}</b>" in html


def test_an_outcome_is_reported_only_at_the_address_to_which_the_door_led(door: PageDoor, world: World) -> None:
    workflow = waiting(door)
    (action,) = re.findall(rf'action="(/approvals/{workflow}/[^"]+)"', door.http.get("/approvals", headers=PAGE).text)
    hidden = form_of(door.http.get("/approvals", headers=PAGE).text, action)
    answered = door.http.post(action, data=hidden | {"decision": "deny", "reason": "No."}, headers=PAGE)
    address = answered.headers["location"]
    assert "Denied. The workflow" in door.http.get(address, headers=PAGE).text
    other = address.replace("outcome=denied", "outcome=approved")
    for forged in (other, f"/approvals?workflow={workflow}&outcome=denied&missing=0", f"{address[:-1]}é"):
        page = door.http.get(forged, headers=PAGE)
        assert (page.status_code, "The workflow " in page.text.partition("<nav aria-label=")[0]) == (200, False)


def test_the_address_of_a_form_leads_to_the_page_of_the_form(door: PageDoor, world: World) -> None:
    event = f"/w/{world.first}/at/2"
    pages = {"/ask": "/", "/verbs": "/", "/logout": "/", f"/approvals/{world.first}/r1t1a1s1": "/approvals"}
    pages |= {f"{event}/again": event, f"{event}/forks": event, f"/w/{world.first}/rounds": f"/w/{world.first}"}
    for address, page in pages.items():
        led = door.http.get(address, headers=PAGE)
        assert (led.status_code, led.headers["location"]) == (303, page), address
        assert door.http.get(address).status_code == 405, address


def test_an_answer_to_other_parameters_decides_nothing(door: PageDoor, world: World) -> None:
    workflow = waiting(door)
    html = door.http.get("/approvals", headers=PAGE).text
    action = re.search(rf'action="(/approvals/{workflow}/[^"]+)"', html)
    assert action is not None
    page = posted(door, "/approvals", action[1], decision="approve", reason="Go.", parametersSha256="ab" * 32)
    assert "Nothing was decided." in page
    assert form_of(page, action[1])["parametersSha256"] == form_of(html, action[1])["parametersSha256"]
    assert "Go.</textarea>" in page
    assert door.state(workflow)["phase"] == "approve"


def test_a_form_of_another_session_is_refused_and_nothing_that_was_typed_is_lost(door: PageDoor, world: World) -> None:
    workflow = waiting(door)
    form = {"token": "00", "decision": "approve", "reason": "It only reads."}
    response = door.http.post(f"/approvals/{workflow}/r1t1a1s1", data=form, headers=PAGE)
    assert response.status_code == 403
    assert all(part in response.text for part in ("It only reads.</pre>", 'href="/approvals">Back to the page'))
    assert door.state(workflow)["phase"] == "approve"


def test_changed_parameters_wait_for_another_person(door: PageDoor, world: World) -> None:
    workflow = waiting(door, "ai.process")
    html = door.http.get("/approvals", headers=PAGE).text
    action = re.search(rf'action="(/approvals/{workflow}/[^"]+)"', html)
    assert action is not None
    wrong = unescape(posted(door, "/approvals", action[1], decision="change", set="no value"))
    assert "'no value' is not KEY=VALUE" in wrong
    assert "no value</textarea>" in wrong
    unknown = posted(door, "/approvals", action[1], decision="change", set="colour=red")
    assert "Nothing was decided." in unknown
    assert "colour" in unknown
    page = posted(door, "/approvals", action[1], decision="change", set="aiPrompt=Name only the date.")
    assert "The parameters are changed. 1 more person has to approve them." in page
    assert "Name only the date." in door.http.get("/approvals?show=all", headers=PAGE).text
    assert workflow not in door.http.get("/approvals?show=mine", headers=PAGE).text


def test_a_larger_budget_is_granted_in_the_inbox(door: PageDoor, world: World) -> None:
    workflow = door.ask("When does it open?", "letter.txt", wait=False, budgets={"roundTokens": 2_000}, onBudget="ask")
    door.until(workflow, budgetQuestion=1)
    html = door.http.get("/approvals", headers=PAGE).text
    action = re.search(rf'action="(/approvals/{workflow}/[^"]+)"', html)
    assert action is not None
    refused = posted(door, "/approvals", action[1], decision="approve", tokens="-1", reason="Enough.")
    assert "'-1' is no number of tokens" in unescape(refused)
    assert all(f in refused for f in ('value="-1"', "Enough.</textarea>"))
    assert "Nothing is granted." in posted(door, "/approvals", action[1], decision="approve")
    assert "Approved." in posted(door, "/approvals", action[1], decision="approve", tokens="100000")
    door.until(workflow, status="completed")
    limits = re.sub(r"<[^>]+>|\s+", " ", door.http.get(f"/w/{workflow}", headers=PAGE).text)
    assert "of 102,000 100,000 of it granted by people" in re.sub(r"\s+", " ", limits)


def test_the_log_dims_superseded_records_and_says_why(door: PageDoor, browser: Browser, world: World) -> None:
    with watched(browser, door.address) as seen:
        seen.page.goto(f"/w/{world.first}/log")
        dimmed = seen.page.locator("tr.dim")
        expect(dimmed).to_have_count(1)
        expect(dimmed).to_contain_text("It is a copy of event 3.")
        seen.page.locator("#event-5").get_by_role("link", name="event 4").click()
        assert seen.page.url.endswith("#event-4")


def test_the_log_is_downloaded_as_json_lines_with_the_events_of_the_api(door: PageDoor, world: World) -> None:
    text = door.http.get(f"/w/{world.first}/log.jsonl").text
    lines = [json.loads(line) for line in text.splitlines()]
    events = door.http.get(f"/api/v1/workflows/{world.first}/events").json()["items"]
    assert [line["id"] for line in lines] == [event["id"] for event in events]
    superseded = door.http.get(f"/w/{world.first}/log.jsonl?verdict=superseded").text
    assert [json.loads(line)["seq"] for line in superseded.splitlines()] == [lines[-1]["seq"]]


def test_a_new_record_appears_in_the_log_without_a_reload(door: PageDoor, browser: Browser, world: World) -> None:
    with watched(browser, door.address) as seen:
        seen.page.goto("/log")
        workflow = door.ask("When does it open?", "letter.txt")
        expect(seen.page.get_by_role("link", name=f"of workflow {workflow[:8]}").first).to_be_visible()


def test_each_record_of_the_whole_log_leads_to_a_page_about_it(door: PageDoor, world: World) -> None:
    rows = list[str]()
    for kind in ("policy.applied.v1", "instance.started.v1", "round.completed.v1"):
        html = door.http.get(f"/log?type=poweron.{kind}", headers=PAGE).text
        rows += re.findall(r'<th scope="row" class="mono-figures"><a href="([^"]+)"', html)
    assert {f"/{address.split('/')[1]}" for address in rows} == {"/policy", "/operations", "/w"}
    assert {address: door.http.get(address, headers=PAGE).status_code for address in rows} == dict.fromkeys(rows, 200)


def test_two_workflows_are_compared_from_the_first_difference(door: PageDoor, browser: Browser, world: World) -> None:
    with watched(browser, door.address) as seen:
        seen.page.goto(f"/w/{world.first}")
        seen.page.get_by_role("navigation", name="View").get_by_role("link", name="Compare").click()
        expect(seen.page.locator(f'[type="radio"][name="a"][value="{world.first}"]')).to_be_checked()
        seen.page.locator(f'[type="radio"][name="b"][value="{world.second}"]').check()
        seen.page.get_by_role("button", name="Compare").first.click()
        expect(seen.page.get_by_role("heading", level=1)).to_contain_text("They first differ in")
        expect(seen.page.locator("#chosen")).to_be_in_viewport()
        expect(seen.page.locator("#chosen ins").first).to_be_visible()
        assert seen.problems == []


def test_a_misspelt_request_is_corrected_and_sent_again(door: PageDoor, world: World) -> None:
    address = next(each for each in world.letters if "workflw" in door.http.get(each, headers=PAGE).text)
    html = door.http.get(address, headers=PAGE).text
    assert "\u202e" not in html
    assert "Nothing was sent." in posted(door, address, address, how="original")
    corrected = MISSPELT.decode().replace("workflw", "workflow")
    with capture_logs() as lines:
        assert "The request was sent again" in posted(door, address, address, how="edited", edited=corrected)
    assert [line["edited"] for line in lines if line["event"] == "dead_letter_redriven"] == [True]
    door.until(workflow_id("/crm", "17"), status="completed")


def test_an_event_that_cannot_be_read_is_never_sent_again(door: PageDoor, world: World) -> None:
    address = next(each for each in world.letters if "poweron.events" in each)
    assert "Only requests can be sent again" in door.http.get(address, headers=PAGE).text
    token = form_of(door.http.get(world.letters[0], headers=PAGE).text, world.letters[0])
    response = door.http.post(address, data=token | {"how": "original"}, headers=PAGE)
    assert response.status_code == 409


def test_policies_are_shown_with_what_changed(door: PageDoor, world: World) -> None:
    html = unescape(door.http.get("/policy", headers=PAGE).text)
    assert "Policy 2: " in html
    assert "web.*: denied" in html
    assert "<ins>web.*: denied</ins>" in html
    assert "Policy 1" in door.http.get("/policy/1", headers=PAGE).text


def test_every_code_has_a_page_with_advice(door: PageDoor) -> None:
    html = door.http.get("/problems", headers=PAGE).text
    codes = set(re.findall(r'href="/problems/([a-z_0-9]+)"', html))
    assert len(codes) > 100
    for code in sorted(codes):
        assert "What to do:" in door.http.get(f"/problems/{code}", headers=PAGE).text, code
    assert door.http.get("/problems/no_such_code", headers=PAGE).status_code == 404
