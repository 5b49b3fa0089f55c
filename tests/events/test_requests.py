"""Requests, as any CloudEvents client writes them: taken, answered with a refusal, or nobody's."""

import base64
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import json_objects, json_values, requests

from poweron_events.codec import InvalidRequest, Undecodable, decode_request, dumps, encode_request
from poweron_events.request import (
    Budgets,
    InlineDocument,
    RequestApproval,
    RequestCancellation,
    RequestIdentity,
    RequestRound,
    RequestWorkflow,
    StoredDocument,
)
from poweron_events.stream import Request

ASKED = RequestIdentity(source="/crm/offers", id="4711")
TIME = "2026-11-21T00:00:00.000Z"
PLACE = {"round": 1, "task": 1, "attempt": 1, "step": 2}


def structured(**changes: Any) -> bytes:
    """A request for a workflow as structured CloudEvent; None takes an attribute away."""
    attributes = {
        "specversion": "1.0",
        "type": "poweron.request.workflow.v1",
        "source": "/crm/offers",
        "id": "4711",
        "data": {"prompt": "What is the total?"},
        **changes,
    }
    return dumps({name: value for name, value in attributes.items() if value is not None})


def headers(**changes: bytes | None) -> dict[str, Any]:
    """The headers of a request for a workflow as binary CloudEvent."""
    return {
        "ce_specversion": b"1.0",
        "ce_type": b"poweron.request.workflow.v1",
        "ce_source": b"/crm/offers",
        "ce_id": b"4711",
        "content-type": b"application/json",
        **changes,
    }


def taken(value: bytes | None, headers: dict[str, bytes] | None = None) -> Request:
    received = decode_request(value, headers or {})
    assert received.identity == ASKED
    return received.request


# --- taken -----------------------------------------------------------------------------------------


@pytest.mark.req("E-15")
def test_a_structured_event_of_a_plain_client_is_taken() -> None:
    assert taken(structured()) == RequestWorkflow(prompt="What is the total?")


@pytest.mark.req("E-15")
def test_a_structured_event_may_be_written_in_any_way_json_can() -> None:
    spaced = b'{ "specversion": "1.0", "type": "poweron.request.workflow.v1", "source": "/crm/offers",\n'
    assert taken(spaced + b'"id": "4711", "data": {"prompt": "\\u0057hat?"}}') == RequestWorkflow(prompt="What?")


@pytest.mark.req("E-15")
def test_a_structured_event_may_hold_its_data_as_base64() -> None:
    inner = base64.b64encode(b'{"prompt":"What is the total?"}').decode()
    assert taken(structured(data=None, data_base64=inner)) == RequestWorkflow(prompt="What is the total?")


@pytest.mark.req("E-12")
def test_a_binary_event_of_a_plain_client_is_taken() -> None:
    assert taken(b'{"prompt":"What is the total?"}', headers()) == RequestWorkflow(prompt="What is the total?")


@pytest.mark.req("E-15")
@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        (
            "round",
            {"workflowId": "w", "afterRound": 1, "prompt": "And?"},
            RequestRound(workflow_id="w", after_round=1, prompt="And?"),
        ),
        (
            "approval",
            {**PLACE, "workflowId": "w", "parametersSha256": "0" * 64, "decision": "deny", "reason": "Not now."},
            RequestApproval(**PLACE, workflow_id="w", parameters_sha256="0" * 64, decision="deny", reason="Not now."),
        ),
        ("cancellation", {"workflowId": "w", "round": 1}, RequestCancellation(workflow_id="w", round=1)),
    ],
)
def test_the_other_requests_are_taken_too(name: str, data: dict[str, Any], expected: Request) -> None:
    assert taken(structured(type=f"poweron.request.{name}.v1", data=data)) == expected


@pytest.mark.req("E-15")
@settings(max_examples=50)
@given(requests)
def test_what_our_own_clients_write_is_taken(request: Request) -> None:
    """But nothing in it is proven: without a seal, the actor is a claim."""
    if (actor := request.actor) is not None:
        expected = request.model_copy(update={"actor": actor.model_copy(update={"verified": False})})
    else:
        expected = request
    assert taken(encode_request(request, source="/crm/offers", request_id="4711", time=TIME)) == expected


@pytest.mark.req("R-02")
@pytest.mark.req("E-12")
def test_a_limit_of_the_round_that_nobody_sets_is_not_written() -> None:
    """An intake of 0.2 would refuse a request that names it."""
    for budgets, named in ((Budgets(workflow_tokens=9), set()), (Budgets(round_tokens=0), {"roundTokens"})):
        value = encode_request(RequestWorkflow(prompt="?", budgets=budgets), source="/a", request_id="1", time=TIME)
        assert {name for name in orjson.loads(value)["data"]["budgets"] if name.startswith("round")} == named


def test_documents_come_inline_or_by_reference() -> None:
    documents = [
        {"documentName": "note.txt", "mimeType": "text/plain", "data": base64.b64encode(b"42").decode()},
        {"documentName": "estimate.pdf", "content": "ab" * 32},
    ]
    request = taken(structured(data={"prompt": "?", "documents": documents}))
    assert request.documents == (
        InlineDocument.of("note.txt", b"42", "text/plain"),
        StoredDocument(document_name="estimate.pdf", content="ab" * 32),
    )
    assert request.documents[0].data == b"42"


def test_base64_may_be_wrapped_into_lines() -> None:
    wrapped = base64.encodebytes(b"x" * 1_000).decode()
    document = {"documentName": "a", "data": wrapped}
    assert taken(structured(data={"prompt": "?", "documents": [document]})).documents[0].data == b"x" * 1_000


def test_we_write_base64_on_one_line() -> None:
    value = encode_request(
        RequestWorkflow(prompt="?", documents=(InlineDocument.of("a", b"x" * 100),)),
        source="/crm/offers",
        request_id="4711",
        time=TIME,
    )
    assert orjson.loads(value)["data"]["documents"][0]["data"] == "eHh4" * 33 + "eA=="


@pytest.mark.req("E-15")
def test_an_inline_document_may_be_large_and_still_fits_a_record() -> None:
    request = RequestWorkflow(prompt="x" * 20_000, documents=(InlineDocument.of("a", b"x" * 700_000),))
    value = encode_request(request, source="/crm/offers", request_id="4711", time=TIME)
    assert len(value) < 1_000_000
    assert taken(value) == request


# --- refused, with an answer -----------------------------------------------------------------------

REFUSED = {
    "no data": ({"data": None}, "data must be an object"),
    "data that is no object": ({"data": [1]}, "data must be an object"),
    "no prompt": ({"data": {}}, "prompt is missing"),
    "an empty prompt": ({"data": {"prompt": "  "}}, "prompt must not consist of spaces alone"),
    "a long prompt": ({"data": {"prompt": "x" * 20_001}}, "prompt must have at most 20000"),
    "a field that we do not know": ({"data": {"prompt": "?", "mood": 1}}, "mood is not a known field"),
    "a Python name": ({"data": {"prompt": "?", "max_steps": 3}}, "max_steps is not a known field"),
    "true in place of a number": ({"data": {"prompt": "?", "maxSteps": True}}, "maxSteps must be a whole number"),
    "a number as text": ({"data": {"prompt": "?", "maxSteps": "5"}}, "maxSteps must be a whole number"),
    "nearly nothing": ({"data": {"prompt": "?", "budgets": {"workflowTokens": 1e-320}}}, "must be a whole number"),
    "a part of a number": ({"data": {"prompt": "?", "maxSteps": 1.5}}, "maxSteps must be a whole number"),
    "too many steps": ({"data": {"prompt": "?", "maxSteps": 101}}, "maxSteps must be at most 100"),
    "no time at all": ({"data": {"prompt": "?", "deadlineMs": 0}}, "deadlineMs must be at least"),
    "an unknown mode": ({"data": {"prompt": "?", "workflowMode": "Chaos"}}, "workflowMode must be 'React'"),
    "an unknown type of task": ({"data": {"prompt": "?", "allowedMethods": {"fun": []}}}, "allowedMethods.fun"),
    "no base64": (
        {"data": {"prompt": "?", "documents": [{"documentName": "a", "data": "not base64!"}]}},
        "documents.0.inline.data: Value error, not base64",
    ),
    "base64 that was cut": (
        {"data": {"prompt": "?", "documents": [{"documentName": "a", "data": "aGk"}]}},
        "documents.0.inline.data: Value error, not base64: Incorrect padding",
    ),
    "base64 with letters of another alphabet": (
        {"data": {"prompt": "?", "documents": [{"documentName": "a", "data": "§§§§"}]}},
        "data: ",
    ),
    "a document that is too large": (
        {
            "data": {
                "prompt": "?",
                "documents": [{"documentName": "a", "data": base64.b64encode(b"x" * 700_001).decode()}],
            }
        },
        "an inline document may take 700000 bytes; put larger ones into the store",
    ),
    "a document without a name": (
        {"data": {"prompt": "?", "documents": [{"documentName": "", "data": "aGk="}]}},
        "documentName must have at least 1",
    ),
    "a reference that is none": (
        {"data": {"prompt": "?", "documents": [{"documentName": "a", "content": "../key"}]}},
        "documents.0.stored.content must be a SHA-256, as 64 digits",
    ),
    "too many documents": (
        {"data": {"prompt": "?", "documents": [{"documentName": "a", "content": "ab" * 32}] * 101}},
        "at most 100 entries",
    ),
    "data_base64 that is no base64": ({"data": None, "data_base64": "?"}, "'data_base64' is not base64"),
    "data_base64 that is no text": ({"data": None, "data_base64": 5}, "'data_base64' is not base64"),
    "data_base64 of no JSON": ({"data": None, "data_base64": "aGk="}, "the value is not JSON"),
    "data_base64 of a list": ({"data": None, "data_base64": "W10="}, "must be a JSON object, not list"),
}


@pytest.mark.req("E-15")
@pytest.mark.req("X-06")
@pytest.mark.parametrize(("changes", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_a_request_with_an_identity_is_refused_in_a_sentence(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason) as raised:
        decode_request(structured(**changes), {})
    assert raised.value.identity == ASKED
    assert len(str(raised.value)) <= 2_000


@pytest.mark.req("X-06")
@pytest.mark.parametrize("value", [None, b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_a_binary_event_with_a_broken_body_is_refused(value: bytes | None) -> None:
    with pytest.raises(InvalidRequest) as raised:
        decode_request(value, headers())
    assert raised.value.identity == ASKED


@pytest.mark.req("E-15")
def test_a_refusal_names_the_workflow_that_the_request_named() -> None:
    value = structured(type="poweron.request.round.v1", data={"workflowId": "w", "afterRound": 0, "prompt": "?"})
    with pytest.raises(InvalidRequest, match="afterRound must be at least 1") as raised:
        decode_request(value, {})
    assert raised.value.workflow_id == "w"


# --- nobody's: dead letters ------------------------------------------------------------------------

DEAD = {
    "a tombstone": (None, "tombstone"),
    "no JSON": (b"{", "not JSON"),
    "invalid UTF-8": (b'{"specversion":"\xff"}', "not JSON"),
    "deep": (b"[" * 100_000, "not JSON"),
    "a list": (b"[]", "must be a JSON object"),
    "no specversion": (structured(specversion=None), "specversion must be '1.0', not None"),
    "another specversion": (structured(specversion="0.3"), "specversion must be '1.0', not '0.3'"),
    "no source": (structured(source=None), "'source' must be a text"),
    "a source that is no text": (structured(source=5), "'source' must be a text"),
    "a source with a bar": (structured(source="a|b"), "source: String should match pattern"),
    "a long source": (structured(source="x" * 256), "source must have at most 255"),
    "no id": (structured(id=None), "'id' must be a text"),
    "an empty id": (structured(id=""), "'id' must be a text"),
    "a long id": (structured(id="x" * 256), "id must have at most 255"),
    "no type": (structured(type=None), "'type' must be a text"),
    "an unknown type": (structured(type="poweron.request.coffee.v1"), "is not one of poweron.request.approval.v1"),
    "an event in place of a request": (structured(type="poweron.action.selected.v1"), "is not one of"),
}


@pytest.mark.req("E-14")
@pytest.mark.req("X-06")
@pytest.mark.parametrize(("value", "reason"), DEAD.values(), ids=DEAD.keys())
def test_a_request_without_identity_or_type_is_nobodys(value: bytes | None, reason: str) -> None:
    with pytest.raises(Undecodable, match=reason):
        decode_request(value, {})


@pytest.mark.req("X-06")
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ce_id": None}, "'id' must be a text"),
        ({"ce_id": b""}, "'id' must be a text"),
        ({"ce_id": b"\xff"}, "a CloudEvents header is not UTF-8"),
        ({"ce_specversion": b"2.0"}, "specversion must be '1.0', not '2.0'"),
        ({"ce_type": b"x"}, "type 'x' is not one of"),
    ],
)
def test_a_binary_event_with_broken_headers_is_nobodys(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(Undecodable, match=reason):
        decode_request(b'{"prompt":"?"}', headers(**changes))


@pytest.mark.req("E-14")
@given(
    st.one_of(
        st.none(), st.binary(max_size=100), json_values.map(dumps), json_objects.map(lambda data: structured(data=data))
    ),
    st.one_of(
        st.just({}), st.dictionaries(st.sampled_from(sorted(headers())), st.one_of(st.none(), st.binary(max_size=9)))
    ),
)
def test_nothing_that_comes_in_raises_anything_else(value: bytes | None, found: dict[str, Any]) -> None:
    for given_headers in ({}, found, headers(**found)):
        try:
            decode_request(value, given_headers)
        except (Undecodable, InvalidRequest):
            continue
