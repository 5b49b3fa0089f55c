"""Observations: the results of actions as the loop sees them.

The observer builds them for results that it reads back. An executor that also plays the observer builds them at once,
so that result and observation are one append.
"""

from collections.abc import Mapping, Sequence
from itertools import chain, repeat

from poweron_events.catalog import ActionSpec
from poweron_events.event import DocumentRef, UnreadDocument
from poweron_events.fold.history import findings
from poweron_events.fold.state import Workflow
from poweron_events.step_events import (
    MAX_NOTE,
    MAX_NOTES,
    MAX_SNIPPET,
    MAX_SUMMARY,
    ActionCompleted,
    Observation,
    ObservationRecorded,
    Omitted,
    PageFindings,
    Preview,
)
from poweron_services.actions.page_documents import without_head
from poweron_services.decider.model_reasons import reason_for_models
from poweron_services.decider.result_files import unread_in_short
from poweron_services.text.provenance import without_mark

READABLE = ("text/", "application/json", "application/xml")
LOOKED_AT = 100_000  # characters of a document: splitting a long one into words would take ten times its memory
PROSE = ("text/markdown", "text/plain")
NOTHING_OMITTED = Omitted()


def text_of(mime_type: str, data: bytes) -> str:
    """The text that a preview can show of a document; empty if the document is not text."""
    return without_mark(data.decode("utf-8", errors="replace")) if mime_type.startswith(READABLE) else ""


def observe_build(
    workflow: Workflow, completed: ActionCompleted, texts: Sequence[str], catalog: Mapping[str, ActionSpec]
) -> ObservationRecorded:
    """The observation of a completed action; `texts` are those of its first documents (L-04)."""
    plain = [" ".join(without_head(text[:LOOKED_AT]).split()) for text in texts]
    previews = tuple(
        _preview(document, _truncate(text, MAX_SNIPPET), page_findings)
        for document, text, page_findings in zip(
            completed.documents, plain, chain(completed.findings, repeat(None)), strict=False
        )
    )
    unread = tuple(_truncate_reason(document) for document in completed.unread[:MAX_NOTES])
    facts = list(completed.notes)
    if completed.error and not _tells_itself(completed):
        facts.insert(0, reason_for_models(completed.error, completed.code))
    room = MAX_NOTES - len(unread)
    notes = tuple(_truncate(fact, MAX_NOTE) for fact in facts[:room])
    index_count = (
        1 if completed.documents_left_out else 0
    )  # the document that lists all of them is not part of the result
    count = len(completed.documents) - index_count + completed.documents_left_out
    omitted = Omitted(
        previews=count - len(previews),
        notes=len(facts)
        - len(notes)
        + completed.notes_left_out
        + len(completed.unread)
        - len(unread)
        + completed.unread_left_out,
        characters=sum(_excess(text, MAX_SNIPPET) for text in plain)
        + sum(max(0, len(text) - LOOKED_AT) for text in texts)
        + sum(_excess(document.reason, MAX_NOTE) for document in completed.unread[:MAX_NOTES])
        + sum(_excess(fact, MAX_NOTE) for fact in facts[:room]),
    )
    is_truncated = omitted != NOTHING_OMITTED
    observation = Observation(
        success=completed.success,
        result_label=completed.result_label,
        documents_count=count,
        previews=previews,
        code=completed.code,
        unread=unread,
        notes=notes,
        links=completed.links,
        truncated=is_truncated,
        omitted=omitted if is_truncated else None,
    )
    return ObservationRecorded(
        round=completed.round,
        task=completed.task,
        attempt=completed.attempt,
        step=completed.step,
        observation=observation,
        summary=summarize(workflow, observation, catalog, unread_in_short(completed)),
    )


def _preview(document: DocumentRef, snippet: str, page_findings: PageFindings | None) -> Preview:
    """The beginning of the document and, for a web page, its address and findings (C-07)."""
    return Preview(
        name=document.document_name,
        mime=document.mime_type,
        snippet=snippet,
        url=document.page.url if document.page else page_findings.url if page_findings else None,
        relevance_score=page_findings.relevance_score if page_findings else None,
        key_points=page_findings.key_points if page_findings else (),
        entities=page_findings.entities if page_findings else (),
    )


def _tells_itself(completed: ActionCompleted) -> bool:
    """Return whether the error is that no document could be read, which the unread documents already say."""
    return completed.code == "documents_unreadable" and bool(completed.unread)


def _truncate_reason(document: UnreadDocument) -> UnreadDocument:
    return document.model_copy(update={"reason": _truncate(document.reason, MAX_NOTE)})


def _truncate(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _excess(text: str, limit: int) -> int:
    """The number of characters that `_truncate` removes."""
    return len(text) - (limit - 1) if len(text) > limit else 0


def summarize(workflow: Workflow, observation: Observation, catalog: Mapping[str, ActionSpec], lacks: str = "") -> str:
    """Say what the step did, in at most 200 characters (H-02); `lacks` says what it could not read."""
    selection = workflow.step.selection
    action = selection.action if selection else "The action"
    if not observation.success:
        reason = next(iter(findings(observation)), "no reason was given")
        completed = workflow.step.completed
        did_run = completed is None or completed.outcome not in ("denied", "not_begun")
        return _truncate(f"{action} {'failed' if did_run else 'did not run'}: {reason}", MAX_SUMMARY)
    names = ", ".join(preview.name for preview in observation.previews)
    count = observation.documents_count
    documents_text = f"{count} document{'s' if count != 1 else ''}{lacks}: {names}" if count else f"no documents{lacks}"
    return _truncate(f"{action} gave {documents_text}{_answer(catalog.get(action), observation.previews)}", MAX_SUMMARY)


def _answer(spec: ActionSpec | None, previews: Sequence[Preview]) -> str:
    """The beginning of an answer in words; text that was only read begins with title and sender, which say nothing."""
    if spec is None or not spec.answers or not previews or previews[0].mime not in PROSE:
        return ""
    return f" - {previews[0].snippet}" if previews[0].snippet else ""
