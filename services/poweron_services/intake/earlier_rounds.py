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
    summary = compact(messages)
    lists = [
        LabelledDocuments(label=label, documents=documents) for label, documents in labelled_documents(messages).items()
    ]
    fitting_lists = _newest_that_fit(lists)
    other_lists = [entry for entry in lists if entry not in fitting_lists]
    left_out = sum(len(entry.documents) for entry in other_lists)
    is_needed_later = left_out or not summary.is_whole or bool(known_addresses(messages))
    everything = _MESSAGES.dump_python(tuple(messages), mode="json", by_alias=True)
    return EarlierRounds(
        last_round=last_round,
        history=summary.text,
        history_left_out=summary.left_out,
        history_ref=await put(dumps(everything)) if is_needed_later else None,
        documents=fitting_lists,
        documents_left_out=left_out,
        lists_left_out=_labels_that_fit(other_lists),
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
    texts = list(map(render, messages))
    entries = [fitting_text(entry, ENTRY_BUDGET) for entry in texts]
    first_entries = fitting(entries, HISTORY_BUDGET)
    return Compact("\n".join(first_entries), len(entries) - len(first_entries), list(first_entries) == texts)


def _newest_that_fit(lists: Sequence[LabelledDocuments]) -> tuple[LabelledDocuments, ...]:
    """The newest lists that fit as a whole, since a label must not name fewer documents than before; skip others."""
    result, budget = list[LabelledDocuments](), DOCUMENTS_BUDGET
    for entry in lists[:MAX_DOCUMENTS]:
        size = len(dumps(entry.model_dump(mode="json", by_alias=True))) + 1
        if size <= budget:
            result.append(entry)
            budget -= size
    return tuple(result)


def _labels_that_fit(lists: Sequence[LabelledDocuments]) -> tuple[LeftOutList, ...]:
    """The labels of lists that do not fit, with their lengths: lists of handed-over documents, then the newest."""
    in_order = sorted(lists, key=lambda entry: not is_request_label(entry.label))
    left_out = [LeftOutList(label=entry.label, count=len(entry.documents)) for entry in in_order]
    return fitting(left_out[:MAX_DOCUMENTS], LISTS_BUDGET)
