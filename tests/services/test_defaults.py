"""What code fills in where neither the request nor the model says it."""

from typing import Any

import pytest

from builders import CALL, Told, requested
from poweron_events.planning import TaskPlan, TasksPlanned
from poweron_services.decider.defaults import defaults, language


def task(task_type: Any = "lookup", criterion: str = "The total is named", **fields: Any) -> Told:
    plan = TaskPlan(objective="Find it", success_criteria=(criterion,), task_type=task_type, **fields)
    told = Told().tell(requested(user_language="de"))
    return told.tell(TasksPlanned(round=1, tasks=(plan,), model_call=CALL))


@pytest.mark.req("D-02")
@pytest.mark.parametrize(
    ("task_type", "depth"),
    [("analysis", "advanced"), ("report", "advanced"), ("lookup", "basic"), ("transform", "basic")],
)
def test_searches_go_deep_only_where_the_task_needs_it(task_type: str, depth: str) -> None:
    assert defaults("web.search", task(task_type).workflow) == {"searchDepth": depth, "language": "de"}


@pytest.mark.req("D-02")
@pytest.mark.parametrize("criterion", ["The latest price is named", "Der aktuelle Preis steht da", "As of today"])
def test_recency_is_added_only_where_the_criteria_imply_it(criterion: str) -> None:
    assert defaults("web.scrape", task(criterion=criterion).workflow)["timeRange"] == "month"


@pytest.mark.req("D-03")
@pytest.mark.parametrize(
    ("formats", "filled"), [((), []), (("docx",), []), (("json",), ["json"]), (("md", "csv"), ["csv"])]
)
def test_machine_readable_output_only_where_the_task_demands_it(formats: Any, filled: list[str]) -> None:
    assert defaults("ai.process", task(expected_formats=formats).workflow) == {"expectedDocumentFormats": filled}


@pytest.mark.req("D-01")
def test_the_users_language_is_that_of_the_request_else_of_the_requester() -> None:
    assert language(Told().tell(requested(user_language="fr", requester={"language": "de"})).workflow) == "fr"
    assert language(Told().tell(requested(requester={"language": "de"})).workflow) == "de"
    assert language(Told().tell(requested()).workflow) is None
