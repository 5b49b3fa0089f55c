"""What a round wrote for the user: the files of every task, in order, whose names differ."""

from collections.abc import Sequence
from typing import Any

import pytest

from builders import At, Told, cancellation, document, planned, requested
from poweron_events.event import DocumentRef
from poweron_services.decider.result_files import with_unique_names, written_documents

PROCESS, REPORT = "ai.process", "document.generateReport"


def wrote(at: At, *names: str, action: str = PROCESS, decision: str = "stop") -> list:
    """A step that ended with these files; their ids say where they come from."""
    place = f"t{at.place['task']}n{at.place['attempt']}s{at.place['step']}"
    files = tuple(document(name, document_id=f"{place}d{number}") for number, name in enumerate(names, start=1))
    done = at.done(documents=files)
    return [
        at.selected(action=action),
        at.parameters(),
        at.started(),
        done,
        at.observed(),
        at.refined(decision=decision),
    ]


def round_of(tasks: int = 1) -> Told:
    return Told().tell(requested(max_steps=9), planned(tasks))


def shown(told: Told) -> list[tuple[str, str]]:
    return [(each.document_id, each.document_name) for each in written_documents(told.workflow)]


@pytest.mark.req("L-08")
def test_every_tasks_files_are_there_in_order_and_equal_names_are_told_apart() -> None:
    told = round_of(3).tell(*wrote(At(), "answer.md"), At().reviewed())
    told.tell(*wrote(At(task=2), "answer.md"), At(task=2).reviewed())
    told.tell(*wrote(At(task=3), "report.md", "report.html", action=REPORT))
    assert shown(told) == [
        ("t1n1s1d1", "answer.md"),
        ("t2n1s1d1", "answer (2).md"),
        ("t3n1s1d1", "report.md"),
        ("t3n1s1d2", "report.html"),
    ]


@pytest.mark.req("L-08")
def test_two_steps_of_one_attempt_write_two_files() -> None:
    told = round_of().tell(*wrote(At(1), "answer.md", decision="continue"), *wrote(At(2), "answer.md"))
    assert shown(told) == [("t1n1s1d1", "answer.md"), ("t1n1s2d1", "answer (2).md")]


def test_what_a_further_attempt_wrote_again_takes_the_place_of_what_was_not_good_enough() -> None:
    told = round_of(2).tell(*wrote(At(), "answer.md", decision="continue"), *wrote(At(2), "table.csv"))
    told.tell(At(2).reviewed(status="retry"), *wrote(At(attempt=2), "answer.md"), At(attempt=2).reviewed())
    told.tell(*wrote(At(task=2), "answer.md"))
    assert shown(told) == [("t1n1s2d1", "table.csv"), ("t1n2s1d1", "answer.md"), ("t2n1s1d1", "answer (2).md")]


def test_where_a_task_writes_what_it_only_read_is_none_of_its_files() -> None:
    told = round_of(2).tell(*wrote(At(1), "a.pdf.md", action="document.extract", decision="continue"))
    told.tell(*wrote(At(2), "answer.md"), At(2).reviewed())
    told.tell(*wrote(At(task=2), "b.pdf.md", action="document.extract"))
    assert shown(told) == [("t1n1s2d1", "answer.md"), ("t2n1s1d1", "b.pdf.md")]


def test_the_files_of_tasks_before_the_one_that_failed_are_there() -> None:
    told = round_of(2).tell(*wrote(At(), "answer.md"), At().reviewed(), *wrote(At(task=2), "half.md"))
    told.tell(At(task=2).reviewed(status="failed", reason="Half of it is missing."))
    assert shown(told) == [("t1n1s1d1", "answer.md"), ("t2n1s1d1", "half.md")]


@pytest.mark.parametrize(
    ("worked", "files"), [({}, [("t1n1s1d1", "answer.md")]), ({"success": False, "outcome": "failed"}, [])]
)
def test_a_file_that_was_written_while_the_round_was_stopped_is_there_where_its_step_worked(
    worked: dict[str, Any], files: list[tuple[str, str]]
) -> None:
    *before, done, _, _ = wrote(At(), "answer.md")
    assert shown(round_of().tell(*before, cancellation(), done.model_copy(update=worked))) == files


@pytest.mark.parametrize(
    ("names", "apart"),
    [
        (["a.md", "a.md", "a.md"], ["a.md", "a (2).md", "a (3).md"]),
        (["a.md", "a (2).md", "a.md"], ["a.md", "a (2).md", "a (3).md"]),
        (["a.md", "a.md", "a (2).md"], ["a.md", "a (2).md", "a (2) (2).md"]),
        (["Plan.md", "plan.md"], ["Plan.md", "plan (2).md"]),
        (["notes", "notes", ".env", ".env"], ["notes", "notes (2)", ".env", ".env (2)"]),
        (["x" * 251 + ".pdf"] * 2, ["x" * 251 + ".pdf", "x" * 247 + " (2).pdf"]),
        (["x." + "y" * 253] * 2, ["x." + "y" * 253, "x." + "y" * 249 + " (2)"]),
    ],
)
def test_no_two_documents_have_one_name(names: Sequence[str], apart: Sequence[str]) -> None:
    documents: list[DocumentRef] = [document(name, document_id=f"d{at}") for at, name in enumerate(names)]
    assert [each.document_name for each in with_unique_names(documents)] == apart
    assert [each.document_id for each in with_unique_names(documents)] == [each.document_id for each in documents]
