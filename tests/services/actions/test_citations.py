"""Citations: what a model writes from pages of the web names them by numbers, and keeps its sources wherever it goes."""

from typing import Any

import orjson
import pytest
from doubles import TASK, World, our_actions, script
from modes import MODES
from pages import BOATS, CLOCKS, given, page, sha256, source

from builders import Told, requested
from poweron_events.catalog import CATALOG
from poweron_events.codec import dumps
from poweron_events.content import ContentStore
from poweron_events.event import CitedSource, DocumentRef, WebPage
from poweron_events.request import workflow_id
from poweron_events.round_events import RoundCompleted
from poweron_events.step_events import ActionCompleted
from poweron_services.actions.action import Done, InputDocument, Order
from poweron_services.actions.registry import by_name
from poweron_services.actions.source_numbers import SourceNumbers, cited_answer
from poweron_services.decider.schema_check import check_values
from poweron_services.decider.size_limits import SOURCES_BUDGET
from poweron_services.models.call import Called, Caller
from poweron_services.models.prompts import MessagePrompt, ProcessPrompt, Prompt
from poweron_services.models.scripted import ScriptedModel

ID = workflow_id("/tests", "1")
PRICES = page("clocks", "Museum of Clocks")
HOURS = page("boats", "Boats [2] & *more*")


async def done(
    action: str, *documents: InputDocument, says: str = "It is so.", language: str | None = "en", **given: Any
) -> tuple[Done, ScriptedModel]:
    """What an action makes of documents while a model says this."""
    model = ScriptedModel(script(process=[says]))
    caller = Caller(model, ContentStore.at("memory:///"))

    async def ask(prompt: Prompt) -> Called:
        return await caller.call(Told().tell(requested()).workflow, prompt)

    parameters = {"documentList": [document.reference for document in documents], **given}
    order = Order(check_values(parameters, CATALOG[action]), documents, language, "key", ask)
    return await by_name(*await our_actions())[action](order), model


async def answered(*documents: InputDocument, says: str, **more: Any) -> tuple[str, tuple[CitedSource, ...], Done]:
    """What `ai.process` makes of it: its text and sources."""
    result, _ = await done("ai.process", *documents, says=says, aiPrompt="When are they open?", **more)
    (answer,) = result.result.documents
    return answer.document_data.decode(), result.origins[0].sources if result.origins else (), result


def process_prompt(model: ScriptedModel) -> ProcessPrompt:
    (prompt,) = model.asked
    assert isinstance(prompt, ProcessPrompt)
    return prompt


@pytest.mark.req("C-04")
async def test_pages_among_the_documents_have_numbers_in_the_prompt_and_others_have_none() -> None:
    documents = (given("clocks.md", CLOCKS, PRICES), given("note.md", "By bus."), given("boats.md", BOATS, HOURS))
    _, model = await done("ai.process", *documents, aiPrompt="When?")
    prompt = process_prompt(model)
    assert [(text.number, text.page) for text in prompt.documents] == [(1, PRICES), (None, None), (2, HOURS)]
    data = prompt.render("F").data
    assert "Document 1 of 3, source [1]:\n<<< F\n" in data
    assert "Document 2 of 3:\n<<< F\n" in data
    assert "End every statement that a page shows with its number in brackets" in prompt.render().instructions


@pytest.mark.req("C-04")
async def test_a_page_that_was_read_twice_has_a_number_for_each_of_its_texts() -> None:
    documents = (given("short.md", "Open.", HOURS), given("whole.md", BOATS, HOURS), given("again.md", BOATS, HOURS))
    result, model = await done("ai.process", *documents, says="“Open” [1], “daily” [2].", aiPrompt="When?")
    assert [text.number for text in process_prompt(model).documents] == [1, 2, 2]
    assert result.origins[0].sources == (source(1, HOURS, "Open."), source(2, HOURS, BOATS))


@pytest.mark.req("P-08")
async def test_without_pages_the_prompt_is_what_it_was() -> None:
    result, model = await done("ai.process", given("note.md", "By bus [1]."), says="By bus [1].", aiPrompt="How?")
    assert process_prompt(model).template.name == "process.v5.md"
    assert result.result.documents[0].document_data == b"By bus [1]."
    assert result.origins == result.notes == ()


@pytest.mark.req("C-04")
async def test_an_answer_lists_the_pages_that_it_cites_in_the_order_in_which_it_does() -> None:
    documents = (given("a.md", "A", page("other")), given("clocks.md", CLOCKS, PRICES), given("boats.md", BOATS, HOURS))
    text, sources, _ = await answered(*documents, says="Boats: “open daily” [3]. Clocks is not [2].")
    assert text == (
        "Boats: “open daily” [1]. Clocks is not [2].\n\n"
        "## Sources\n\n"
        "- [1] Boats \\[2\\] \\& \\*more\\*, <https://boats.example/visit>, fetched 2026-11-23\n"
        "- [2] Museum of Clocks, <https://clocks.example/visit>, fetched 2026-11-23\n"
    )
    assert sources == (source(1, HOURS, BOATS), source(2, PRICES, CLOCKS))


async def test_the_list_is_in_the_language_of_the_user_or_of_the_answer() -> None:
    clocks = given("clocks.md", CLOCKS, PRICES)
    asked_in_german, _, _ = await answered(clocks, says="Closed [1].", language="de-CH")
    says = "Die Uhren sind am Montag nicht zu sehen [1]."
    written_in_german, _, _ = await answered(clocks, says=says, language=None)
    for text in (asked_in_german, written_in_german):
        assert "\n\n## Quellen\n\n- [1] Museum of Clocks, <https://clocks.example/visit>, abgerufen am 2026" in text


async def test_an_answer_that_cites_nothing_or_what_is_no_source_is_noted() -> None:
    clocks = given("clocks.md", CLOCKS, PRICES)
    text, sources, result = await answered(clocks, says="It is closed.")
    assert (text, sources) == ("It is closed.", ())
    assert result.notes == ("The answer cites none of the 1 pages that it could be from.",)
    text, sources, result = await answered(clocks, says="It is closed [1][4].")
    assert text.startswith("It is closed [1]\\[4\\].\n\n## Sources\n\n- [1] Museum of Clocks")
    assert result.notes == ("The answer cites [4], which none of its sources is.",)


@pytest.mark.req("D-03")
@pytest.mark.parametrize(
    ("wanted", "says"),
    [("json", '{"closed": "on Mondays [2]", "numbers": [1]}'), ("csv", "museum,closed\nClocks,Mondays [2]\n")],
)
async def test_json_and_csv_stay_as_they_are_and_have_their_sources_beside_them(wanted: str, says: str) -> None:
    documents = (given("boats.md", BOATS, HOURS), given("clocks.md", CLOCKS, PRICES))
    text, sources, _ = await answered(*documents, says=says, expectedDocumentFormats=[wanted])
    assert text == says
    assert sources == (source(2, PRICES, CLOCKS),)


async def test_a_follow_up_cites_the_pages_of_an_earlier_answer_under_one_number_each() -> None:
    first, sources, _ = await answered(given("boats.md", BOATS, HOURS), says="Boats is open daily [1].")
    earlier = given("answer.md", first, sources=sources)
    documents = (given("clocks.md", CLOCKS, PRICES), earlier, given("boats.md", BOATS, HOURS))
    says = "Clocks is closed [1], Boats is open [2]."
    result, model = await done("ai.process", *documents, says=says, aiPrompt="When?")
    shown = process_prompt(model).documents
    assert [(text.number, text.cites) for text in shown] == [(1, ()), (None, (2,)), (2, ())]
    assert shown[1].text.startswith("Boats is open daily [2].\n\n## Sources\n\n- [2] Boats ")
    assert "Document 2 of 3, that cites [2]:" in process_prompt(model).render().data
    assert result.origins[0].sources == (source(1, PRICES, CLOCKS), source(2, HOURS, BOATS))


@pytest.mark.req("C-06")
async def test_a_report_of_several_answers_renumbers_and_lists_each_source_once() -> None:
    pages = (given("clocks.md", CLOCKS, PRICES), given("boats.md", BOATS, HOURS))
    first, of_first, _ = await answered(*pages, says="# One\n\nClosed [1].\n\n`a[1]`", language="de")
    second, of_second, _ = await answered(*pages, says="# Two\n\nOpen [2], closed [1][9].")
    answers = (given("a.md", first, sources=of_first), given("b.md", second, sources=of_second))
    result, _ = await done("document.generateReport", *answers, title="Hours")
    report, html = (document.document_data.decode() for document in result.result.documents[:2])
    assert report == (
        "# Hours\n\nPrepared by PowerOn\\\n2 sources\n\n## One\n\nClosed [1].\n\n`a[1]`\n\n## Two\n\nOpen [2], closed [1]\\[9\\].\n\n## Sources\n\n"
        "- [1] Museum of Clocks, <https://clocks.example/visit>, fetched 2026-11-23\n"
        "- [2] Boats \\[2\\] \\& \\*more\\*, <https://boats.example/visit>, fetched 2026-11-23\n"
    )
    assert '<a href="https://boats.example/visit" rel="noopener noreferrer">https://boats.example/visit</a>' in html
    assert "Boats [2] &amp; *more*," in html
    cited = (source(1, PRICES, CLOCKS), source(2, HOURS, BOATS))
    assert [origin.sources for origin in result.origins] == [cited, (), (), ()]


@pytest.mark.req("C-06")
async def test_a_report_of_pages_names_each_and_leaves_their_own_numbers_no_meaning() -> None:
    result, _ = await done("document.generateReport", given("clocks.md", CLOCKS, PRICES), title="Hours")
    report = result.result.documents[0].document_data.decode()
    assert report.startswith("# Hours\n\nPrepared by PowerOn\\\n1 source\n\n## Museum of Clocks [1]\n")
    assert "it is closed.\\[4\\]" in report
    assert report.count("## Sources") == 1


@pytest.mark.req("C-05")
async def test_an_extract_of_a_page_is_still_of_that_page() -> None:
    result, _ = await done("document.extract", given("clocks.md", CLOCKS, PRICES), says="Closed [1].", aiPrompt="When?")
    assert [(origin.page, origin.sources) for origin in result.origins] == [
        (PRICES, ()),
        (None, (source(1, PRICES, CLOCKS),)),
    ]


@pytest.mark.req("E-10")
def test_what_an_answer_cites_fits_beside_it_into_an_event() -> None:
    pages = [page("long", "Very long title " * 15, path="x" * 200 + str(number)) for number in range(90)]
    sources = [source(number, of) for number, of in enumerate(pages, start=1)]
    says = " ".join(f"It is so [{one.n}]." for one in sources)
    answer = cited_answer(says, sources, "markdown", "en")
    assert 10 < len(answer.sources) < 90
    assert len(dumps([one.model_dump(mode="json", by_alias=True) for one in answer.sources])) <= SOURCES_BUDGET
    assert answer.text.count("\n- [") == 90
    assert answer.notes == (
        f"Only the first {len(answer.sources)} of 90 sources can be checked; there is no room for more.",
    )


async def test_what_a_page_says_of_itself_ends_no_list_and_begins_no_code() -> None:
    hostile = page("evil", "## Sources\n\n- [1] `<https://good.example>` ](x)", path="<b>")
    text, sources, _ = await answered(given("evil.md", "Evil.", hostile), says="It says so [1].")
    assert sources == (source(1, hostile, "Evil."),)
    (line,) = text.partition("## Sources\n\n")[2].splitlines()
    assert line == (
        "- [1] \\#\\# Sources - \\[1\\] \\`\\<https://good.example\\>\\` \\](x), "
        "<https://evil.example/%3Cb%3E>, fetched 2026-11-23"
    )
    assert orjson.loads(dumps(sources[0].model_dump(mode="json")))["text"] == sha256("Evil.")


@pytest.mark.req("L-08")
@pytest.mark.parametrize(
    ("mime_type", "text", "told"),
    [
        (
            "application/json",
            '{"rows": [1], "price": 1.50, "said": "“daily” \\"[1]\\", not [7]"}',
            '{"rows": [1], "price": 1.50, "said": "“daily” \\"[2]\\", not \\\\[7\\\\]"}',
        ),
        ("application/json", "{[1]", "{[1]"),
        ("text/csv", "museum,open\nBoats,daily [1]\n", "museum,open\nBoats,daily [2]\n"),
    ],
)
def test_beside_other_answers_one_in_json_or_csv_names_its_pages_by_their_common_numbers(
    mime_type: str, text: str, told: str
) -> None:
    numbers = SourceNumbers()
    assert numbers.taken_over("Closed [1].", [source(1, PRICES)], "text/markdown") == "Closed [1]."
    assert numbers.taken_over(text, [source(1, HOURS)], mime_type) == told
    assert numbers.sources == [source(1, PRICES), source(2, HOURS)]


async def told_of(world: World, text: str, of: WebPage) -> DocumentRef:
    """A page as a document of the world's workflow."""
    content = await world.content.put(ID, text.encode())
    name = f"{of.title}.md"
    return DocumentRef(
        document_id=name[0], document_name=name, mime_type="text/markdown", size=9, content=content, page=of
    )


@pytest.mark.req("L-08")
@pytest.mark.parametrize("mode", MODES)
async def test_the_final_message_lists_what_it_cites_under_one_number_for_all_tasks(mode: str) -> None:
    steps = [
        {"action": "ai.process", "actionObjective": "Answer", "requiredInputDocuments": [f"docItem:{one}"]}
        for one in ("M:Museum.md", "B:Boats.md")
    ]
    prompt = {"aiPrompt": "When?"}
    lines = script(
        planning=[{"tasks": [TASK, TASK]}],
        selection=steps,
        actions=[{"actions": [step | {"parameters": prompt}]} for step in steps],
        parameters=[{"schema": "parameters_v1", "parameters": prompt}],
        process=["Clocks is closed [1].", "Boats is open [1]."],
        message=["Clocks is closed [1], Boats is open [2]; nobody knows more [7]."],
    )
    world = World(await our_actions(), lines)
    documents = (
        await told_of(world, CLOCKS, page("clocks", "Museum")),
        await told_of(world, BOATS, page("b", "Boats")),
    )
    async with world.process():
        await world.ask(documents=documents, workflow_mode=mode, user_language="en")
        await world.ended(ID)

    results = [event.documents[0] for event in world.accepted(ID) if isinstance(event, ActionCompleted)]
    assert [(one.n, one.page, one.text) for answer in results for one in answer.sources] == [
        (1, document.page, document.content) for document in documents
    ]
    (end,) = (event for event in world.accepted(ID) if isinstance(event, RoundCompleted))
    assert end.message == (
        "Clocks is closed [1], Boats is open [2]; nobody knows more [7].\n\n## Sources\n\n"
        "- [1] Museum, <https://clocks.example/visit>, fetched 2026-11-23\n"
        "- [2] Boats, <https://b.example/visit>, fetched 2026-11-23"
    )
    shown = [one for one in world.model.asked if isinstance(one, MessagePrompt)]
    assert [result.text for result in shown[0].results] == ["Clocks is closed [1].", "Boats is open [2]."]
