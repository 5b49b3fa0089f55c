"""Workflows as a document of W3C PROV-JSON: which people, models and documents led to which answers.

Requests, decisions, actions and answers of people are activities; prompts, answers and documents are entities, named by
their ids and commitments; people, models and PowerOn are agents. It contains no text that a person or a model wrote.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import orjson

from poweron_events.client import Heard
from poweron_events.codec import dumps
from poweron_events.envelope import rfc3339_of
from poweron_events.event import PREFIX, DocumentRef, ModelCall
from poweron_events.fold.costs import model_calls
from poweron_events.fold.state import Workflow
from poweron_events.request import RoundRequested, WorkflowRequested
from poweron_events.round_events import RoundEnd
from poweron_events.step_events import ActionCompleted
from poweron_events.stream import WorkflowEvent
from poweron_services.decider.references import UnknownReference, documents_at_hand, resolve
from poweron_services.trace_export.event_kinds import actor_of_event, kind_of

NAMESPACE: Final = "urn:poweron:"
SERVICE: Final = "poweron:service"
PLACE: Final = ("round", "task", "attempt", "step")
Attributes = dict[str, Any]


def prov_document(histories: Sequence[Sequence[Heard]], release: str) -> bytes:
    """Return the document of these workflows as JSON; records that had no effect are left out."""
    document = _Document(release)
    for history in histories:
        _Provenance(document, history[0].workflow.id).take(history)
    return dumps(document.as_object())


def is_prov_of(data: bytes, workflow_ids: Sequence[str]) -> bool:
    """Return whether the bytes are such a document of these workflows alone."""
    try:
        activities: Mapping[str, Any] = orjson.loads(data)["activity"]
        named = {name.removeprefix("poweron:").partition("/")[0] for name in activities if name.startswith("poweron:")}
        return bool(named) and named <= {*workflow_ids}
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return False


class _Document:
    """The elements and relations of a document."""

    def __init__(self, release: str) -> None:
        self._elements: dict[str, dict[str, Attributes]] = {"entity": {}, "activity": {}, "agent": {}}
        self._relations: dict[str, dict[str, Attributes]] = {}
        self.agent(SERVICE, "prov:SoftwareAgent", "PowerOn", {"poweron:release": release})

    def entity(self, name: str, kind: str, attributes: Attributes) -> str:
        return self._element("entity", name, {"prov:type": _name(f"poweron:{kind}")} | attributes)

    def activity(self, name: str, attributes: Attributes) -> str:
        return self._element("activity", name, attributes)

    def agent(self, name: str, kind: str, label: str, attributes: Attributes | None = None) -> str:
        return self._element("agent", name, {"prov:type": _name(kind), "prov:label": label} | (attributes or {}))

    def _element(self, sort: str, name: str, attributes: Attributes) -> str:
        self._elements[sort].setdefault(name, attributes)
        return name

    def relate(self, relation: str, **ends: str | None) -> None:
        """Add a relation between elements, once."""
        attributes = {f"prov:{end}": name for end, name in ends.items() if name is not None}
        known = self._relations.setdefault(relation, {})
        key = "_:" + quote("/".join([relation, *attributes.values()]), safe="")
        known.setdefault(key, attributes)

    def as_object(self) -> dict[str, Any]:
        prefix = {"poweron": NAMESPACE, "xsd": "http://www.w3.org/2001/XMLSchema#"}
        return {"prefix": prefix, **self._elements, **self._relations}


class _Provenance:
    """Adds one workflow to a document."""

    def __init__(self, document: _Document, workflow_id: str) -> None:
        self._document, self._id = document, workflow_id
        self._activities: dict[str, str] = {}  # by the id of the event
        self._request: dict[int, str] = {}  # the prompt of each round
        self._requester: dict[int, str] = {}

    def take(self, history: Sequence[Heard]) -> None:
        before = Workflow(self._id)
        for seq, record in enumerate(history):
            if record.event is not None and record.verdict == "accepted":
                self._take(before, record, record.event, seq)
            before = record.workflow

    def _take(self, before: Workflow, record: Heard, event: WorkflowEvent, seq: int) -> None:
        kind = kind_of(event)
        if kind.kind == "notice":
            return
        activity = self._activity(record, event, seq)
        self._agents(activity, event)
        if isinstance(event, WorkflowRequested | RoundRequested):
            self._asked(activity, event)
        used = self._documents_read(before, event)
        for document in used:
            self._document.relate("used", activity=activity, entity=self._document_entity(document))
        for call in model_calls(event):
            self._call(activity, event, call)
        if isinstance(event, ActionCompleted):
            self._written(activity, event, used)
        if isinstance(event, RoundEnd):
            self._ended(activity, event)

    def _activity(self, record: Heard, event: WorkflowEvent, seq: int) -> str:
        recorded, kind = record.recorded, kind_of(event)
        end = recorded.time_ms
        start = end - event.duration_ms if isinstance(event, ActionCompleted) else end
        envelope = recorded.envelope
        name = self._document.activity(
            f"poweron:{self._id}/e{seq}",
            {
                "prov:startTime": rfc3339_of(start),
                "prov:endTime": rfc3339_of(end),
                "prov:type": _name(f"poweron:{kind.kind.capitalize()}"),
                "prov:label": f"{event.TYPE.removeprefix(PREFIX)}",
                "poweron:eventId": envelope.id,
                "poweron:eventSha256": recorded.sha256,
                "poweron:succeeded": kind.success,
                **{f"poweron:{name}": number for name in PLACE if (number := getattr(event, name, 0))},
                **({"poweron:code": code} if (code := getattr(event, "code", None)) else {}),
            },
        )
        self._activities[envelope.id] = name
        cause = envelope.cause
        if cause is not None and cause.id in self._activities:
            self._document.relate("wasInformedBy", informed=name, informant=self._activities[cause.id])
        return name

    def _agents(self, activity: str, event: WorkflowEvent) -> None:
        """Name who acted: the person who asked or answered, or else PowerOn on behalf of the requester."""
        round_number = getattr(event, "round", 0)
        actor = actor_of_event(event)
        if actor is not None:
            is_person = actor.kind == "person"
            name = f"poweron:{'person' if is_person else 'service'}/{quote(actor.id, safe='')}"
            self._document.agent(name, "prov:Person" if is_person else "prov:SoftwareAgent", actor.id)
            self._document.relate("wasAssociatedWith", activity=activity, agent=name)
            if isinstance(event, WorkflowRequested | RoundRequested):
                self._requester[round_number] = name
            return
        self._document.relate("wasAssociatedWith", activity=activity, agent=SERVICE)
        if (requester := self._requester.get(round_number)) is not None:
            self._document.relate("actedOnBehalfOf", delegate=SERVICE, responsible=requester, activity=activity)

    def _asked(self, activity: str, event: WorkflowRequested | RoundRequested) -> None:
        """Add the prompt and the documents that were handed over."""
        prompt = self._document.entity(f"poweron:{self._id}/r{event.round}/prompt", "Prompt", {})
        self._request[event.round] = prompt
        self._document.relate("wasGeneratedBy", entity=prompt, activity=activity)
        if (requester := self._requester.get(event.round)) is not None:
            self._document.relate("wasAttributedTo", entity=prompt, agent=requester)
        for document in event.documents:
            self._document.relate("used", activity=activity, entity=self._document_entity(document))

    def _documents_read(self, before: Workflow, event: WorkflowEvent) -> Sequence[DocumentRef]:
        """Return those documents of the round's lists that an action read."""
        if not isinstance(event, ActionCompleted) or before.step.selection is None:
            return ()
        at_hand, documents = documents_at_hand(before), list[DocumentRef]()
        for reference in before.step.selection.required_input_documents:
            try:
                documents += resolve([reference], at_hand)
            except UnknownReference:  # of a round so long ago that this one does not list it
                continue
        return documents

    def _call(self, activity: str, event: WorkflowEvent, call: ModelCall) -> None:
        """Add what a model was shown, and what it answered."""
        model = self._document.agent(
            f"poweron:model/{quote(call.provider, safe='')}/{quote(call.model, safe='')}",
            "prov:SoftwareAgent",
            f"{call.provider}/{call.model}",
        )
        self._document.relate("wasAssociatedWith", activity=activity, agent=model)
        self._document.relate("actedOnBehalfOf", delegate=model, responsible=SERVICE, activity=activity)
        prompt = self._content("ModelPrompt", call.prompt_ref)
        answer = self._content("ModelAnswer", call.answer_ref)
        if prompt is not None:
            self._document.relate("used", activity=activity, entity=prompt)
            request = self._request.get(getattr(event, "round", 0))
            if request is not None:
                self._document.relate("wasDerivedFrom", generatedEntity=prompt, usedEntity=request)
        if answer is not None:
            self._document.relate("wasGeneratedBy", entity=answer, activity=activity)
            self._document.relate("wasAttributedTo", entity=answer, agent=model)
            if prompt is not None:
                self._document.relate("wasDerivedFrom", generatedEntity=answer, usedEntity=prompt, activity=activity)

    def _written(self, activity: str, event: ActionCompleted, used: Sequence[DocumentRef]) -> None:
        answers = [self._content("ModelAnswer", call.answer_ref) for call in event.model_calls]
        for document in event.documents:
            entity = self._document_entity(document)
            self._document.relate("wasGeneratedBy", entity=entity, activity=activity)
            for source in (*map(self._document_entity, used), *filter(None, answers)):
                self._document.relate("wasDerivedFrom", generatedEntity=entity, usedEntity=source, activity=activity)

    def _ended(self, activity: str, event: RoundEnd) -> None:
        """Add the message of the round, derived from its prompt and its documents."""
        message = self._document.entity(f"poweron:{self._id}/r{event.round}/answer", "Answer", {})
        self._document.relate("wasGeneratedBy", entity=message, activity=activity)
        sources = [self._document_entity(document) for document in event.documents]
        for source in filter(None, (self._request.get(event.round), *sources)):
            self._document.relate("wasDerivedFrom", generatedEntity=message, usedEntity=source, activity=activity)

    def _content(self, kind: str, content: str | None) -> str | None:
        if content is None:
            return None
        return self._document.entity(f"poweron:{self._id}/content/{content}", kind, {"poweron:content": content})

    def _document_entity(self, document: DocumentRef) -> str:
        origin = {"poweron:byModel": True} if document.by_model else {}
        page = {"poweron:pageSha256": document.page.sha256} if document.page is not None else {}
        return self._document.entity(
            f"poweron:{self._id}/document/{quote(document.document_id, safe='')}",
            "Document",
            {
                "prov:label": document.document_id,
                "poweron:content": document.content,
                "poweron:mimeType": document.mime_type,
                "poweron:size": document.size,
                **origin,
                **page,
            },
        )


def _name(name: str) -> Attributes:
    """Return a qualified name as a value."""
    return {"$": name, "type": "prov:QUALIFIED_NAME"}
