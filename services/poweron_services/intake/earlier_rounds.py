"""What the opening of a round tells of the rounds before it.

Their newest documents and a compact history travel in the opening; the whole stands in the content store.
"""

from collections.abc import Awaitable, Callable, Sequence

from pydantic import TypeAdapter

from poweron_events.codec import dumps
from poweron_events.fold.history import render
from poweron_events.fold.state import ChatMessage
from poweron_events.request import MAX_DOCUMENTS, EarlierRounds, LabelledDocuments, Spent
from poweron_services.decider.references import labelled_documents
from poweron_services.decider.size_limits import fitting, fitting_text

HISTORY_BUDGET = 8_000  # bytes, as JSON
ENTRY_BUDGET = 2_000  # bytes, as JSON, of one message in it
SAYING_WHAT_IS_LEFT_OUT = 100  # bytes
DOCUMENTS_BUDGET = 16_000  # bytes, as JSON

_MESSAGES = TypeAdapter(tuple[ChatMessage, ...])


async def summarise_rounds(
    last_round: int, messages: Sequence[ChatMessage], spent: Spent, put: Callable[[bytes], Awaitable[str]]
) -> EarlierRounds:
    """The rounds so far as the next one is told of them.

    Args:
        last_round: the number of the last of them.
        messages: all their messages, newest first.
        spent: what they used together.
        put: stores bytes and returns their commitment; used where something is left out.
    """
    history, is_whole = compact(messages)
    labelled = [
        LabelledDocuments(label=label, documents=documents) for label, documents in labelled_documents(messages).items()
    ]
    kept = _newest_that_fit(labelled)
    left_out = sum(len(each.documents) for each in labelled) - sum(len(each.documents) for each in kept)
    everything = _MESSAGES.dump_python(tuple(messages), mode="json", by_alias=True)
    return EarlierRounds(
        last_round=last_round,
        history=history,
        history_ref=None if is_whole and not left_out else await put(dumps(everything)),
        documents=kept,
        documents_left_out=left_out,
        spent=spent,
    )


def compact(messages: Sequence[ChatMessage]) -> tuple[str, bool]:
    """The history as prompts show it, newest first, in at most 8 kB; also whether it is whole."""
    rendered = list(map(render, messages))
    entries = [fitting_text(entry, ENTRY_BUDGET) for entry in rendered]
    kept = fitting(entries, HISTORY_BUDGET)
    if len(kept) == len(entries):
        return "\n".join(entries), sum(map(len, entries)) == sum(map(len, rendered))
    kept = fitting(entries, HISTORY_BUDGET - SAYING_WHAT_IS_LEFT_OUT)
    return "\n".join([*kept, f"({len(entries) - len(kept)} older entries are left out.)"]), False


def _newest_that_fit(labelled: Sequence[LabelledDocuments]) -> tuple[LabelledDocuments, ...]:
    """Whole lists only: a label must not name fewer documents than it did. One that is too long is passed over."""
    kept, budget = list[LabelledDocuments](), DOCUMENTS_BUDGET
    for each in labelled[:MAX_DOCUMENTS]:
        size = len(dumps(each.model_dump(mode="json", by_alias=True))) + 1
        if size <= budget:
            kept.append(each)
            budget -= size
    return tuple(kept)
