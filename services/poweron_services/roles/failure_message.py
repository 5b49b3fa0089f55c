"""The message of a failed round, written in code: for users, and for the models of later rounds."""

import structlog

from poweron_events.codes import FOR_PEOPLE
from poweron_events.fold.state import ChatMessage, Workflow
from poweron_events.outcome import (
    MAX_TOLD,
)
from poweron_services.decider.model_reasons import reason_for_models
from poweron_services.decider.size_limits import (
    fitting_text,
)
from poweron_services.decider.written_documents import written_documents
from poweron_services.roles.rejections import rejected_in_full

log = structlog.get_logger()
TOLD_BUDGET = 4_000  # bytes
MAX_DONE = 5  # steps and documents that the message of a failed round names


def failure_message(workflow: Workflow) -> str:
    """Say what went wrong and what the user can do, in whole sentences and without a model: paragraphs in markdown."""
    return _failure(workflow, workflow.current.reason, *_for_people(workflow))


def told_of_failure(workflow: Workflow) -> str | None:
    """The message as models of later rounds see it (S8), or None if they may see all of the user's message."""
    reason, code = workflow.current.reason, workflow.current.code
    if code not in FOR_PEOPLE and not any(_for_people(workflow)):
        return None
    return fitting_told(_failure(workflow, reason_for_models(reason, code)))


def _for_people(workflow: Workflow) -> tuple[str, str]:
    """The reason why the last step failed and the model that gave the answer, where no model may see these."""
    problem = next((step.error for step in reversed(_failed_steps(workflow))), "")
    return problem, rejected_in_full(workflow) if workflow.current.code == "answers_rejected" else ""


def fitting_told(said: str) -> str:
    return fitting_text(said[:MAX_TOLD], TOLD_BUDGET)


def _failed_steps(workflow: Workflow) -> list[ChatMessage]:
    return [message for message in workflow.current.messages if message.kind == "step" and not message.success]


def _failure(workflow: Workflow, why: str, problem: str = "", more: str = "") -> str:
    """Write the message; `problem` replaces the findings of the last failed step, and `more` follows the reason."""
    reason = why.strip() or "A task could not be done."
    done = [message for message in workflow.current.messages if message.kind == "step" and message.success]
    failed = _failed_steps(workflow)
    written = written_documents(workflow)
    stop = "" if reason.endswith((".", "!", "?", "…")) else "."
    paragraphs = [" ".join(filter(None, (f"The request could not be completed. {reason}{stop}", more)))]
    if failed:
        paragraphs.append(f"The last problem met was: {problem or ' '.join(failed[-1].findings) or failed[-1].summary}")
    if done:
        paragraphs += ["Done before that:", "\n".join(f"- {step.summary}" for step in done[-MAX_DONE:])]
    if written:
        names = ", ".join(document.document_name for document in written[-MAX_DONE:])
        paragraphs.append(f"Written before that: {names}.")
    paragraphs.append("The history shows every step.")
    return "\n\n".join(paragraphs)
