"""The answer of a workflow as recorded in the log and the content store, to compare with the expectations."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from poweron_events.client import Heard
from poweron_events.codes import Code
from poweron_events.content import ContentStore
from poweron_events.errors import MissingContent
from poweron_events.event import DocumentRef
from poweron_events.fold.costs import model_calls
from poweron_events.request import RequestRefused
from poweron_events.round_events import RoundCancelled, RoundCompleted, RoundFailed, Totals
from poweron_events.step_events import ActionStarted
from poweron_services.text.provenance import without_mark

TEXTS: Final = ("text/", "application/json", "application/xml", "application/yaml")
AnswerStatus = Literal["completed", "failed", "cancelled", "refused", "open"]


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """The result of the first round of a workflow."""

    workflow_id: str
    status: AnswerStatus
    message: str
    texts: Sequence[str]
    """The contents of its text documents."""
    erased: Sequence[str]
    """The names of text documents that are no longer in the content store."""
    totals: Totals
    duration_ms: int
    actions: Sequence[str]
    models: Sequence[str]
    """The models as `PROVIDER/MODEL`, without duplicates."""
    workers: frozenset[str]
    """The instances of the processes that decided on the answer."""
    prompt: str = ""
    code: Code | None = None
    """Why the round failed; None if it did not."""


async def recorded_answer(history: Sequence[Heard], content: ContentStore) -> RecordedAnswer:
    """Return the answer recorded in this history.

    Raises:
        Unavailable: the content store cannot be reached.
    """
    records = list(_first_round(history))
    last, accepted_records = records[-1], [record for record in records if record.verdict == "accepted"]
    status, message, documents = _ending(last)
    texts, erased = await _texts(documents, content, last.workflow.id)
    round_ = last.workflow.round
    return RecordedAnswer(
        workflow_id=last.workflow.id,
        status=status,
        message=message,
        texts=texts,
        erased=erased,
        totals=round_.totals if round_ else Totals(),
        duration_ms=last.recorded.time_ms - records[0].recorded.time_ms,
        actions=[
            record.event.action
            for record in accepted_records
            if isinstance(record.event, ActionStarted) and record.event.try_ == 1
        ],
        models=list(dict.fromkeys(_models(accepted_records))),
        workers=frozenset(_workers(accepted_records)),
        prompt=round_.opening.prompt if round_ else "",
        code=round_.code if round_ and status == "failed" else None,
    )


def _first_round(history: Sequence[Heard]) -> Iterable[Heard]:
    """Yield the history up to the end of the first round; a follow-up is another request."""
    for record in history:
        yield record
        if isinstance(record.event, RoundCompleted | RoundFailed | RoundCancelled) and record.verdict == "accepted":
            return


def _ending(last: Heard) -> tuple[AnswerStatus, str, Sequence[DocumentRef]]:
    event = last.event
    if isinstance(event, RoundCompleted | RoundFailed | RoundCancelled) and not last.workflow.is_open:
        return last.workflow.current.ending or "failed", event.message, event.documents
    if isinstance(event, RequestRefused) and last.workflow.round is None:
        return "refused", event.detail, ()
    return "open", "", ()


async def _texts(
    documents: Iterable[DocumentRef], content: ContentStore, workflow_id: str
) -> tuple[list[str], list[str]]:
    texts, erased = list[str](), list[str]()
    for document in documents:
        if document.mime_type.startswith(TEXTS):
            try:
                data = await content.get(workflow_id, document.content)
                texts.append(without_mark(data.decode(errors="replace")))
            except MissingContent:
                erased.append(document.document_name)
    return texts, erased


def _models(records: Iterable[Heard]) -> Iterable[str]:
    for record in records:
        if record.event is not None:
            yield from (f"{call.provider}/{call.model}" for call in model_calls(record.event))


def _workers(records: Iterable[Heard]) -> Iterable[str]:
    """Yield the instances of all roles except the intake, which answers requests and decides nothing of the answer."""
    for record in records:
        role, _, instance = record.recorded.envelope.source.removeprefix("/poweron/").partition("/")
        if role != "intake":
            yield instance
