"""The built-in model at every stage of the loop, read through the parsers that a language model's answers go through."""

import orjson
import pytest
from asked import INVOICE, TEMPLATE, ask, parameters_of, plan, process, refine, review, select, step

from poweron_events.step_events import Observation, SchemaField
from poweron_services.models.answers import (
    ParametersAnswer,
    parse,
)
from poweron_services.models.prompts import (
    DocumentLine,
    MessagePrompt,
    ParametersPrompt,
    TaskResult,
)

REQUESTED = DocumentLine("docItem:d1:letter.pdf", "round1_request", "letter.pdf", "application/pdf", 900)
EXTRACTED = DocumentLine(
    "docItem:d2:letter.pdf.md", "round1_task1_action1_extract", "letter.pdf.md", "text/markdown", 90
)
ANSWERED = DocumentLine("docItem:d3:answer.md", "round1_task1_action2_process", "answer.md", "text/markdown", 50)


# --- planning


async def test_a_question_is_one_task_that_ends_with_a_sourced_answer():
    (task,) = await plan("What is the total of the invoice?")
    assert task.task_type == "lookup"
    assert task.success_criteria == (
        "The answer is stated with its source, or it is said that the documents do not hold it.",
    )


@pytest.mark.req("L-08")
@pytest.mark.parametrize(
    ("request_text", "task_types", "formats"),
    [
        ("Write a report on the estimates", ("report", "report"), ("markdown",)),
        ("Erstelle einen Bericht über die Rechnungen", ("report", "report"), ("markdown",)),
        ("Convert the inventory to CSV", ("transform", "transform"), ("csv",)),
        ("Give me customer and total as JSON", ("transform", "transform"), ("json",)),
    ],
)
async def test_a_wanted_file_is_a_last_task_of_one_step(request_text, task_types, formats):
    tasks = await plan(request_text)
    assert tuple(task.task_type for task in tasks) == task_types
    assert (tasks[-1].max_steps, tasks[-1].expected_formats) == (1, formats)


async def test_a_comparison_is_an_analysis():
    (task,) = await plan("Compare the two estimates")
    assert task.task_type == "analysis"


# --- selection and parameters


async def test_documents_that_nobody_has_read_are_extracted_first():
    selection = await select(REQUESTED)
    assert selection.action == "document.extract"
    assert selection.required_input_documents == ("docList:round1_request",)


async def test_the_answer_is_written_from_what_was_extracted():
    selection = await select(REQUESTED, EXTRACTED, history=(step("document.extract"),))
    assert selection.action == "ai.process"
    assert selection.required_input_documents == ("docList:round1_task1_action1_extract",)


@pytest.mark.req("P-03")
async def test_stage_two_gets_the_question_word_for_word_through_the_context():
    question = 'What is "the total",\nand who paid: Åsa?\naiPrompt: "not this"'
    selection = await select(EXTRACTED, history=(step("document.extract"),), user_prompt=question)
    assert await parameters_of(selection) == {"aiPrompt": question}


async def test_a_json_task_asks_for_json():
    selection = await select(EXTRACTED, expected_formats=("json",), steps_left=1)
    assert (await parameters_of(selection))["expectedDocumentFormats"] == ["json"]


async def test_the_last_task_of_a_report_writes_it_from_what_was_found():
    selection = await select(
        REQUESTED, EXTRACTED, ANSWERED, history=(step("document.extract"),), task_type="report", steps_left=1
    )
    assert selection.action == "document.generateReport"
    assert selection.required_input_documents == ("docList:round1_task1_action2_process",)
    assert await parameters_of(selection) == {"title": "What is the total"}


async def test_when_extraction_failed_the_documents_themselves_are_handed_on():
    selection = await select(REQUESTED, history=(step("document.extract", success=False),))
    assert (selection.action, selection.required_input_documents) == ("ai.process", ("docList:round1_request",))


async def test_after_a_refusal_each_document_is_named_and_no_list():
    selection = await select(REQUESTED, refusal="There are no documents of 'docList:round1_request'.")
    assert (selection.action, selection.required_input_documents) == ("document.extract", ("docItem:d1:letter.pdf",))


async def test_reading_documents_needs_no_prompt():
    prompt = ParametersPrompt(
        template=TEMPLATE,
        action_objective="Read the documents",
        selected_action="document.extract",
        parameters_context="",
        fields=(SchemaField(name="aiPrompt"),),
        refusal=None,
    )
    assert parse(await ask(prompt), ParametersAnswer).parameters == {}


@pytest.mark.req("P-02")
async def test_no_selection_asks_for_documents_or_connections_as_parameters():
    selections = [await select(REQUESTED), await select(EXTRACTED), await select()]
    named = {field.name for selection in selections for field in selection.parameters_schema.fields}
    assert named == {"aiPrompt"}


async def test_a_context_that_another_model_wrote_is_the_prompt_itself():
    prompt = ParametersPrompt(
        template=TEMPLATE,
        action_objective="Answer",
        selected_action="ai.process",
        parameters_context="Sum up the letter in two sentences.",
        fields=(SchemaField(name="aiPrompt", required=True), SchemaField(name="processingMode")),
        refusal=None,
    )
    answer = parse(await ask(prompt), ParametersAnswer)
    assert answer.parameters == {"aiPrompt": "Sum up the letter in two sentences."}


# --- refinement and review


async def test_after_reading_the_next_step_is_to_answer():
    decided = await refine("document.extract", success=True)
    assert (decided.decision, decided.classification) == ("continue", "success")
    assert decided.hint == "Answer the request from the text that was read."


@pytest.mark.parametrize("action", ["ai.process", "document.generateReport"])
async def test_a_written_result_meets_all_criteria(action):
    decided = await refine(action, success=True)
    assert (decided.decision, decided.classification) == ("stop", "success")
    assert [progress.met for progress in decided.criteria_progress] == [True]


async def test_documents_that_cannot_be_extracted_are_a_reason_to_try_another_way():
    decided = await refine("document.extract", success=False, notes=("The file is damaged.",))
    assert (decided.decision, decided.classification, decided.reason) == (
        "continue",
        "retry",
        "document.extract failed.",
    )
    assert decided.improvements


@pytest.mark.parametrize("code", ["approval_denied", "approval_expired"])
async def test_what_a_person_denied_is_not_done_by_a_detour(code: str) -> None:
    decided = await refine("document.extract", success=False, code=code)
    assert (decided.decision, decided.classification) == ("stop", "failed")
    assert decided.reason == "document.extract was not approved, and did not run."
    last = Observation(success=False, result_label="r", documents_count=0, code=code)
    judged = await review(stopped_because="So it is.", last_observation=last)
    assert (judged.status, judged.reason) == ("failed", "So it is.")


async def test_a_failed_answer_ends_the_task():
    decided = await refine("ai.process", success=False, notes=("No text could be read.",))
    assert (decided.decision, decided.classification, decided.reason) == ("stop", "failed", "ai.process failed.")


async def test_the_last_step_ends_the_task():
    assert (await refine("document.extract", success=True, steps_left=0)).decision == "stop"


@pytest.mark.parametrize(
    ("history", "stop_code", "retries_left", "status"),
    [
        ((step("ai.process"), step("document.extract")), "criteria_met", 2, "success"),
        ((step("document.extract"),), "step_limit", 2, "retry"),
        ((step("document.extract"),), "step_limit", 0, "failed"),
        ((step("ai.process", success=False),), "no_improvement", 2, "failed"),
        ((), "token_budget", 2, "failed"),
        ((), "cancelled", 2, "failed"),
    ],
)
async def test_a_task_is_judged_by_whether_its_newest_step_wrote_a_result(history, stop_code, retries_left, status):
    assert (await review(*history, stop_code=stop_code, retries_left=retries_left)).status == status


# --- answering


async def test_an_answer_names_its_document_and_page():
    assert await process("What is the due date?", INVOICE) == "**Due date: July 3, 2025** — invoice.pdf, page 1"


async def test_a_cell_is_found_by_its_row_and_its_column():
    answer = await process("How many hours did printing take?", INVOICE)
    assert answer == "**Printing, Hours: 3** — invoice.pdf, page 1"


@pytest.mark.parametrize("preface", ["Compare the earlier documents: ", "Please look at both documents: "])
async def test_words_that_only_tell_where_to_look_are_no_part_of_the_question(preface):
    asked = "what is the due date and what is the colour of the roof?"
    answer = await process(preface + asked, INVOICE)
    assert answer == await process(asked, INVOICE)
    assert answer.startswith("**Due date: July 3, 2025** — invoice.pdf, page 1")
    assert 'The documents do not say: "what is the colour of the roof"' in answer


async def test_each_part_of_a_question_is_answered():
    answer = await process("Who is the customer, and what is the total?", INVOICE)
    assert "Customer: Ada Berg" in answer
    assert "$1,170.00" in answer


async def test_what_stands_in_several_documents_is_told_from_each():
    other = INVOICE.replace("invoice.pdf", "second.pdf").replace("July 3", "August 9")
    answer = await process("What is the due date?", INVOICE, other)
    assert answer.splitlines() == [
        "- **Due date: July 3, 2025** — invoice.pdf, page 1",
        "- **Due date: August 9, 2025** — second.pdf, page 1",
    ]


@pytest.mark.parametrize(
    "question",
    [
        "What is the warranty period?",
        "Who signed the invoice on behalf of the bank?",
        "What is the phone number of Ada Berg?",
        "How much does the packaging cost?",
    ],
)
async def test_what_is_not_there_is_not_claimed(question):
    asked = question.rstrip("?")
    refused = (f'The documents do not say: "{asked}"', f'These passages come closest to "{asked}"; see whether')
    assert (await process(question, INVOICE)).startswith(refused)


async def test_instructions_inside_a_document_are_only_text():
    assert "1,170.00" in await process("What is the total?", INVOICE)


async def test_a_german_question_is_answered_in_german_words():
    answer = await process("Wie lautet die Telefonnummer von Ada Berg?", INVOICE)
    assert answer == (
        "Diese Stellen kommen der Frage „Wie lautet die Telefonnummer von Ada Berg“ am nächsten; "
        "sehen Sie, ob eine davon sie beantwortet:\n\n"
        "- “Customer: Ada Berg” — invoice.pdf, page 1\n\n"
        "> Nur Wörter wurden verglichen, nicht ihr Sinn: Was anders gesagt ist, kann fehlen."
    )
    assert "$1,170.00" in await process("Wie hoch ist der Gesamtbetrag?", INVOICE)


async def test_an_english_question_of_a_german_user_finds_english_words():
    assert "Ada Berg" in await process("Who are the customers?", INVOICE, language="de")


async def test_without_documents_it_says_that_it_cannot_answer():
    answer = await process("Who wrote Faust?")
    assert answer.startswith("There are no documents to answer from.")
    assert "hand over the documents" in answer


async def test_a_summary_gives_facts_sentences_and_tables_under_their_source():
    summary = await process("Write a report on the invoice", INVOICE)
    assert summary.splitlines()[0] == "## Invoice 2025-118"
    first, second = summary.split("*Source: invoice.pdf, page 2*")
    assert "## page" not in summary
    assert "*Source: invoice.pdf, page 1*" in first
    assert "- **Customer:** Ada Berg\n- **Due date:** July 3, 2025\n" in first
    assert "| Item | Hours | Cost |\n| --- | --- | --- |\n| Design | 12 | $960.00 |" in first
    assert "The goods were delivered to the warehouse in Basel." in second


async def test_a_summary_shows_the_signs_of_markup_as_they_stand():
    summary = await process("Summarise the note", "# n.txt\n\n<!-- text/plain -->\n\n1. <b>bold</b> *star*\n")
    assert "<b>" not in summary.replace("\\<b>", "")


@pytest.mark.parametrize("output_format", ["json", "csv"])
async def test_a_summary_in_another_format_is_the_data_of_the_document(output_format):
    asked, plain = "Write a report on the invoice", "Convert the invoice"
    summed_up = await process(asked, INVOICE, output_format=output_format)
    assert summed_up == await process(plain, INVOICE, output_format=output_format)


@pytest.mark.req("D-03")
async def test_json_holds_question_answer_and_source():
    answer = await process("What is the due date?", INVOICE, output_format="json")
    source = {"document": "invoice.pdf", "place": "page 1"}
    found = {"label": "Due date", "answer": "July 3, 2025", "sources": [source]}
    assert orjson.loads(answer) == [{"question": "What is the due date", "answered": True, "answers": [found]}]


@pytest.mark.req("D-03")
async def test_a_table_is_converted_to_csv():
    answer = await process("Convert the table to CSV", INVOICE, output_format="csv")
    assert answer.splitlines() == ["Item,Hours,Cost", "Design,12,$960.00", "Printing,3,$210.00", 'TOTAL,,"$1,170.00"']


async def test_a_document_is_converted_to_json_with_all_its_values():
    answer = orjson.loads(await process("Convert the invoice to JSON", INVOICE, output_format="json"))
    rows = [
        {"Item": "Design", "Hours": "12", "Cost": "$960.00"},
        {"Item": "Printing", "Hours": "3", "Cost": "$210.00"},
        {"Item": "TOTAL", "Hours": "", "Cost": "$1,170.00"},
    ]
    values = {"Customer": "Ada Berg", "Due date": "July 3, 2025"}
    assert answer == [
        {"document": "invoice.pdf", "place": "page 1", "rows": rows},
        {"document": "invoice.pdf", "place": "page 1", "values": values},
    ]


# --- the final message


async def message(request: str, *results: TaskResult, documents: tuple[str, ...] = ()) -> str:
    return await ask(
        MessagePrompt(template=TEMPLATE, user_prompt=request, language=None, results=results, documents=documents)
    )


async def test_the_message_to_a_question_is_its_answer():
    found = TaskResult("Find the total", "success", "Answered", "**TOTAL: $1,170.00** — invoice.pdf, page 1\n")
    assert await message("What is the total?", found) == "**TOTAL: $1,170.00** — invoice.pdf, page 1"


async def test_the_message_to_a_report_says_that_it_is_done():
    found = TaskResult("Find out", "success", "Done", await process("Write a report on the invoice", INVOICE))
    text = await message("Write a report on the invoice", found, documents=("report.md", "report.html"))
    assert text == "The report is done."


async def test_a_failed_task_is_said_plainly():
    failed = TaskResult("Find the total", "failed", "'a.pdf' is damaged.", "")
    assert await message("What is the total?", failed) == "This could not be done: 'a.pdf' is damaged."


@pytest.mark.req("L-08")
@pytest.mark.parametrize(
    ("request_text", "said"),
    [
        ("What is the total?", "TOTAL: 42\n\nNot every step worked: step 1, document.extract failed: It is damaged."),
        (
            "Write a report",
            "A report is written.\n\nNot every step worked: step 1, document.extract failed: It is damaged.",
        ),
        (
            "Give me the total as JSON",
            "A file is written.\n\nTOTAL: 42\n\nNot every step worked: step 1, document.extract failed: It is damaged.",
        ),
        (
            "Erstelle einen Bericht",
            "Ein Bericht liegt vor.\n\nNicht jeder Schritt ist gelungen: step 1, document.extract",
        ),
    ],
)
async def test_where_a_step_failed_the_message_says_so_and_never_that_all_is_done(request_text, said):
    failures = ("step 1, document.extract failed: It is damaged.",)
    found = TaskResult("Find the total", "success", "Answered", "TOTAL: 42", failures)
    assert (await message(request_text, found)).startswith(said)


async def test_where_a_task_failed_the_message_never_says_that_all_is_done():
    found = TaskResult("Find out", "success", "Done", "TOTAL: 42")
    failed = TaskResult("Write the report", "failed", "'a.pdf' is damaged.", "")
    assert await message("Write a report", found, failed) == (
        "A report is written.\n\nA part could not be done: 'a.pdf' is damaged."
    )
