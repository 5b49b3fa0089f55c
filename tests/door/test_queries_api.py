"""Every query answers what the command line prints as `--json`, about the same workflow."""

import asyncio
import base64
import hashlib
import shutil
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import orjson
import pytest
from commands import NOBODY, Shell
from lxml import html as lxml_html
from opened_door import Door, opened
from processes import ONE_STEP, script
from wandering_workflows import wandering

from builders import At, Told, planned, requested
from poweron_events import topics
from poweron_events.actor import Actor
from poweron_events.archive_events import ContentErased
from poweron_events.codec import encode
from poweron_events.content import ContentStore
from poweron_events.envelope import envelop
from poweron_events.event import DocumentRef, WebPage
from poweron_events.fold.state_json import as_json
from poweron_events.log import Message
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_events.request import DocumentErased, RequestIdentity
from poweron_projections.audit.note_signatures import verified
from poweron_projections.audit.notes import SignedNote
from poweron_projections.operations import halted_workflows
from poweron_projections.verify import catch_up
from poweron_services.client.connect import Connections, connect
from poweron_services.client.workflow_snapshot import recorded_history
from poweron_services.settings.config import Settings
from poweron_services.settings.ledger_keys import ledger_keys

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

EXAMPLES = Path(__file__).parents[2] / "docs/examples"
ID = Told().id
ANSWER = "It is shut: “on Mondays it is closed” [1]. Dogs are “kept at the gate” (rules.txt)."
CHOSEN = {"action": "ai.process", "actionObjective": "Answer", "requiredInputDocuments": ["docList:round1_request"]}
LINES: dict[str, list[Any]] = ONE_STEP | {"SelectionPrompt": [CHOSEN], "ProcessPrompt": [ANSWER]}
Json = dict[str, Any]


@pytest.fixture
def shell(kafka: KafkaSettings, dsn: str, door_settings: Settings, tmp_path: Path) -> Shell:
    """Where commands are typed, on the same servers."""
    return Shell(
        {**kafka.environment(), "POWERON_POSTGRES": dsn, "POWERON_HOME": str(door_settings.home), "NO_COLOR": ""},
        tmp_path,
    )


@pytest.fixture
async def connections(kafka: KafkaSettings, dsn: str, door_settings: Settings) -> AsyncGenerator[Connections, None]:
    async with connect(door_settings, kafka=kafka, postgres=dsn) as connections:
        await catch_up(connections.log, connections.pool)
        yield connections


async def get(door: Door, path: str, **parameters: Any) -> Any:
    answer = await door.http.get(f"/api/v1{path}", params=parameters)
    assert answer.status_code == 200, (path, answer.status_code, answer.text)
    return answer.json()


async def items(door: Door, path: str, **parameters: Any) -> list[Json]:
    """All entries of a list, page by page."""
    found, address, more = list[Json](), f"/api/v1{path}", parameters
    while True:
        answer = await door.http.get(address, params=more)
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        found += answer.json()["items"]
        if (following := answer.json()["next"]) is None:
            return found
        assert answer.links["next"]["url"].startswith(door.address)
        more = {**parameters, "cursor": following}


async def asked(door: Door, prompt: str, *files: str) -> str:
    request = ("request", (None, orjson.dumps({"prompt": prompt})))
    answer = await door.http.post(
        "/api/v1/workflows",
        files=[request, *(("file", (name, (EXAMPLES / name).read_bytes())) for name in files)],
        headers={"Prefer": "wait=60"},
    )
    assert answer.status_code == 200, answer.text
    return str(answer.json()["workflowId"])


async def written(connections: Connections, told: Told) -> str:
    await connections.log.append(topics.EVENTS.name, told.messages)
    await catch_up(connections.log, connections.pool)
    return told.id


async def test_the_newest_checkpoint_is_text_as_the_ledger_signed_it(door: Door, connections: Connections) -> None:
    async with asyncio.timeout(60):
        while (answer := await door.http.get("/api/v1/ledger/checkpoint")).status_code == 404:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.05)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    keys = [key.public for key in ledger_keys(connections.settings)]
    assert [key for key, _ in verified(SignedNote.parse(answer.text), keys)] == keys


async def test_a_workflow_with_two_documents_is_what_the_command_line_prints(door: Door, shell: Shell) -> None:
    workflow = await asked(door, "When does it open?", "letter.txt", "estimate.pdf")
    place = f"/workflows/{workflow}"

    assert await items(door, "/workflows") == (await shell("workflows", "--json")).lines
    assert await items(door, f"{place}/history", limit=2) == (await shell("history", workflow, "--json")).lines
    printed = (await shell("events", workflow, "--json")).lines
    events = await items(door, f"{place}/events", limit=3)
    assert [{name: event[name] for name in line} for event, line in zip(events, printed, strict=True)] == printed
    documents = (await shell("documents", workflow, "--json")).lines
    shown = [{name: document[name] for name in documents[0]} for document in await items(door, f"{place}/documents")]
    assert shown == documents
    assert await get(door, f"{place}/sources") == (await shell("sources", workflow, "--json")).lines[0]
    for name in ("rounds", "tasks", "steps", "usage", "documents"):
        whole = await items(door, f"{place}/{name}")
        assert await items(door, f"{place}/{name}", limit=1) == whole, name
        first = await get(door, f"{place}/{name}", limit=1)
        assert len(first["items"]) < len(whole) or name in ("rounds", "tasks"), name
    for seq in (0, 4, len(events) - 1):
        assert (
            await get(door, f"{place}/decisions/{seq}")
            == (await shell("show", workflow, "--at", str(seq), "--json")).lines[0]
        )
    *decisions, total = (await shell("replay", workflow, "--json")).lines
    assert await get(door, f"{place}/replay") == {"items": decisions, **total}
    assert await get(door, "/permissions") == (await shell("permissions", "--json")).lines[0]
    for path in ("/api/v1/permissions", "/permissions"):
        future = await door.http.get(path, params={"at": "9999-01-01"})
        assert (future.status_code, "This time is in the future" in future.text) == (422, True), path
    assert await items(door, "/approvals") == (await shell("approvals", "--json")).lines == []
    assert await items(door, "/deadletters") == (await shell("deadletters", "--json")).lines == []


async def test_documents_of_one_name_are_told_apart_and_each_is_a_source_of_its_own(door: Door) -> None:
    request = ("request", (None, orjson.dumps({"prompt": "What does the roof cost?"})))
    letters = [f"Dear owner,\n\nThe roof costs {cost} francs.\n\nRoofers" for cost in ("5,320", "6,666")]
    files = [("file", ("letter_april.txt", text.encode())) for text in letters]
    answer = await door.http.post("/api/v1/workflows", files=[request, *files], headers={"Prefer": "wait=60"})
    workflow = answer.json()["workflowId"]
    cited = {each["document"]: each for each in (await get(door, f"/workflows/{workflow}/sources"))["documents"]}
    assert {*cited} == {"letter_april.txt", "letter_april (2).txt"}
    page = lxml_html.document_fromstring((await door.http.get(f"/w/{workflow}")).text)
    marked = {
        link: (await door.http.get(link)).text.count("<mark")
        for link in page.xpath("//a/@href")
        if f"/w/{workflow}/text/" in link and "mark=" in link
    }
    assert len({link.partition("?")[0] for link in marked}) == 2
    assert all(marked.values()), marked


async def test_a_large_document_is_searched_by_another_process_while_its_page_is_shown(door: Door) -> None:
    filler = "Nothing of interest was said in this line.\n\n" * 15_000
    text = f"The roof costs 5,320 francs.\n\n{filler}"
    request = ("request", (None, orjson.dumps({"prompt": "What does the roof cost?"})))
    files = [request, ("file", ("minutes.txt", text.encode()))]
    answer = await door.http.post("/api/v1/workflows", files=files, headers={"Prefer": "wait=60"})
    place = f"/w/{answer.json()['workflowId']}"
    first = await door.http.get(place)
    assert (first.status_code, "The sources are being checked" in first.text) == (200, True)
    assert "5,320" in first.text
    while "The sources are being checked" in (page := await door.http.get(place)).text:
        pass
    assert 'id="source-1"' in page.text
    (source,) = (await get(door, f"/workflows{place.removeprefix('/w')}/sources"))["documents"]
    assert [quote["result"] for quote in source["quotes"]] == ["found"]


async def test_a_step_has_its_records_its_calls_with_prompt_and_answer_and_its_documents(door: Door) -> None:
    workflow = await asked(door, "When does it open?", "letter.txt")
    steps = await items(door, f"/workflows/{workflow}/steps")
    seen = list[int]()
    for step in steps:
        name = "r{round}t{task}a{attempt}s{step}".format(**step)
        whole = await get(door, f"/workflows/{workflow}/steps/{name}")
        assert whole["step"] == step
        assert whole["task"]["task"] == step["task"]
        seqs = [event["seq"] for event in whole["events"]]
        assert next(event["type"] for event in whole["events"]) == "poweron.action.selected.v1"
        for call in whole["calls"]:
            assert call["seq"] in seqs
            raw = await door.http.get(f"/api/v1/workflows/{workflow}/content/{call['promptRef']}")
            assert raw.text == call["prompt"]
            assert call["answer"]
        assert all(document["seq"] in seqs for document in whole["documents"])
        seen += seqs
    assert len(set(seen)) == len(seen) > 4
    unknown = await door.http.get(f"/api/v1/workflows/{workflow}/steps/r1t1a1s9")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "not_found")


async def test_the_bytes_of_a_record_come_as_they_are_in_the_log(door: Door, connections: Connections) -> None:
    workflow = await asked(door, "Hello")
    for heard in await recorded_history(connections, workflow):
        seq = heard.workflow.seq - 1
        address = f"/api/v1/workflows/{workflow}/events/{seq}/raw"
        raw = await door.http.get(address)
        as_object = (await door.http.get(address, headers={"Accept": "application/json"})).json()
        digest = hashlib.sha256(raw.content)
        assert raw.headers["repr-digest"] == f"sha-256=:{base64.b64encode(digest.digest()).decode()}:"
        assert base64.b64decode(as_object["value"]) == raw.content
        assert as_object["sha256"] == digest.hexdigest()
        place = heard.recorded.partition, heard.recorded.offset
        assert (int(raw.headers["poweron-partition"]), int(raw.headers["poweron-offset"])) == place
        assert (as_object["partition"], as_object["offset"]) == place
        assert orjson.loads(raw.content)["id"] == heard.recorded.envelope.id
    missing = await door.http.get(f"/api/v1/workflows/{workflow}/events/999/raw")
    assert (missing.status_code, missing.json()["code"]) == (404, "unknown_seq")
    refused = await door.http.get(f"/api/v1/workflows/{workflow}/events/0/raw", headers={"Accept": "image/png"})
    assert (refused.status_code, refused.json()["code"]) == (406, "not_acceptable")


async def test_the_state_after_each_event_is_the_fold_of_the_events_up_to_it(
    door_settings: Settings, connections: Connections
) -> None:
    async with opened(door_settings, serving=False) as door:
        for number in range(6):
            workflow = await written(connections, wandering(number)[0])
            for heard in await recorded_history(connections, workflow):
                state = await get(door, f"/workflows/{workflow}/state", at=heard.workflow.seq - 1)
                assert state == orjson.loads(orjson.dumps(as_json(heard.workflow)))
            assert await get(door, f"/workflows/{workflow}/state") == state
            beyond = await door.http.get(f"/api/v1/workflows/{workflow}/state", params={"at": heard.workflow.seq})
            assert (beyond.status_code, beyond.json()["code"]) == (404, "unknown_seq")


async def test_superseded_events_and_refusals_say_why_as_the_command_line_does(
    door_settings: Settings, connections: Connections, shell: Shell
) -> None:
    async with opened(door_settings, serving=False) as door:
        superseded = whys = 0
        for number in range(30):
            told = wandering(number)[0]
            if "superseded" not in told.verdicts:
                continue
            workflow = await written(connections, told)
            printed = (await shell("events", workflow, "--json")).lines
            shown = await items(door, f"/workflows/{workflow}/events", limit=7)
            for event, line in zip(shown, printed, strict=True):
                assert {name: event.get(name) for name in line} == line
                assert ("why" in event) == ("why" in line)
                superseded += line["verdict"] == "superseded"
                whys += "why" in line
        assert superseded
        assert whys


async def test_a_fork_is_compared_with_its_original(door: Door, shell: Shell) -> None:
    original = await asked(door, "When does it open?", "letter.txt")
    forked = await shell("fork", original, "--at", "0", "--prompt", "Who wrote it?", "--no-serve", "--json")
    fork = forked.lines[0]["workflowId"]
    late = await door.http.post(f"/api/v1/workflows/{original}/forks", json={"at": 4, "prompt": "Who wrote it?"})
    assert (late.status_code, late.json()["code"]) == (422, "invalid_request")
    assert "Fork at event 0, the last one before they are planned." in late.json()["detail"]
    fields = [(await door.http.get(f"/w/{original}/at/{seq}")).text.count("Another request") for seq in (0, 1, 4)]
    assert fields == [1, 0, 0]
    for a, b in ((original, fork), (fork, original), (fork, fork)):
        compared = await get(door, f"/workflows/{a}/diff", **{"with": b})
        assert compared == (await shell("diff", a, b, "--json")).lines[0]
    assert (await get(door, f"/workflows/{fork}"))["forkedFrom"] == original
    unknown = await door.http.get(f"/api/v1/workflows/{original}/diff", params={"with": NOBODY})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "unknown_workflow")
    for short, whole in (
        (f"/w/{fork[:8]}", f"/w/{fork}"),
        (f"/w/{fork[:20].upper()}/log?verdict=accepted", f"/w/{fork}/log?verdict=accepted"),
    ):
        assert (await door.http.get(short)).headers["location"] == whole
    pages = [
        f"/w/{fork.upper()}",
        f"/compare?a={fork[:8].upper()}&b={original[:8]}",
        f"/api/v1/workflows/{fork.upper()}/diff?with={original.upper()}",
    ]
    assert [(await door.http.get(path)).status_code for path in pages] == [200, 200, 200]
    for path in (f"/w/{fork[:7]}", "/w/00000000", f"/w/{fork[:8]}0", "/w/nope"):
        assert (await door.http.get(path)).status_code == 404


async def test_what_waits_for_a_person_is_listed_as_the_command_line_lists_it(
    door_settings: Settings, tmp_path: Path, shell: Shell
) -> None:
    settings = door_settings.model_copy(update={"model": script(tmp_path, ONE_STEP), "approve": "ai.process"})
    async with opened(settings) as door:
        for _ in range(3):
            await door.http.post("/api/v1/workflows", json={"prompt": "Write it."})
        while len(await items(door, "/approvals", limit=2)) < 3:
            pass
        printed = (await shell("approvals", "--json")).lines
        assert await items(door, "/approvals", limit=2) == printed
        assert await items(door, "/approvals", mine=True) == (await shell("approvals", "--mine", "--json")).lines
        assert await items(door, "/approvals", overdue=True) == []
        assert [entry["workflowId"] for entry in await items(door, "/workflows", phase="approve", status="running")]
        (turns,) = [turn for turn in (await get(door, "/lag"))["turns"] if turn["role"] == "executor"]
        assert (await get(door, "/lag"))["approvals"] == 3
        assert turns["waiting"] == 0


async def test_a_web_page_is_a_source_with_its_bytes_and_an_erased_one_says_so(
    door_settings: Settings, connections: Connections, tmp_path: Path, shell: Shell
) -> None:
    content = ContentStore.at(door_settings.content_place)
    html = b"<html><script>alert(1)</script>"
    page = WebPage(
        url="https://clocks.example/visit",
        title="Museum of Clocks",
        fetched_at="2026-11-23T10:00:00Z",
        sha256=hashlib.sha256(html).hexdigest(),
        content=await content.put(ID, html),
    )
    text = await content.put(ID, b"# Museum\n\nOn *Mondays* it is closed.\n")
    rules = await content.put(ID, b"Dogs are kept at the gate.\n")
    kinds: Json = {"mime_type": "text/markdown", "size": 9}
    documents = (
        DocumentRef(document_id="d1", document_name="clocks.md", content=text, page=page, **kinds),
        DocumentRef(document_id="d2", document_name='../r"\r\nX: \u202e.txt', content=rules, **kinds),
    )
    settings = door_settings.model_copy(update={"model": script(tmp_path, LINES)})
    async with opened(settings) as door:
        await connections.log.append(topics.EVENTS.name, Told().tell(requested(documents=documents)).messages)
        while (await door.http.get(f"/api/v1/workflows/{ID}")).json().get("status") != "completed":
            pass
        sources = await get(door, f"/workflows/{ID}/sources")
        assert sources == (await shell("sources", ID, "--json")).lines[0]
        assert sources["sources"][0]["url"] == page.url

        download = await door.http.get(f"/api/v1/workflows/{ID}/content/{page.content}")
        assert (download.content, download.headers["content-type"]) == (html, "text/html; charset=utf-8")
        assert download.headers["content-disposition"].startswith("attachment; ")
        assert download.headers["content-security-policy"] == "sandbox; default-src 'none'"
        assert download.headers["x-content-type-options"] == "nosniff"
        hostile = await door.http.get(f"/api/v1/workflows/{ID}/content/{rules}")
        assert hostile.headers["content-disposition"] == (
            "attachment; filename=\".._r___X_ _.txt\"; filename*=UTF-8''.._r___X_%20_.txt"
        )
        foreign = await door.http.get(f"/api/v1/workflows/{ID}/content/{'0' * 64}")
        assert (foreign.status_code, foreign.json()["code"]) == (404, "not_found")

        shutil.rmtree(settings.home / "content" / ID)
        lost = await door.http.get(f"/api/v1/workflows/{ID}/content/{rules}")
        assert (lost.status_code, lost.json()["code"]) == (410, "document_missing")
        assert "no longer holds" in lost.json()["detail"]
        asked_for = {"reason": "The customer asked for it.", "request": RequestIdentity(source="/test", id="erase")}
        await append(connections, DocumentErased(documents=("d2",), **asked_for))
        gone = (await door.http.get(f"/api/v1/workflows/{ID}/content/{rules}")).json()
        assert gone["reason"] == "The customer asked for it."
        assert "was erased at " in gone["detail"]
        await append(connections, ContentErased(legal_basis="§ 1", actor=Actor(id="ada"), **asked_for))
        gone = (await door.http.get(f"/api/v1/workflows/{ID}/content/{page.content}")).json()
        assert (gone["legalBasis"], "asked for it. (§ 1)" in gone["detail"]) == ("§ 1", True)
        assert "All content was erased at " in (await door.http.get(f"/w/{ID}")).text


async def append(connections: Connections, event: DocumentErased | ContentErased) -> None:
    """Write an event of the workflow, and project it."""
    envelope = envelop(event, workflow_id=ID, source="/poweron/test/1", time="2026-11-26T00:00:00.000Z")
    await connections.log.append(topics.EVENTS.name, [Message(ID.encode(), encode(envelope))])
    await catch_up(connections.log, connections.pool)


async def test_workflows_are_chosen_by_status_action_actor_words_and_time(door: Door) -> None:
    letter = await asked(door, "When does the bakery open?", "letter.txt")
    hello = await asked(door, "Hello")
    (mine,) = {entry["actor"]["id"] for entry in await items(door, f"/workflows/{hello}/rounds")}

    async def chosen(**parameters: Any) -> list[str]:
        return [entry["workflowId"] for entry in await items(door, "/workflows", **parameters)]

    both = [hello, letter]
    assert await chosen(status=["completed", "failed"], limit=1) == both
    assert await chosen(status="failed") == []
    assert await chosen(q="bakery") == [letter]
    assert await chosen(q="September 12") == [letter]
    assert await chosen(q="-bakery") == [hello]
    assert await chosen(q="') OR 1=1 --") == []
    assert await chosen(actor=mine) == both
    assert await chosen(actor="someone else") == []
    action = (await items(door, f"/workflows/{letter}/steps"))[0]["action"]
    assert letter in await chosen(action=action)
    opened_at = (await get(door, f"/workflows/{letter}"))["opened"]
    assert await chosen(after=opened_at) == [hello]
    assert await chosen(before=opened_at) == []
    assert await chosen(before="2100-01-01", after="2001-01-01") == both
    for wrong in ({"status": "runing"}, {"after": "yesterday"}, {"cursor": "1"}, {"limit": 0}, {"q": ""}):
        refused = await door.http.get("/api/v1/workflows", params=wrong)
        assert (refused.status_code, refused.headers["content-type"]) == (422, "application/problem+json")
        assert refused.json()["detail"].startswith(next(iter(wrong)))


async def test_halted_workflows_are_listed_page_by_page_longest_first(
    door_settings: Settings, connections: Connections
) -> None:
    stories = [Told(str(number)).tell(requested(str(number)), planned()) for number in range(5)]
    for told in stories:
        told.tell(*(At().refined(reason=reason) for reason in "123"))
        await written(connections, told)
    whole = await halted_workflows(connections.pool, limit=10)
    assert {entry.workflow_id for entry in whole} == {told.id for told in stories}
    expected = [entry.model_dump(mode="json", by_alias=True) for entry in whole]
    assert [entry["since"] for entry in expected] == sorted(entry["since"] for entry in expected)
    async with opened(door_settings, serving=False) as door:
        for limit in (1, 2, 5, 500):
            assert await items(door, "/stuck", limit=limit) == expected
        for cursor in ("1", "1_x", "-1_00000000-0000-0000-0000-000000000000"):
            refused = await door.http.get("/api/v1/stuck", params={"cursor": cursor})
            assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")


async def test_usage_adds_up_to_what_the_workflows_used(door: Door) -> None:
    workflow = await asked(door, "When does it open?", "letter.txt")
    used = await get(door, f"/workflows/{workflow}")
    calls = await items(door, f"/workflows/{workflow}/usage")
    for by in ("day", "model", "stage", "actor"):
        totals = await items(door, "/usage", by=by)
        assert await items(door, "/usage", by=by, limit=1) == totals
        assert sum(total["calls"] for total in totals) == len(calls)
        assert sum(total["inputTokens"] + total["outputTokens"] for total in totals) == used["tokens"]
    assert await items(door, "/usage", before="2001-01-01") == []
    assert await items(door, "/stuck") == []


async def test_an_answer_that_the_client_has_is_not_sent_again(door: Door) -> None:
    workflow = await asked(door, "Hello")
    address = f"/api/v1/workflows/{workflow}"
    first = await door.http.get(address)
    again = await door.http.get(address, headers={"If-None-Match": f'"other", W/{first.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    head = await door.http.head(address)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["etag"] == first.headers["etag"]
    assert head.headers["content-length"] == str(len(first.content))
    assert (await door.http.head(f"{address}/stream", params={"follow": False})).status_code == 200
    options = await door.http.options("/api/v1/workflows")
    assert (options.status_code, options.headers["allow"]) == (204, "GET, HEAD, OPTIONS, POST")
    wrong = await door.http.delete("/api/v1/workflows")
    assert (wrong.status_code, wrong.json()["code"]) == (405, "method_not_allowed")
    assert wrong.json()["detail"] == "'/api/v1/workflows' does not accept DELETE."
    assert wrong.headers["allow"] == "GET, HEAD, OPTIONS, POST"
    page = await door.http.get("/api/v1/workflows", headers={"Accept": "text/html;q=1, application/json;q=0"})
    assert (page.status_code, page.json()["type"]) == (406, "/problems/not_acceptable")
    nothing = await door.http.get("/api/v1/nothing")
    assert (nothing.status_code, nothing.json()["code"]) == (404, "not_found")
