"""What a person can do after a failed round: decided by what the fold knows of how it ended (L-10)."""

from typing import Final

from poweron_events.errors import CONTENT_STORE
from poweron_events.execution import ApprovalDenied
from poweron_events.fold.evolve import MAX_REFUSALS, TIME_IS_OVER
from poweron_events.fold.state import Workflow, max_steps
from poweron_services.decider.rules import step_limit, tells_of_a_budget, used_up

LARGER_BUDGET: Final = "Ask again with a larger budget{options}."
MORE_STEPS: Final = "Ask again with more steps (`--max-steps`)."
LESS_AT_ONCE: Final = "Ask again for less at once."
APPROVED: Final = "Ask again once the action may be approved."
IN_TIME: Final = "Ask again and have the action approved in time."
CHECK_MODEL: Final = "`poweron models check` says whether the model works; ask again once it does."
CHECK_STORE: Final = "See that the content store (POWERON_CONTENT) can be reached; ask again once it can."
CHANGE_REQUEST: Final = "Change the request or its documents and ask again."


def advice(workflow: Workflow) -> str:
    """One sentence that fits the reason why the round failed."""
    if _lacks_budget(workflow):
        return LARGER_BUDGET.format(options=_options(workflow))
    if workflow.current.reason == TIME_IS_OVER:
        return LESS_AT_ONCE
    if not _was_reviewed(workflow):
        if CONTENT_STORE in workflow.current.reason:
            return CHECK_STORE
        return CHANGE_REQUEST if _observes(workflow) else CHECK_MODEL
    return _after_review(workflow)


def _after_review(workflow: Workflow) -> str:
    match workflow.step.answer:
        case ApprovalDenied(request=None):
            return IN_TIME
        case ApprovalDenied():
            return APPROVED
    if _talks_nonsense(workflow):
        return CHECK_MODEL
    return MORE_STEPS if workflow.task.stopped == step_limit(max_steps(workflow)) else CHANGE_REQUEST


def _lacks_budget(workflow: Workflow) -> bool:
    """Whether a budget is used up, or holds no further prompt, which only the reason tells."""
    return used_up(workflow, for_a_step=True) is not None or tells_of_a_budget(workflow.current.reason)


def _options(workflow: Workflow) -> str:
    """Those of the command line that set a budget which this round has; others are set by programs only."""
    budgets = workflow.current.opening.budgets
    options = {"`--max-tokens`": budgets.workflow_tokens, "`--max-cost`": budgets.workflow_cost_nano_usd}
    given = ", ".join(option for option, limit in options.items() if limit is not None)
    return f" ({given})" if given else ""


def _was_reviewed(workflow: Workflow) -> bool:
    """Whether the round ended with the judgement of its task; else a stage could not be done at all."""
    last = workflow.current.messages[-1]
    return last.kind == "task_end" and (last.round, last.task, last.attempt) == workflow.place[:3]


def _observes(workflow: Workflow) -> bool:
    """Whether a result waits to be observed, which takes no model."""
    task = workflow.current.task
    return task is not None and task.step.completed is not None and task.step.observation is None


def _talks_nonsense(workflow: Workflow) -> bool:
    """Whether answers of the model to the task at hand had to be refused for good."""
    place = workflow.place[:3]
    refused = [event for event in workflow.current.rejected if (event.round, event.task, event.attempt) == place]
    return workflow.task.refused is not None or any(event.try_ >= MAX_REFUSALS for event in refused)
