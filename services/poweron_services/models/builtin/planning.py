"""Planning: one task that finds the answer and, where a file or a report is asked for, one that writes it."""

import orjson

from poweron_events.planning import TaskPlan
from poweron_services.models.builtin import intent
from poweron_services.models.prompts import PlanningPrompt

MAX_OBJECTIVE = 1_500  # characters of the request that an objective repeats
ANSWERED = "The answer is stated with its source, or it is said that the documents do not hold it."
SUMMED_UP = "The main facts and statements of the documents are put together, each with its source."
REPORT_WRITTEN = "A report is written as a document of its own."
WRITE_REPORT = "Write the report as a document"
WRITE_AS = "Write the result as"


def plan(prompt: PlanningPrompt) -> str:
    """The tasks of the round."""
    request = prompt.user_prompt
    tasks = [_work(request), *_formatting(request, {line.name for line in prompt.actions})]
    return orjson.dumps({"tasks": [task.model_dump(mode="json", by_alias=True) for task in tasks]}).decode()


def _work(request: str) -> TaskPlan:
    kind = intent.task_type(request)
    return TaskPlan(
        objective=f"Find out from the documents: {request.strip()[:MAX_OBJECTIVE]}",
        success_criteria=(SUMMED_UP if kind == "report" else ANSWERED,),
        task_type=kind,
    )


def _formatting(request: str, actions: set[str]) -> list[TaskPlan]:
    """The last task, of one step: the report or the file that the request asks for."""
    wanted = intent.wanted_format(request)
    if wanted in ("json", "csv") or (wanted and not intent.wants_report(request)):
        return [
            TaskPlan(
                objective=f"{WRITE_AS} {wanted}: {request.strip()[:MAX_OBJECTIVE]}",
                success_criteria=(f"The result is written as {wanted}.",),
                task_type="transform",
                expected_formats=(wanted,),
                max_steps=1,
            )
        ]
    if intent.wants_report(request) and "document.generateReport" in actions:
        return [
            TaskPlan(
                objective=f"{WRITE_REPORT}: {request.strip()[:MAX_OBJECTIVE]}",
                success_criteria=(REPORT_WRITTEN,),
                task_type="report",
                expected_formats=("markdown",),
                max_steps=1,
            )
        ]
    return []
