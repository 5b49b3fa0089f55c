"""Exports for a SIEM (OCSF) and for tools of provenance (W3C PROV-JSON): what they require, and what they need not see."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
from export_schemas import OCSF_EVENT, PROV_JSON, SORTS
from exported_histories import NOBODY, RECORDED, folded, one_step, recorded, told
from jsonschema import Draft202012Validator

from builders import At, Told, cancellation, document, person, planned, requested
from poweron_events.client import Heard
from poweron_events.fold.costs import reported
from poweron_events.fold.state import Used
from poweron_events.request import Requester
from poweron_services.trace_export.ocsf_events import is_ocsf_of, ocsf_events
from poweron_services.trace_export.prov_document import is_prov_of, prov_document

RELEASE = "1.2.3"
OCSF, PROV = Draft202012Validator(OCSF_EVENT), Draft202012Validator(PROV_JSON)
ID = Told().id


def ocsf(history: list[Heard]) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in ocsf_events(history, RELEASE)]


def prov(*histories: list[Heard]) -> dict[str, Any]:
    document: dict[str, Any] = orjson.loads(prov_document(histories, RELEASE))
    return document


def ends(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The kind and the name of the elements at the ends of all relations."""
    for relation in document.keys() - {"prefix", "entity", "activity", "agent"}:
        for attributes in document[relation].values():
            yield from ((SORTS[end.removeprefix("prov:")], name) for end, name in attributes.items())


@RECORDED
def test_every_history_is_exported_as_the_schemas_of_others_require(path: Path) -> None:
    history = recorded(path)
    events, document = ocsf(history), prov(history)
    for event in events:
        OCSF.validate(event)
        assert event["type_uid"] == 600_300 + event["activity_id"]
    PROV.validate(document)
    assert all(name in document[sort] for sort, name in ends(document))
    known = [record.event for record in history if record.event is not None]
    used = sum((Used.by(reported(event)) for event in known), Used())
    calls = [event["message_context"] for event in events if "message_context" in event]
    assert sum(call["total_tokens"] for call in calls) == used.tokens


def test_a_siem_sees_who_asked_what_was_decided_and_what_people_denied() -> None:
    ada = person("ada").model_copy(update={"roles": ("finance",)})
    history = told(
        requested(requester=Requester(name="Ada"), actor=ada),
        planned(),
        At().selected(),
        At().parameters(),
        At().approval_requested(),
        At().approval_denied(actor=person("bob")),
    )
    events = ocsf(history)
    asked = events[0]
    assert (asked["actor"]["user"]["uid"], asked["activity_name"]) == ("ada", "Create")
    assert asked["actor"]["user"]["groups"] == [{"name": "finance"}]
    assert [resource["uid"] for resource in asked["resources"]] == ["doc-estimate.pdf"]
    assert "ai_agent" not in asked
    denied = next(event for event in events if event["metadata"]["event_code"] == "poweron.approval.denied.v1")
    assert (denied["action"], denied["disposition"], denied["status"]) == ("Denied", "Rejected", "Failure")
    assert denied["actor"]["user"]["uid"] == "bob"
    call = next(event for event in events if event["api"]["operation"] == "chat")
    assert call["ai_model"] == call["ai_agent"]["ai_model"]
    assert {event["metadata"]["correlation_uid"] for event in events} == {ID}


def test_neither_export_contains_what_a_person_or_a_model_wrote() -> None:
    secret = "the canary sings"
    history = told(
        requested(prompt=secret, documents=(document(f"{secret}.pdf", document_id="r1d1"),)),
        planned(),
        At().selected(action_objective=secret),
        At().parameters(parameters={"text": secret}),
        cancellation().model_copy(update={"reason": secret}),
    )
    written = b"\n".join([*ocsf_events(history, RELEASE), prov_document([history], RELEASE)])
    assert secret.encode() not in written


def test_an_answer_leads_back_to_its_prompt_its_documents_and_its_requester() -> None:
    found = prov(one_step())
    before, reached = {f"poweron:{ID}/r1/answer"}, set[str]()
    while before:
        reached |= before
        derived = [each for each in found["wasDerivedFrom"].values() if each["prov:generatedEntity"] in before]
        before = {each["prov:usedEntity"] for each in derived} - reached
    assert f"poweron:{ID}/r1/prompt" in reached
    kinds = {found["entity"][name]["prov:type"]["$"] for name in reached}
    assert {"poweron:Answer", "poweron:Prompt"} <= kinds
    associated = {each["prov:agent"] for each in found["wasAssociatedWith"].values()}
    assert {"poweron:service", *(name for name in found["agent"] if name.startswith("poweron:model/"))} <= associated


def test_several_workflows_share_their_people_and_models_in_one_document() -> None:
    other = Told("2").tell(requested(actor=person("ada")), planned())
    histories = [told(requested(actor=person("ada")), planned()), folded([each.value for each in other.messages])]
    found = prov(*histories)
    PROV.validate(found)
    assert {name.split("/")[0] for name in found["activity"]} == {f"poweron:{ID}", f"poweron:{other.id}"}
    assert [name for name in found["agent"] if name.startswith("poweron:person/")] == ["poweron:person/ada"]
    data = prov_document(histories, RELEASE)
    assert is_prov_of(data, [ID, other.id, NOBODY])
    assert not is_prov_of(data, [other.id])
    assert not is_prov_of(b"[]", [ID])
    lines = b"\n".join(ocsf_events(histories[0], RELEASE))
    assert is_ocsf_of(lines, [ID])
    assert not any(is_ocsf_of(text, [NOBODY]) for text in (lines, b"", b"7\n", data))
