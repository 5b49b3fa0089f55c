"""What a decision saw: the workflow as it was, and the prompt and the answer byte for byte."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from poweron_events.content import ContentStore
from poweron_events.errors import Refused
from poweron_events.event import ModelCall
from poweron_events.fold.costs import model_calls
from poweron_events.fold.evolve import WITHOUT_TURN
from poweron_events.fold.state import Workflow
from poweron_projections.reader import StoredRecord
from poweron_services.client.client_errors import UnknownSeq, UnknownWorkflow
from poweron_services.decider.rules import limits
from poweron_services.replay.decision_replay import is_decision
from poweron_services.replay.workflow_records import Damaged, Folded, StoredContent, folded
from poweron_services.roles.prompt_context import document_lines, history


class DecisionView(NamedTuple):
    """A workflow after one of its events, and the next decision."""

    at: Folded
    next: Folded | None
    """The next decision; None if there is none yet."""
    call: ModelCall | None
    """The model call whose answer decided; None if no model was asked."""
    prompt: bytes | None
    answer: bytes | None

    @property
    def workflow(self) -> Workflow:
        return self.at.after

    @property
    def missing(self) -> str:
        """A text that says whether the prompt or the answer is missing; empty if neither is."""
        if self.call is None:
            return ""
        contents = {"prompt": (self.call.prompt_ref, self.prompt), "answer": (self.call.answer_ref, self.answer)}
        sentences = [
            f"The {name} was {'never kept' if ref is None else 'erased'}."
            for name, (ref, content) in contents.items()
            if content is None
        ]
        return " ".join(sentences)


async def view(
    workflow_id: str, records: Sequence[StoredRecord], content: ContentStore, *, at: int | None = None
) -> DecisionView:
    """Return the workflow after event `at` and what the next decision saw; without `at`, what the last one saw.

    Raises:
        UnknownSeq: there is no such event, or it was superseded.
        NewerRelease: a newer release worked on the workflow.
        Unavailable: the content store cannot be reached.
    """
    accepted_records = accepted(workflow_id, records)
    index = _last(accepted_records) if at is None else index_of(workflow_id, accepted_records, records, at)
    following = _next(accepted_records, index)
    event = following.recorded.envelope.event if following else None
    call = next(reversed(model_calls(event)), None) if event else None
    stored_content = StoredContent(content)
    return DecisionView(
        accepted_records[index],
        following,
        call,
        await stored_content.find(workflow_id, call.prompt_ref if call else None),
        await stored_content.find(workflow_id, call.answer_ref if call else None),
    )


def accepted(workflow_id: str, records: Sequence[StoredRecord]) -> list[Folded]:
    """Return the accepted events, in order.

    Raises:
        UnknownWorkflow: no event was accepted.
        Refused: a record is damaged.
    """
    result: list[Folded] = []
    for record in folded(workflow_id, records):
        if isinstance(record, Damaged):
            raise Refused(f"Event {record.stored.seq} of workflow {workflow_id} is damaged: {record.why}")
        if record.verdict == "accepted":
            result.append(record)
    if not result:
        raise UnknownWorkflow(workflow_id)
    return result


def index_of(workflow_id: str, accepted_records: Sequence[Folded], records: Sequence[StoredRecord], seq: int) -> int:
    """Return the index of event `seq` among the accepted events.

    Raises:
        UnknownSeq: it is not among them.
    """
    numbers = [record.seq for record in accepted_records]
    if seq in numbers:
        return numbers.index(seq)
    nearest = min(numbers, key=lambda number: (abs(number - seq), number))
    superseded = seq in {record.seq for record in records}
    raise UnknownSeq(workflow_id, seq, superseded=superseded, nearest=nearest, last=records[-1].seq)


def _next(accepted_records: Sequence[Folded], index: int) -> Folded | None:
    """Return the decision that came after this event; None if the event ended a round."""
    if not accepted_records[index].after.is_open:
        return None
    return next(
        (record for record in accepted_records[index + 1 :] if is_decision(record.recorded.envelope.event)), None
    )


def _last(accepted_records: Sequence[Folded]) -> int:
    """Return the index of the event that the last decision answers."""
    heads = [
        index
        for index, record in enumerate(accepted_records)
        if not isinstance(record.recorded.envelope.event, WITHOUT_TURN)
    ]
    decisions = [
        place for place, index in enumerate(heads) if is_decision(accepted_records[index].recorded.envelope.event)
    ]
    return heads[max(0, decisions[-1] - 1)] if decisions else len(accepted_records) - 1


def as_object(decision: DecisionView) -> dict[str, Any]:
    """Return the view as `--json` prints it."""
    workflow = decision.workflow
    round_, task, attempt, step = workflow.place
    has_round = workflow.round is not None
    return {
        "seq": decision.at.seq,
        "type": decision.at.recorded.envelope.type,
        "phase": workflow.phase,
        "round": round_,
        "task": task,
        "attempt": attempt,
        "step": step,
        "history": [
            message.model_dump(mode="json", by_alias=True) for message in (history(workflow) if has_round else ())
        ],
        "documents": [_document(line) for line in (document_lines(workflow) if has_round else ())],
        "budgets": [_budget(budget) for budget in (limits(workflow) if has_round else ())],
        "model": f"{decision.call.provider}:{decision.call.model}" if decision.call else None,
        "template": decision.call.template if decision.call else None,
        "prompt": _text(decision.prompt),
        "answer": _text(decision.answer),
        "decision": _decision(decision.next),
        "missing": decision.missing or None,
    }


def _document(line: Any) -> dict[str, Any]:
    return {
        "reference": line.reference,
        "documentName": line.name,
        "mimeType": line.mime_type,
        "size": line.size,
        "label": line.label,
    }


def _budget(budget: Any) -> dict[str, Any]:
    return {"of": budget.whose, "code": budget.code, "used": budget.used, "limit": budget.limit}


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode("utf-8", errors="replace")


def _decision(following: Folded | None) -> dict[str, Any] | None:
    if following is None:
        return None
    return {"seq": following.seq, "type": following.recorded.envelope.type, "data": following.data}
