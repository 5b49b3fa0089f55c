"""What did not work on the way to a result: the steps of a task that failed, and what its reviews said."""

from collections.abc import Iterator, Sequence
from typing import Final

from poweron_events.fold.state import ChatMessage, Workflow
from poweron_events.observation import MAX_NOTES
from poweron_services.decider.defaults import own_language
from poweron_services.decider.unread_documents import PARTLY

_NONE_WORKED: Final = {"en": "No step of this round worked:", "de": "Kein Schritt dieser Runde hat funktioniert:"}
MAX_NAMED: Final = 5  # documents that could not be read; the end of the round names more of them


def failed_steps(workflow: Workflow, task: int) -> tuple[str, ...]:
    """The steps of the task that failed, whichever attempt they belong to, and why, in order."""
    return tuple(
        f"attempt {message.attempt}, step {message.step}, {message.action} failed: {_why(message)}"
        for message in workflow.current.messages
        if message.kind == "step" and message.task == task and not message.success
    )


def without_success(workflow: Workflow) -> str:
    """The paragraph that no step of the round worked, and why; empty where one did, or there was none.

    Steps that could read no document are told by the documents themselves.
    """
    steps = [message for message in workflow.current.messages if message.kind == "step"]
    failed = [f"- {message.summary}" for message in steps if not message.unread]
    if not failed or any(message.success for message in steps):
        return ""
    return f"{_NONE_WORKED[own_language(workflow)]}\n\n" + "\n".join(dict.fromkeys(failed))


def reviews(workflow: Workflow, task: int) -> tuple[str, ...]:
    """What the reviews of the task said, the last one first."""
    messages = reversed(workflow.current.messages)
    return tuple(message.message for message in messages if message.kind == "task_end" and message.task == task)


def _why(message: ChatMessage) -> str:
    """Why a step failed; why a document could not be read is told by the end of the round, and not twice."""
    unread = [document.document_name for document in message.unread if document.code != PARTLY]
    notes = message.findings[len(message.unread[:MAX_NOTES]) :]
    return " ".join((*_named(unread), *notes)) or message.summary


def _named(unread: Sequence[str]) -> Iterator[str]:
    if unread:
        more = f" and {len(unread) - MAX_NAMED} more" if len(unread) > MAX_NAMED else ""
        yield f"Nothing could be read of {', '.join(map(repr, unread[:MAX_NAMED]))}{more}."
