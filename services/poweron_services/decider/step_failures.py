"""What failed on the way to a result: the failed steps of a task, and what its reviews said."""

from collections.abc import Iterator, Sequence
from typing import Final

from poweron_events.fold.state import ChatMessage, Workflow
from poweron_events.step_events import MAX_NOTES
from poweron_services.decider.defaults import own_language
from poweron_services.decider.result_files import PARTLY

_NONE_WORKED: Final = {"en": "No step of this round worked:", "de": "Kein Schritt dieser Runde hat funktioniert:"}
MAX_NAMED: Final = 5  # unread documents; the end of the round names more of them


def failed_steps(workflow: Workflow, task: int) -> tuple[str, ...]:
    """The failed steps of the task in order, from all its attempts, each with the reason."""
    return tuple(
        f"attempt {message.attempt}, step {message.step}, {message.action} failed: {_reason(message)}"
        for message in workflow.current.messages
        if message.kind == "step" and message.task == task and not message.success
    )


def without_success(workflow: Workflow) -> str:
    """The paragraph which says that no step of the round succeeded, and why; empty if one did or there was none.

    Steps that could not read documents are left out: the documents are reported individually.
    """
    steps = [message for message in workflow.current.messages if message.kind == "step"]
    failures = [f"- {message.summary}" for message in steps if not message.unread]
    if not failures or any(message.success for message in steps):
        return ""
    return f"{_NONE_WORKED[own_language(workflow)]}\n\n" + "\n".join(dict.fromkeys(failures))


def reviews(workflow: Workflow, task: int) -> tuple[str, ...]:
    """What the reviews of the task said, the latest first."""
    messages = reversed(workflow.current.messages)
    return tuple(message.message for message in messages if message.kind == "task_end" and message.task == task)


def _reason(message: ChatMessage) -> str:
    """Return why a step failed; the reasons for unread documents are given only once, at the end of the round."""
    unread = [document.document_name for document in message.unread if document.code != PARTLY]
    notes = message.findings[len(message.unread[:MAX_NOTES]) :]
    return " ".join((*_unread_sentence(unread), *notes)) or message.summary


def _unread_sentence(unread: Sequence[str]) -> Iterator[str]:
    if unread:
        more = f" and {len(unread) - MAX_NAMED} more" if len(unread) > MAX_NAMED else ""
        yield f"Nothing could be read of {', '.join(map(repr, unread[:MAX_NAMED]))}{more}."
