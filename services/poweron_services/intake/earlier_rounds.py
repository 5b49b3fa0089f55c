"""What the opening of a round says about earlier rounds.

It carries their newest documents and a compact history; the complete history is in the content store.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from pydantic import TypeAdapter

from poweron_events.codec import dumps
from poweron_events.fold.history import render
from poweron_events.fold.state import ChatMessage, is_request_label
from poweron_events.request import MAX_DOCUMENTS, EarlierRounds, LabelledDocuments, LeftOutList, Spent
from poweron_services.decider.references import labelled_documents
from poweron_services.decider.size_limits import fitting, fitting_text
from poweron_services.decider.web_addresses import known_addresses

HISTORY_BUDGET = 8_000  # bytes, as JSON
ENTRY_BUDGET = 2_000  # bytes, as JSON, of one message in it
DOCUMENTS_BUDGET = 16_000  # bytes, as JSON
LISTS_BUDGET = 3_000  # bytes, as JSON, of the labels whose documents are left out

_MESSAGES = TypeAdapter(tuple[ChatMessage, ...])


async def summarise_rounds(
    last_round: int, messages: Sequence[ChatMessage], spent: Spent, put: Callable[[bytes], Awaitable[str]]
) -> EarlierRounds:
    """Summarise the rounds so far for the opening of the next one.

    Args:
        last_round: the number of the last of them.
        messages: all their messages, newest first.
        spent: their total usage.
        put: stores bytes and returns their commitment; called if something is left out or an address must remain known.
    """
    told = compact(messages)
    labelled = [
        LabelledDocuments(label=label, documents=documents) for label, documents in labelled_documents(messages).items()
    ]
    kept = _newest_that_fit(labelled)
    unnamed = [each for each in labelled if each not in kept]
    left_out = sum(len(each.documents) for each in unnamed)
    needed_later = left_out or not told.is_whole or bool(known_addresses(messages))
    everything = _MESSAGES.dump_python(tuple(messages), mode="json", by_alias=True)
    return EarlierRounds(
        last_round=last_round,
        history=told.text,
        history_left_out=told.left_out,
        history_ref=await put(dumps(everything)) if needed_later else None,
        documents=kept,
        documents_left_out=left_out,
        lists_left_out=_labels_that_fit(unnamed),
        spent=spent,
    )


class Compact(NamedTuple):
    """The part of a history that an opening has room for."""

    text: str
    left_out: int
    """The number of older messages that are not in the text."""
    is_whole: bool


def compact(messages: Sequence[ChatMessage]) -> Compact:
    """The history as prompts show it, newest first, in at most 8 kB."""
    rendered = list(map(render, messages))
    entries = [fitting_text(entry, ENTRY_BUDGET) for entry in rendered]
    kept = fitting(entries, HISTORY_BUDGET)
    return Compact("\n".join(kept), len(entries) - len(kept), list(kept) == rendered)


def _newest_that_fit(labelled: Sequence[LabelledDocuments]) -> tuple[LabelledDocuments, ...]:
    """The newest lists that fit as a whole, since a label must not name fewer documents than before; skip others."""
    kept, budget = list[LabelledDocuments](), DOCUMENTS_BUDGET
    for each in labelled[:MAX_DOCUMENTS]:
        size = len(dumps(each.model_dump(mode="json", by_alias=True))) + 1
        if size <= budget:
            kept.append(each)
            budget -= size
    return tuple(kept)


def _labels_that_fit(labelled: Sequence[LabelledDocuments]) -> tuple[LeftOutList, ...]:
    """The labels of lists that do not fit, with their lengths: lists of handed-over documents, then the newest."""
    in_order = sorted(labelled, key=lambda each: not is_request_label(each.label))
    unnamed = [LeftOutList(label=each.label, count=len(each.documents)) for each in in_order]
    return fitting(unnamed[:MAX_DOCUMENTS], LISTS_BUDGET)
