"""The built-in model and tools of others: it lists, reads and answers, by the words of their names, and only reads."""

from pathlib import Path
from typing import Any

import pytest
from asked import ACTIONS, TEMPLATE, ask, parameters_of, plan, process, review, select, step

from poweron_events.catalog import CATALOG
from poweron_events.fold.state import ChatMessage
from poweron_services.models.answers import ActionsAnswer, parse
from poweron_services.models.builtin.task_judgement import ONLY_LISTED, READ_LISTED
from poweron_services.models.prompts import ActionsPrompt, CatalogLine, DocumentLine

FILES = tuple(
    CatalogLine(f"files.{name}", parameters)
    for name, parameters in {
        "create_directory": ("path",),
        "directory_tree": ("path", "excludePatterns"),
        "edit_file": ("path", "edits", "dryRun"),
        "get_file_info": ("path",),
        "list_allowed_directories": (),
        "list_directory": ("path",),
        "list_directory_with_sizes": ("path", "sortBy"),
        "move_file": ("source", "destination"),
        "read_file": ("path", "tail", "head"),
        "read_media_file": ("path",),
        "read_multiple_files": ("paths",),
        "read_text_file": ("path", "tail", "head"),
        "search_files": ("path", "pattern", "excludePatterns"),
        "write_file": ("path", "content"),
    }.items()
)
"""The tools of the reference server of files, as a prompt shows them."""
WEB = tuple(CatalogLine(name, CATALOG[name].parameter_names) for name in ("web.crawl", "web.scrape", "web.search"))
QUESTION = "Which files in the folder mention the exhibition?"
LETTER = DocumentLine("docItem:d1:letter.pdf", "round1_request", "letter.pdf", "application/pdf", 900)


def gave(tool: str, *findings: str) -> ChatMessage:
    return step(tool).model_copy(update={"findings": findings})


ROOTS = gave("files.list_allowed_directories", "Allowed directories:\n/srv/club")
LISTED = gave("files.list_directory", "[DIR] old\n[FILE] a b.txt\n[FILE] c.md")


async def choose(
    *history: ChatMessage, asked: str = QUESTION, catalog: tuple[CatalogLine, ...] = FILES, **more: Any
) -> Any:
    selection = await select(
        *more.pop("documents", ()), user_prompt=asked, catalog=(*ACTIONS, *catalog), history=history, **more
    )
    return selection.action, await parameters_of(selection)


@pytest.mark.req("C-08")
async def test_folders_are_listed_then_files_and_all_of_them_are_read_at_once() -> None:
    (task,) = await plan(QUESTION, actions=(*ACTIONS, *FILES, *WEB))
    assert task.objective == f"Find out with the tools that are there: {QUESTION}"
    assert await choose(catalog=(*FILES, *WEB)) == ("files.list_allowed_directories", {})
    assert await choose(ROOTS) == ("files.list_directory", {"path": "/srv/club"})
    read = await choose(LISTED, ROOTS)
    assert read == ("files.read_multiple_files", {"paths": ["/srv/club/a b.txt", "/srv/club/c.md"]})
    texts = DocumentLine("docItem:d2:t.txt", "round1_task1_action3_read_multiple_files", "t.txt", "text/plain", 9)
    listing = DocumentLine("docItem:d1:l.txt", "round1_task1_action2_list_directory", "l.txt", "text/plain", 9)
    history = (gave("files.read_multiple_files"), LISTED, ROOTS)
    answer = await select(texts, listing, user_prompt=QUESTION, catalog=(*ACTIONS, *FILES), history=history)
    assert answer.action == "ai.process"
    assert answer.required_input_documents == ("docList:round1_task1_action3_read_multiple_files",)


async def planned(*history: ChatMessage) -> list[str]:
    """The actions of a plan in mode Actionplan."""
    prompt = ActionsPrompt(
        template=TEMPLATE,
        user_prompt=QUESTION,
        language=None,
        objective="Find out",
        progress=(),
        task_type="lookup",
        expected_formats=(),
        catalog=(*ACTIONS, *FILES),
        documents=(),
        connections=(),
        history=history,
        earlier="",
        improvements=(),
        refusal=None,
        max_steps=5,
        place="round1_task1",
        first_action=len(history) + 1,
    )
    return [action.action for action in parse(await ask(prompt), ActionsAnswer).actions]


@pytest.mark.req("A-03")
async def test_a_plan_ends_with_a_list_and_is_made_again_with_what_it_names() -> None:
    assert await planned() == ["files.list_allowed_directories"]
    again = await review(ROOTS, stop_code="plan_done", retries_left=2)
    assert (again.status, again.improvements) == ("retry", (READ_LISTED,))
    assert await planned(ROOTS) == ["files.list_directory"]
    assert await planned(LISTED, ROOTS) == ["files.read_multiple_files", "ai.process"]


@pytest.mark.req("A-03")
async def test_nothing_is_denied_of_files_that_were_only_listed() -> None:
    ended = await review(ROOTS, stop_code="plan_done", retries_left=0, stopped_because="All planned actions are done.")
    assert (ended.status, ended.reason) == ("failed", ONLY_LISTED)
    empty = gave("files.list_directory", "[DIR] old")
    assert (await choose(empty, ROOTS))[0] == "ai.process"  # no other tool lists the same again
    listings = "Allowed directories:\n/srv/club", "[DIR] old\n[FILE] a b.txt"
    answer = await process(QUESTION, *listings)
    assert answer.startswith("It is only known which files and folders there are; none was read")
    denied = await process(QUESTION, *listings, "The kettle is broken.")
    assert denied.startswith("The documents do not say")


async def test_a_folder_or_a_file_that_the_request_names_is_not_looked_for() -> None:
    assert await choose(asked="Which files in /data/notes mention Ada?") == (
        "files.list_directory",
        {"path": "/data/notes"},
    )
    one = tuple(line for line in FILES if line.name != "files.read_multiple_files")
    assert await choose(asked="What does the file /data/notes/a.txt say?", catalog=one) == (
        "files.read_text_file",
        {"path": "/data/notes/a.txt"},
    )


async def test_a_tool_that_takes_a_question_is_asked_it() -> None:
    tools = (CatalogLine("tickets.delete_ticket", ("id",)), CatalogLine("tickets.search_tickets", ("query", "limit")))
    asked = "Which tickets are about the jetty?"
    assert await choose(asked=asked, catalog=tools) == ("tickets.search_tickets", {"query": asked})
    answered = await choose(gave("tickets.search_tickets"), asked=asked, catalog=tools)
    assert answered[0] == "ai.process"


@pytest.mark.parametrize(
    ("asked", "documents"),
    [("When does the exhibition open?", ()), (QUESTION, (LETTER,))],
)
async def test_tools_that_the_request_does_not_speak_of_are_left_alone(asked: str, documents: Any) -> None:
    action, _ = await choose(asked=asked, documents=documents)
    assert action in ("ai.process", "document.extract")


@pytest.mark.req("X-01")
async def test_whatever_the_request_says_no_tool_is_chosen_that_may_change_something() -> None:
    asked = "Delete, move, write and edit the files in the folder /srv/club"
    chosen = {(await choose(*history, asked=asked))[0] for history in ((), (ROOTS,), (LISTED, ROOTS))}
    assert chosen <= {"files.list_directory", "files.read_multiple_files"}
    changing = tuple(line for line in FILES if line.name.startswith(("files.write", "files.edit", "files.move")))
    assert (await choose(asked=asked, catalog=changing))[0] == "ai.process"


async def test_a_tool_that_failed_is_not_tried_again_and_the_last_step_answers() -> None:
    failed = step("files.list_allowed_directories", success=False)
    assert (await choose(failed))[0] == "ai.process"
    assert (await choose(ROOTS, steps_left=1))[0] == "ai.process"


async def test_files_in_one_text_are_cited_by_their_own_names() -> None:
    text = (
        "/srv/club/a.txt:\nThe exhibition opens on 3 May.\n\n---\n/srv/club/b.md:\n# Kitchen\n\nThe kettle is broken.\n"
    )
    answer = await process("When does the exhibition open?", text)
    assert "a.txt" in answer
    assert "read_multiple_files" not in answer
    assert "b.md" not in answer


async def test_a_sentence_of_a_paragraph_that_begins_with_a_label_is_quoted_once() -> None:
    files = sorted((Path(__file__).parents[4] / "docs" / "examples" / "club").iterdir())
    text = "\n---\n".join(f"/srv/club/{file.name}:\n{file.read_text()}" for file in files)
    assert await process(QUESTION, text) == (
        "- “The committee lends three model ships to the exhibition in June.” — minutes.txt\n"
        '- “The exhibition "Boats of the Bay" opens on 12 June 2026 in the boathouse.” — newsletter.md, '
        "section Newsletter of the Harbour Club, May 2026"
    )


async def test_a_note_of_several_sentences_is_told_whole_and_once_where_its_label_is_asked_for() -> None:
    text = "Note: The bumper was replaced. The camera was calibrated."
    assert await process("What is the note?", text) == f"“{text}” — invoice.pdf"
