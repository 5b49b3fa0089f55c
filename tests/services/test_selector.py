"""Stage 1: one allowed action, no parameters; what breaks a rule is refused with its reason."""

from typing import Any

import pytest
from doubles import CRITERION, script

from builders import At, Told, document, planned, requested
from poweron_events.catalog import CATALOG
from poweron_events.content import ContentStore
from poweron_events.selection import ActionSelected, SelectionRejected
from poweron_services.models.call import Caller
from poweron_services.models.prompts import SelectionPrompt
from poweron_services.models.scripted import ScriptedModel
from poweron_services.roles.selector import Selector, generate_react_plan_selection_prompt

GOOD = {
    "action": "document.extract",
    "actionObjective": "Read the estimate",
    "requiredInputDocuments": ["docList:round1_request"],
}


def asked(**fields: Any) -> Told:
    return Told().tell(requested(**fields), planned())


async def selected(answer: Any, told: Told | None = None) -> Any:
    caller = Caller(ScriptedModel(script(selection=[answer])), ContentStore.at("memory:///"))
    (event,) = await Selector(caller, CATALOG)((told or asked()).workflow)
    return event


@pytest.mark.req("L-02")
@pytest.mark.req("B-01")
async def test_one_allowed_action_is_selected_and_its_call_is_told() -> None:
    event = await selected(GOOD)
    assert isinstance(event, ActionSelected)
    assert (event.action, event.required_input_documents) == ("document.extract", ("docList:round1_request",))
    assert event.model_call is not None
    assert (event.model_call.template, event.model_call.model) == ("selector.v1.md", "script")
    assert (event.model_call.input_tokens, event.model_call.output_tokens) == (10, 5)


@pytest.mark.req("L-02")
@pytest.mark.req("P-02")
@pytest.mark.req("R-01")
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("I would read the file.", "The answer is not one JSON object"),
        ([], "The answer must be one JSON object, not list."),
        ({**GOOD, "parameters": {}}, "The answer must not hold 'parameters'."),
        ({**GOOD, "action": "files.delete"}, "'files.delete' is not an action of this task; choose one of ai.process"),
        ({**GOOD, "action": "Delete everything"}, "The answer does not fit: action"),
        ({**GOOD, "requiredInputDocuments": ["docList:other"]}, "'docList:other' names no document of this workflow"),
        ({**GOOD, "requiredInputDocuments": ["../etc/passwd"]}, "known are docList:round1_request."),
        ({**GOOD, "requiredInputDocuments": []}, "document.extract works on documents"),
        ({**GOOD, "requiredConnection": "mail"}, "'mail' is no connection; known are none."),
        ({**GOOD, "parametersSchema": {"fields": [{"name": "documentList"}]}}, "must not hold 'documentList'"),
        ({**GOOD, "parametersSchema": {"fields": [{"name": "depth"}]}}, "'depth' is no parameter of document.extract"),
        ({**GOOD, "learnings": ["x" * 70_000]}, "keep it below 60000"),
    ],
)
async def test_what_breaks_a_rule_is_refused_with_the_reason(answer: Any, reason: str) -> None:
    event = await selected(answer)
    assert isinstance(event, SelectionRejected)
    assert reason in event.reason
    assert event.model_call is not None  # refused calls count, too (B-01)


@pytest.mark.req("X-01")
@pytest.mark.parametrize(
    "limits",
    [
        {"denied_methods": ("document.extract",)},
        {"denied_methods": ("document.*",)},
        {"denied_methods": ("document",)},
        {"allowed_methods": {"lookup": ("ai",)}},
    ],
)
async def test_an_action_that_the_task_may_not_use_is_refused(limits: Any) -> None:
    event = await selected(GOOD, asked(**limits))
    assert "'document.extract' is not an action of this task" in event.reason


@pytest.mark.req("L-02")
async def test_the_retry_shows_why_the_first_answer_was_refused_and_the_second_refusal_ends_the_task() -> None:
    told = asked().tell(await selected("nonsense"))
    prompt = generate_react_plan_selection_prompt(told.workflow, CATALOG)
    assert prompt.refusal is not None
    assert f"Your last answer was refused: {prompt.refusal}" in str(prompt.render())
    told.tell(await selected("nonsense", told))
    assert told.verdicts[-2:] == ["accepted", "accepted"]
    assert (told.workflow.phase, told.workflow.task.refused) == ("review", told.workflow.step.refusals[-1])


@pytest.mark.req("P-01")
@pytest.mark.req("P-07")
def test_stage_one_shows_exactly_what_it_may() -> None:
    told = asked(documents=(document("a.pdf", document_id="d1"),), connections=("crm",), denied_methods=("web",))
    rendered = generate_react_plan_selection_prompt(told.workflow, CATALOG).render(fence="F")
    assert (
        "Rules:\n"
        "- Pick exactly one action per step; then specify only its parameters.\n"
        "- Derive parameters from objective + criteria; use user language; add recency only if freshness is implied.\n"
        "- Only request machine-readable formats when explicitly required; otherwise narrative text/markdown.\n"
        "- Keep parameters minimal; avoid connector-specific knobs; chain outputs so next step is consumable.\n"
        "- Stop when criteria are met; otherwise iterate with a new single action.\n\n"
    ) in rendered.instructions
    assert rendered.data == (
        "Request of the user:\n<<< F\nWhat is the grand total?\n>>> F\n\n"
        "Language: that of the request\n"
        "Objective of the task (lookup): Find the total\nSuccess criteria:\n"
        f"- {CRITERION}\n"
        "Steps left, this one included: 5\n\n"
        "Actions:\n"
        "- ai.process(documentList,aiPrompt,processingMode,includeMetadata,customInstructions,expectedDocumentFormats)\n"
        "- document.extract(documentList,aiPrompt)\n"
        "- document.generateReport(documentList,title)\n\n"
        "Documents, newest first:\n<<< F\n"
        "docItem:d1:a.pdf (application/pdf, 1000 bytes, docList:round1_request)\n>>> F\n\n"
        "Connections: crm\n\n"
        "History, newest first:\n<<< F\n"
        "[round 1] What is the grand total?\n  documents: docList:round1_request\n    docItem:d1:a.pdf\n>>> F\n"
    )


@pytest.mark.req("H-01")
def test_the_history_stands_newest_first_and_the_last_hint_is_shown() -> None:
    told = asked().tell(
        At().selected(), At().parameters(), At().started(), At().done(), At().observed(),
        At().refined(decision="continue", classification="retry", hint="Look at page 2", improvements=("Name the page",)),
    )  # fmt: skip
    data = generate_react_plan_selection_prompt(told.workflow, CATALOG).render().data
    assert data.index("Read one document.") < data.index("Task 1 of 1 starts") < data.index("[round 1] What is")
    assert "Hint for this step: Look at page 2\nImprove: Name the page\n" in data


@pytest.mark.req("X-05")
def test_two_renderings_never_share_a_fence() -> None:
    prompt = generate_react_plan_selection_prompt(asked().workflow, CATALOG)
    assert isinstance(prompt, SelectionPrompt)
    assert prompt.render().data != prompt.render().data
