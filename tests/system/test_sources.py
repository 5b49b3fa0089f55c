"""`poweron sources` on the real servers: an answer's quotes are looked up in the page that it was made from."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from commands import NOBODY, Shell
from processes import ONE_STEP, script

from builders import Told, requested
from poweron_events import topics
from poweron_events.content import ContentStore
from poweron_events.event import DocumentRef, WebPage
from poweron_services.client.connect import Connections
from poweron_services.models.chat_model import ChatModel
from poweron_services.settings.config import Settings
from poweron_services.wiring import build_model

pytestmark = [pytest.mark.system]

ID = Told().id
TEXT = "# Museum of Clocks\n\nOn *Mondays* it is closed.\n\nA ticket is 9.50 €.\n"
ANSWER = (
    "It is shut: “on Mondays it is closed” [1]. A ticket is “8.50 €” [1]. Children pay less [1]. "
    "Dogs are “kept at the gate” (rules.txt)."
)
RULES = b"Dogs are kept at\nthe gate.\n"
CHOSEN = {"action": "ai.process", "actionObjective": "Answer", "requiredInputDocuments": ["docList:round1_request"]}
LINES: dict[str, list[Any]] = ONE_STEP | {"SelectionPrompt": [CHOSEN], "ProcessPrompt": [ANSWER]}


@pytest.fixture
async def model(tmp_path: Path) -> ChatModel:
    """One task, one step, whose answer quotes the page."""
    return build_model(Settings(model=script(tmp_path, LINES)), AsyncExitStack())


async def asked(service: Connections) -> WebPage:
    """A workflow with a page of the web among its documents."""
    content = ContentStore.at(service.settings.content_place)
    page = WebPage(
        url="https://clocks.example/visit?day=1",
        title="Museum of Clocks \x1b[31m",
        fetched_at="2026-11-23T10:00:00Z",
        sha256="a" * 64,
        content=await content.put(ID, b"<html>"),
    )
    stored = await content.put(ID, TEXT.encode())
    document = DocumentRef(
        document_id="d1", document_name="clocks.md", mime_type="text/markdown", size=9, content=stored, page=page
    )
    rules = DocumentRef(
        document_id="d2",
        document_name="rules.txt",
        mime_type="text/plain",
        size=len(RULES),
        content=await content.put(ID, RULES),
    )
    told = Told().tell(requested(documents=(document, rules)))
    await service.log.append(topics.EVENTS.name, told.messages)
    return page


@pytest.mark.req("C-04")
@pytest.mark.req("X-05")
async def test_every_statement_of_an_answer_is_told_with_its_source_and_what_became_of_its_quote(
    shell: Shell, service: Connections
) -> None:
    page = await asked(service)
    watched = await shell("watch", ID)
    assert watched.code == 0, watched.err
    found = await shell("sources", ID, "--json")
    plain = (await shell("sources", ID)).out
    nobody = await shell("sources", NOBODY)

    (told,) = found.lines
    (source,) = told["sources"]
    assert {name: source[name] for name in ("n", "url", "title", "fetchedAt", "sha256")} == {
        "n": 1,
        "url": page.url,
        "title": page.title,
        "fetchedAt": page.fetched_at,
        "sha256": page.sha256,
    }
    assert source["statements"] == [
        "It is shut: “on Mondays it is closed”.",
        "A ticket is “8.50 €”.",
        "Children pay less.",
    ]
    assert [(each["quote"], each["result"]) for each in source["quotes"]] == [
        ("on Mondays it is closed", "found"),
        ("8.50 €", "not found"),
        (None, "not quoted"),
    ]
    (document,) = told["documents"]
    assert (document["n"], document["document"], document["texts"]) == (2, "rules.txt", ["docItem:d2:rules.txt"])
    assert [(each["quote"], each["result"]) for each in document["quotes"]] == [("kept at the gate", "found")]
    assert plain.startswith("[1]  Museum of Clocks \\x1b[31m\n     https://clocks.example/visit?day=1\n")
    assert plain.endswith(
        "                 It is shut: “on Mondays it is closed”. (r1t1a1d1:answer.md)\n"
        "     found       “on Mondays it is closed”\n"
        "                 A ticket is “8.50 €”. (r1t1a1d1:answer.md)\n"
        "     not found   “8.50 €”\n"
        "     not quoted  Children pay less. (r1t1a1d1:answer.md)\n"
        "[2]  rules.txt\n"
        "     compared with d2:rules.txt\n"
        "                 Dogs are “kept at the gate”. (r1t1a1d1:answer.md)\n"
        "     found       “kept at the gate”\n"
    )
    assert (nobody.code, nobody.err.startswith(f"There is no workflow {NOBODY}.")) == (1, True)
