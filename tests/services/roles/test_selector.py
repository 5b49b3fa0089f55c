"""Stage 1: one allowed action, no parameters; what breaks a rule is refused with its reason."""

from collections.abc import Mapping
from typing import Any

import pytest
from doubles import script

from builders import CALL, At, Told, document, planned, requested
from poweron_events.catalog import CATALOG, ActionSpec
from poweron_events.content import ContentStore
from poweron_events.round_events import ActionsPlanned, PlannedAction
from poweron_events.step_events import ActionSelected, SelectionRejected
from poweron_services.models.call import Caller
from poweron_services.models.scripted import ScriptedModel
from poweron_services.roles.selector import Selector, generate_react_plan_selection_prompt

GOOD = {
    "action": "document.extract",
    "actionObjective": "Read the estimate",
    "requiredInputDocuments": ["docList:round1_request"],
}


def asked(**fields: Any) -> Told:
    return Told().tell(requested(**fields), planned())


async def selected(answer: Any, told: Told | None = None, catalog: Mapping[str, ActionSpec] = CATALOG) -> Any:
    content = ContentStore.at("memory:///")
    caller = Caller(ScriptedModel(script(selection=[answer])), content)
    (event,) = await Selector(caller, content, catalog)((told or asked()).workflow)
    return event


@pytest.mark.req("L-02")
@pytest.mark.req("B-01")
async def test_one_allowed_action_is_selected_and_its_call_is_told() -> None:
    event = await selected(GOOD)
    assert isinstance(event, ActionSelected)
    assert (event.action, event.required_input_documents) == ("document.extract", ("docList:round1_request",))
    assert event.model_call is not None
    assert (event.model_call.template, event.model_call.model) == ("selector.v4.md", "script")
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


@pytest.mark.req("C-01")
@pytest.mark.parametrize("action", ["web.search", "web.scrape"])
async def test_what_needs_a_search_engine_is_refused_with_that_reason_where_there_is_none(action: str) -> None:
    offline = {name: spec for name, spec in CATALOG.items() if name not in {"web.search", "web.scrape"}}

    event = await selected({"action": action, "actionObjective": "Find it"}, catalog=offline)
    denied = await selected(
        {"action": action, "actionObjective": "Find it"}, asked(denied_methods=("web",)), catalog=offline
    )

    assert isinstance(event, SelectionRejected)
    assert event.code == "search_unavailable"
    assert event.reason.startswith(f"{action!r} cannot be used: there is no search engine; choose one of ai.process")
    assert denied.code == "action_not_allowed"


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
    assert f"Your last answer was refused:\n<<< F\n{prompt.refusal}\n>>> F\n" in str(prompt.render(fence="F"))
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
    assert "\n- ai.process(documentList,aiPrompt,processingMode,includeMetadata,customInstructions," in rendered.data
    assert "\nConnections:\n<<< F\n- crm\n>>> F\n" in rendered.data
    assert "web." not in rendered.data


@pytest.mark.req("H-01")
def test_the_history_stands_newest_first_and_the_last_hint_is_shown() -> None:
    told = asked().tell(
        At().selected(), At().parameters(), At().started(), At().done(), At().observed(),
        At().refined(decision="continue", classification="retry", hint="Look at page 2", improvements=("Name the page",)),
    )  # fmt: skip
    data = generate_react_plan_selection_prompt(told.workflow, CATALOG).render(fence="F").data
    assert data.index("Read one document.") < data.index("Task 1 of 1 starts") < data.index("[round 1] What is")
    assert "Hint for this step:\n<<< F\nLook at page 2\n>>> F\n" in data
    assert "What to do better than last time:\n<<< F\n- Name the page\n>>> F\n" in data


@pytest.mark.req("X-05")
@pytest.mark.req("S1")
def test_no_two_prompts_share_a_fence_and_a_prompt_renders_to_one_text() -> None:
    told = asked().workflow
    first, second = (generate_react_plan_selection_prompt(told, CATALOG) for _ in range(2))
    assert first.render().data != second.render().data
    assert first.render() == first.render()
    assert first.render().instructions == second.render().instructions


@pytest.mark.req("P-05")
@pytest.mark.parametrize(
    ("references", "refused"),
    [
        ({"requiredInputDocuments": ["docItem:doc-estimate.pdf:estimate.pdf"], "requiredConnection": "crm"}, None),
        ({"requiredConnection": "mail"}, "'mail' is no connection; known are crm."),
        ({"requiredInputDocuments": ["docItem:1:no.pdf"]}, "'docItem:1:no.pdf' names no document of this workflow"),
        ({"requiredInputDocuments": []}, "document.extract works on documents; name them in requiredInputDocuments."),
    ],
)
async def test_both_modes_take_and_refuse_the_same_references(references: Any, refused: str | None) -> None:
    answer = {**GOOD, **references}
    plan = ActionsPlanned(
        **At().task_place, actions=(PlannedAction.model_validate(answer, by_alias=True),), model_call=CALL
    )
    one_by_one = await selected(answer, asked(connections=("crm",)))
    planned_ = await selected("", asked(connections=("crm",), workflow_mode="Actionplan").tell(plan))
    if refused is None:
        assert (one_by_one.required_connection, one_by_one.required_input_documents) == (
            "crm",
            ("docItem:doc-estimate.pdf:estimate.pdf",),
        )
        assert (planned_.decided_by, one_by_one.decided_by) == ("plan", "model")
        kept = {"decided_by": "model", "model_call": one_by_one.model_call}
        assert planned_.model_copy(update=kept) == one_by_one
    else:
        assert refused in one_by_one.reason
        assert planned_.reason == one_by_one.reason
