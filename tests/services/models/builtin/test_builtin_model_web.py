"""The built-in model looks up in the web what nobody handed over: what it plans, selects, searches for, and when it stops."""

import pytest
from asked import ACTIONS, parameters_of, plan, refine, review, select, step

from poweron_events.catalog import CATALOG
from poweron_services.models.prompts import CatalogLine, DocumentLine, ListLine

WEB = tuple(CatalogLine(name, CATALOG[name].parameter_names) for name in ("web.crawl", "web.scrape", "web.search"))
QUESTION = "Which museums open on Mondays, and what do they cost?"
LETTER = DocumentLine("docItem:d1:letter.pdf", "round1_request", "letter.pdf", "application/pdf", 900)
LETTER_TEXT = DocumentLine("docItem:d2:l.md", "round1_task1_action1_extract", "l.md", "text/markdown", 90)
PAGE = DocumentLine("docItem:d3:p.md", "round1_task1_action1_scrape", "p.md", "text/markdown", 90)


async def choose(*documents: DocumentLine, user_prompt: str = QUESTION, **fields):
    return await select(*documents, **({"user_prompt": user_prompt, "catalog": (*ACTIONS, *WEB)} | fields))


# --- planning


async def test_a_question_without_documents_is_found_out_from_the_web():
    (task,) = await plan(QUESTION, actions=(*ACTIONS, *WEB))
    assert task.objective == f"Find out from the web: {QUESTION}"
    assert task.success_criteria == (
        "The answer is stated with its source, or it is said that the pages do not hold it.",
    )


@pytest.mark.parametrize(
    "given",
    [{"actions": ACTIONS}, {"actions": (*ACTIONS, *WEB), "documents": (LETTER,)}, {"actions": (*ACTIONS, WEB[0])}],
)
async def test_with_documents_or_without_a_search_engine_the_plan_is_what_it_was(given):
    (task,) = await plan(QUESTION, **given)
    assert task.objective == f"Find out from the documents: {QUESTION}"


# --- selection and parameters


async def test_without_documents_the_best_pages_are_read_first():
    selection = await choose()
    assert (selection.action, selection.required_input_documents) == ("web.scrape", ())
    assert await parameters_of(selection) == {"query": QUESTION}


async def test_where_pages_may_not_be_read_the_web_is_searched():
    assert (await choose(catalog=(*ACTIONS, WEB[2]))).action == "web.search"


async def test_the_answer_is_written_from_the_pages_that_were_read():
    selection = await choose(PAGE, history=(step("web.scrape"),))
    assert selection.action == "ai.process"
    assert selection.required_input_documents == ("docList:round1_task1_action1_scrape",)
    assert await parameters_of(selection) == {"aiPrompt": QUESTION}


async def test_where_no_page_could_be_read_what_the_search_engine_shows_is_next():
    assert (await choose(history=(step("web.scrape", success=False),))).action == "web.search"


async def test_with_documents_nothing_is_looked_up():
    assert (await choose(LETTER)).action == "document.extract"
    assert (await choose(LETTER, LETTER_TEXT, history=(step("document.extract"),))).action == "ai.process"


async def test_a_request_that_asks_for_the_web_has_it_searched_beside_its_documents():
    asked = "Compare the letter with what you find when you search the web for the museum"
    assert (await choose(LETTER, user_prompt=asked)).action == "document.extract"
    looked_up = await choose(LETTER, LETTER_TEXT, user_prompt=asked, history=(step("document.extract"),))
    assert looked_up.action == "web.scrape"
    history = (step("web.scrape"), step("document.extract"))
    answered = await choose(PAGE, LETTER_TEXT, LETTER, user_prompt=asked, history=history)
    assert answered.required_input_documents == (
        "docList:round1_task1_action1_scrape",
        "docList:round1_task1_action1_extract",
    )


async def test_links_of_documents_are_followed_where_that_is_asked():
    asked = "Follow the links in the letter and tell me what a ticket costs"
    selection = await choose(LETTER, LETTER_TEXT, user_prompt=asked, history=(step("document.extract"),))
    assert (selection.action, selection.required_input_documents) == ("web.crawl", ("docList:round1_request",))
    tried = (step("web.crawl", success=False), step("document.extract"))
    assert (await choose(LETTER, LETTER_TEXT, user_prompt=asked, history=tried)).action == "ai.process"


@pytest.mark.parametrize(
    ("request_text", "query"),
    [
        (
            "What changed in the EU battery regulation this year? Write me two pages with sources.",
            "What changed in the EU battery regulation this year?",
        ),
        ("Write a short report on the Harbor Museum with sources", "the Harbor Museum"),
        ("Write a report as PDF about the museums of Port Alden", "the museums of Port Alden"),
        ("Write a summary as an HTML document of the ferry times", "the ferry times"),
        ("Schreibe einen Bericht als PDF über die Museen", "die Museen"),
        ("Summarise the rules for cargo bikes", "the rules for cargo bikes"),
        ("Is it open?\n\nhttps://museum.example/visit?day=1", "Is it open? https://museum.example/visit?day=1"),
    ],
)
async def test_what_is_searched_for_is_the_question_not_how_the_answer_is_to_look(request_text, query):
    assert (await parameters_of(await choose(user_prompt=request_text)))["query"] == query


async def test_an_address_of_a_long_request_stays_whole_in_the_query():
    address = f"https://museum.example/{'a' * 200}"
    query = (await parameters_of(await choose(user_prompt=f"{'What does it say? ' * 30}{address} {'Tell me. ' * 30}")))[
        "query"
    ]
    assert query.startswith(f"{address} What does it say?")
    assert len(query) <= 400


async def test_a_report_on_pages_is_named_by_what_was_looked_for():
    answered = DocumentLine("docItem:d4:answer.md", "round1_task1_action2_process", "answer.md", "text/markdown", 50)
    asked = {"user_prompt": "Write a report on the Harbor Museum with sources", "task_type": "report", "steps_left": 1}
    selection = await choose(answered, PAGE, history=(step("ai.process"), step("web.scrape")), **asked)
    assert selection.action == "document.generateReport"
    assert await parameters_of(selection) == {"title": "Report on the Harbor Museum"}


# --- later rounds


@pytest.mark.parametrize("request_text", ["Which parks have a playground?", "And which of them have a lift?"])
async def test_a_new_question_of_a_later_round_is_looked_up_again(request_text):
    selection = await choose(PAGE, user_prompt=request_text, lists=(ListLine(PAGE.label, 1),))
    assert selection.action == "web.scrape"


@pytest.mark.parametrize("request_text", ["And what do they cost?", "Write that as a report", "How old is it?"])
async def test_a_question_that_goes_back_is_answered_from_the_pages_of_earlier_rounds(request_text):
    selection = await choose(PAGE, user_prompt=request_text)
    assert (selection.action, selection.required_input_documents) == ("ai.process", (f"docList:{PAGE.label}",))


async def test_a_question_that_goes_back_to_nothing_is_looked_up():
    assert (await choose(user_prompt="And what do they cost?")).action == "web.scrape"


# --- refinement and review


async def test_after_pages_were_read_the_next_step_is_to_answer():
    decided = await refine("web.scrape", success=True)
    assert (decided.decision, decided.classification) == ("continue", "success")
    assert decided.reason == "The pages are read (1); the answer is still to be written."


@pytest.mark.parametrize("code", ["page_unavailable", "page_timeout", "page_needs_javascript"])
async def test_pages_that_cannot_be_read_are_a_reason_to_search_only(code):
    decided = await refine("web.scrape", success=False, code=code)
    assert (decided.decision, decided.classification) == ("continue", "retry")
    assert decided.improvements == ("Answer from what the search engine shows of the pages.",)


async def test_a_page_that_the_request_names_is_not_replaced_by_others():
    request = "What does https://museum.example/visit say?"
    decided = await refine("web.scrape", success=False, code="page_unavailable", objective=request)
    assert (decided.decision, decided.classification) == ("stop", "failed")
    history = (step("web.scrape", success=False),)
    assert (await choose(user_prompt=request, history=history)).action != "web.search"


@pytest.mark.parametrize(
    ("action", "code"),
    [("web.scrape", "search_quota"), ("web.search", "search_busy"), ("web.scrape", "nothing_found")],
)
async def test_where_the_search_failed_the_task_has_failed(action, code):
    decided = await refine(action, success=False, code=code)
    assert (decided.decision, decided.classification, decided.reason) == ("stop", "failed", f"{action} failed.")
    judged = await review(step(action, success=False), stopped_because="So it is.")
    assert (judged.status, judged.reason) == ("failed", "So it is.")


async def test_pages_that_were_read_are_answered_from_in_another_attempt():
    assert (await review(step("web.scrape"), stop_code="step_limit")).status == "retry"
