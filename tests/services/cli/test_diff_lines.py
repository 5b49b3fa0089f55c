"""What `poweron diff` prints of where two workflows part: words in place of data."""

from typing import Any

import pytest

from builders import At, completed, document, planned, requested, step
from poweron_events.stream import WorkflowEvent
from poweron_services.cli.fork_commands import divergence_lines
from poweron_services.fork.run_comparison import compare


def lines(a: list[WorkflowEvent], b: list[WorkflowEvent]) -> list[str]:
    parted = compare(a, b).divergence
    assert parted is not None
    return list(divergence_lines(parted))


def opened(tasks: int = 1) -> list[WorkflowEvent]:
    return [requested(), planned(tasks)]


def test_of_parameters_those_that_differ_are_shown() -> None:
    def given(**parameters: Any) -> list[WorkflowEvent]:
        return [*opened(), At().selected(), At().parameters(parameters=parameters)]

    same = {"documentList": ["docList:round1_request"], "includeMetadata": True}
    assert lines(given(aiPrompt="What?", **same), given(aiPrompt="Who?", formats=["md", "csv"], **same)) == [
        "They first differ in round 1, task 1, attempt 1, step 1, by the parameters of the action.",
        "  A  aiPrompt: What?; formats: not given",
        "  B  aiPrompt: Who?; formats: md, csv",
    ]


def test_what_was_given_and_answered_differs_first_and_last_although_the_steps_are_the_same() -> None:
    def run(prompt: str, answer: str, *documents: Any) -> list[WorkflowEvent]:
        return [requested(prompt=prompt, documents=documents), planned(), completed(message=answer)]

    letter, same_size = document("letter.txt"), document("letter.txt", content="b" * 64)
    a, b = run("When?", "In May.", letter), run("When?", "In June.", same_size)
    assert lines(run("When?", "In May.", letter, letter), a)[1:] == [
        f"  A  letter.txt ({letter.size} bytes); letter.txt ({letter.size} bytes)",
        f"  B  letter.txt ({letter.size} bytes)",
    ]
    assert lines(a, b) == ["They first differ in round 1, by the answer.", "  A  In May.", "  B  In June."]
    assert compare(a, b).summary == "Same steps, different answers"
    parted = compare(a, b, {letter.content, same_size.content})
    assert parted.summary == "Same steps, different documents and answers"
    assert parted.divergence is not None
    assert [*divergence_lines(parted.divergence)] == [
        "They first differ in round 1, by the documents.",
        *(f"  {name}  letter.txt ({letter.size} bytes, other content)" for name in "AB"),
    ]
    asked = compare(a, run("When then?", "In May.", letter))
    assert (asked.different, asked.summary) == (["request"], "Same steps, different requests")
    assert (compare(a, a).same, compare(a, a).summary) == (True, "Both did the same")


def test_where_one_goes_on_and_the_other_does_not_its_place_is_told_in_words() -> None:
    goes_on = [*opened(), *step(1, decision="continue"), At(2).selected()]
    assert lines(goes_on, [*opened(), *step(1, decision="continue"), At(1, task=2).selected()]) == [
        "They first differ in round 1, task 1, attempt 1, step 2, by how far they go.",
        "  A  round 1, task 1, attempt 1, step 2: action document.extract",
        "  B  round 1, task 2, attempt 1, step 1: action document.extract",
    ]
    assert lines([*opened(), *step(1, decision="continue")], goes_on)[1:] == [
        "  A  nothing more",
        "  B  round 1, task 1, attempt 1, step 2: action document.extract",
    ]


@pytest.mark.parametrize(
    ("code", "told"),
    [("fork_needs_live", "failed in stage observe (fork_needs_live)"), (None, "failed in stage observe")],
)
def test_other_differences_are_words_too(code: str | None, told: str) -> None:
    assert lines(opened(1), opened(2)) == [
        "They first differ in round 1, by how far they go.",
        "  A  1 task",
        "  B  2 tasks",
    ]
    begun = [*opened(), At().selected()]
    stopped = lines([*begun, At().failed("observe", "It stops.", code)], [*begun, At().failed("refine", "Why?", "x")])
    assert stopped == [
        "They first differ in round 1, task 1, attempt 1, step 1, by the outcome.",
        f"  A  {told}",
        "  B  failed in stage refine (x)",
    ]
    gone = lines([*begun, At().failed("observe", "It stops.", code)], [*begun, At().parameters()])
    assert gone == [
        "They first differ in round 1, task 1, attempt 1, step 1, by how far they go.",
        f"  A  round 1, task 1, attempt 1, step 1: {told}",
        "  B  round 1, task 1, attempt 1, step 1: parameters documentList: docList:round1_request",
    ]


def test_what_is_long_is_cut_and_what_acts_on_a_terminal_is_shown_as_text() -> None:
    def prompted(prompt: str) -> list[WorkflowEvent]:
        return [*opened(), At().selected(), At().parameters(parameters={"aiPrompt": prompt})]

    _, a, b = lines(prompted("x" * 2_500), prompted("red \x1b[31m"))
    assert a == f"  A  aiPrompt: {'x' * 1_990}… (510 more characters)"
    assert "\x1b" not in b
