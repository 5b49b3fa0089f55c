"""The models as they travel: their names on the wire, their limits, and what they refuse."""

from typing import Any

import pytest
from pydantic import ValidationError

from builders import At, document, planned, requested, reviewed, step
from poweron_events.codec import dumps
from poweron_events.event import Model, UnreadDocument
from poweron_events.fold.state import ChatMessage
from poweron_events.round_events import RoundFailed, Totals
from poweron_events.step_events import (
    ActionDocument,
    ActionParameters,
    ActionResult,
    ActionSelection,
    Observation,
    Omitted,
    Preview,
)
from story import given


def wire(model: Model) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True)


@pytest.mark.req("M-01")
def test_an_action_is_a_method_and_a_name_and_one_word_on_the_wire() -> None:
    selection = ActionSelection.of("document.generateReport")
    assert (selection.method, selection.name) == ("document", "generateReport")
    assert selection.compound == "document.generateReport"
    assert wire(selection) == {"method": "document", "name": "generateReport"}
    assert wire(At().selected(action="web.search"))["action"] == "web.search"


@pytest.mark.req("M-01")
@pytest.mark.parametrize("action", ["search", "web.", ".search", "web.search.more", "Web.search", "web search", ""])
def test_a_word_that_is_no_method_and_name_is_selected_by_nobody(action: str) -> None:
    with pytest.raises(ValidationError, match="action"):
        At().selected(action=action)


@pytest.mark.req("M-02")
def test_parameters_are_values_by_name() -> None:
    given_ = {"aiPrompt": "Add it up", "nested": {"deep": [1, None, True]}}
    assert wire(ActionParameters(parameters=given_)) == {"parameters": given_}
    for wrong in ({}, {"parameters": ["aiPrompt"]}, {"parameters": {}, "action": "web.search"}):
        with pytest.raises(ValidationError):
            ActionParameters.model_validate(wrong)


# --- observations ------------------------------------------------------------------------------------------

SEEN: dict[str, Any] = {"success": True, "result_label": "label", "documents_count": 1}
UNREAD = UnreadDocument(document_name="b.pdf", code="document_damaged", reason="'b.pdf' is damaged.")
PREVIEW: dict[str, Any] = {"name": "a.md", "mime": "text/markdown", "snippet": ""}


@pytest.mark.req("M-03")
def test_an_observation_has_the_names_that_upstream_reads() -> None:
    known = {"url": "https://a.example/", "relevance_score": 1000, "key_points": ("k",), "entities": ("e",)}
    seen = Observation(
        success=True,
        result_label="round1_task1_action1_search",
        documents_count=6,
        previews=(Preview(**{**PREVIEW, "snippet": "The total"}, **known),),
        unread=(UNREAD,),
        notes=("One was empty.",),
        links=("https://a.example/",),
        truncated=True,
        omitted=Omitted(previews=5, notes=2, characters=99),
    )
    assert wire(seen) == {
        "success": True,
        "resultLabel": "round1_task1_action1_search",
        "documentsCount": 6,
        "previews": [
            {
                "name": "a.md",
                "mime": "text/markdown",
                "snippet": "The total",
                "url": "https://a.example/",
                "relevanceScore": 1000,
                "keyPoints": ["k"],
                "entities": ["e"],
            }
        ],
        "code": None,
        "unread": [
            {"documentName": "b.pdf", "code": "document_damaged", "reason": "'b.pdf' is damaged.", "content": None}
        ],
        "notes": ["One was empty."],
        "links": ["https://a.example/"],
        "truncated": True,
        "omitted": {"previews": 5, "notes": 2, "characters": 99},
    }


@pytest.mark.req("M-03")
@pytest.mark.parametrize(
    ("fits", "does_not"),
    [
        ({"previews": (PREVIEW,) * 5}, {"previews": (PREVIEW,) * 6}),
        ({"previews": ({**PREVIEW, "snippet": "x" * 300},)}, {"previews": ({**PREVIEW, "snippet": "x" * 301},)}),
        ({"notes": ("x",) * 8}, {"notes": ("x",) * 9}),
        ({"notes": ("x" * 200,)}, {"notes": ("x" * 201,)}),
        ({"links": ("x",) * 20}, {"links": ("x",) * 21}),
        ({"previews": ({**PREVIEW, "relevance_score": 0},)}, {"previews": ({**PREVIEW, "relevance_score": -1},)}),
        ({"previews": ({**PREVIEW, "relevance_score": 1000},)}, {"previews": ({**PREVIEW, "relevance_score": 1001},)}),
        ({"previews": ({**PREVIEW, "relevance_score": None},)}, {"previews": ({**PREVIEW, "relevance_score": 0.5},)}),
    ],
)
def test_an_observation_stays_small(fits: dict[str, Any], does_not: dict[str, Any]) -> None:
    assert Observation.model_validate(SEEN | fits)
    with pytest.raises(ValidationError):
        Observation.model_validate(SEEN | does_not)


# --- results -----------------------------------------------------------------------------------------------


@pytest.mark.req("M-04")
def test_a_result_has_the_names_that_both_modes_know_and_any_bytes() -> None:
    made = ActionDocument(document_name="a.png", document_data=b"\x89PNG\xff", mime_type="image/png")
    result = ActionResult(success=True, documents=(made,))
    assert wire(result) == {
        "success": True,
        "error": None,
        "documents": [{"documentName": "a.png", "documentData": "iVBOR_8=", "mimeType": "image/png"}],
    }
    assert ActionResult.model_validate_json(dumps(wire(result))) == result
    assert wire(ActionResult(success=False, error="No such page.")) == {
        "success": False,
        "error": "No such page.",
        "documents": [],
    }


# --- messages ----------------------------------------------------------------------------------------------


@pytest.mark.req("M-06")
def test_a_message_has_the_names_that_dashboards_read() -> None:
    message = ChatMessage(
        seq=6, time_ms=7, kind="step", status="step", round=1, task=2, attempt=3, step=4, action="web.search",
        success=True, message="It was found.", summary="Found.", documents_label="round1_request",
        documents=(document("a.md", document_id="1"),), findings=("f",), learnings=("l",),
    )  # fmt: skip
    told = wire(message)
    (named,) = told.pop("documents")
    assert (named["documentId"], named["documentName"]) == ("1", "a.md")
    assert told == {
        "seq": 6,
        "timeMs": 7,
        "kind": "step",
        "status": "step",
        "round": 1,
        "task": 2,
        "attempt": 3,
        "step": 4,
        "action": "web.search",
        "success": True,
        "message": "It was found.",
        "summary": "Found.",
        "documentsLabel": "round1_request",
        "error": "",
        "told": None,
        "findings": ["f"],
        "links": [],
        "unread": [],
        "unreadLeftOut": 0,
        "learnings": ["l"],
        "actor": None,
    }


@pytest.mark.req("M-06")
def test_the_first_message_of_a_round_and_the_last_one_say_so() -> None:
    story = given(requested(), planned(2), *step(), reviewed(improvements=("Name the page.",)))
    story.given(*step(1, task=2), reviewed(task=2, status="failed", reason="Not found."))
    story.given(RoundFailed(round=1, message="It failed.", totals=Totals(), reason="Not found."))
    messages = story.workflow.current.messages
    assert [(one.status, one.round, one.task, one.action, one.success) for one in messages] == [
        ("first", 1, 0, None, None),
        ("step", 1, 1, None, None),
        ("step", 1, 1, "document.extract", True),
        ("step", 1, 1, None, True),
        ("step", 1, 2, None, None),
        ("step", 1, 2, "document.extract", True),
        ("step", 1, 2, None, False),
        ("last", 1, 0, None, False),
    ]
    assert (messages[0].documents_label, messages[3].learnings) == ("round1_request", ("Name the page.",))
    assert [one.document_name for one in messages[0].documents] == ["estimate.pdf"]
