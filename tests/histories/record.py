"""Records the histories of a release, once: uv run python tests/histories/record.py v0.2.0

A recorded history is sacred: every later release replays it. So this writes only into a folder that does not exist.
Each line is a record's value and its verdict; the last one says how the workflow stands then.
What the roles showed to models, and what those answered, stands beside the runs, so that they can be replayed.
Some stories are told here event by event, for what happens rarely; `recorded.py` has those that the roles themselves
wrote.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

import orjson

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from recorded import RUNS, recorded_with_contents  # noqa: E402

from builders import At, Told, cancellation, completed, follow_up, planned, refused, requested, reviewed, step  # noqa: E402
from poweron_events.fold.state import Workflow  # noqa: E402
from poweron_events.round_events import DeadlinePassed, RoundCancelled, RoundFailed, Totals  # noqa: E402
from story import Story, given  # noqa: E402

AT = At()
SORTED = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS
TOTALS = Totals(steps=1, input_tokens=100, output_tokens=20, cost_nano_usd=3_000)
RETRY = {"decision": "continue", "classification": "retry", "improvements": ("Read the table.",)}


def react_success() -> Story:
    asked = requested(
        prompt="Wie hoch ist die Gesamtsumme der Schätzung, und was wurde repariert? 🧾", user_language="de"
    )
    story = given(asked, planned(2), *step(decision="continue", hint="Look at page 2."), *step(2), reviewed())
    return story.given(*step(task=2), reviewed(task=2), completed(message="Die Gesamtsumme beträgt 42 €."))


def retries() -> Story:
    story = given(requested(max_retries=2), planned(), *step()[:-1], AT.refined(**RETRY), *step(2))
    story.given(reviewed(status="retry", reason="Page 2 is missing."), *step(attempt=2))
    story.when(reviewed(attempt=2, status="retry", reason="Still missing."))
    return story.given(failed("Still missing."))


def refusals() -> Story:
    story = given(requested(), planned(), AT.selection_rejected(), AT.selected())
    story.given(AT.parameters_rejected(), AT.parameters_rejected(2), refused())
    return story.given(reviewed(status="failed", reason="Refused twice."), failed("Refused twice."))


def cancelled_while_an_action_runs() -> Story:
    story = given(requested(), planned(), AT.selected(), AT.parameters(), AT.started(), cancellation())
    story.when(AT.started(2)).when(DeadlinePassed(round=1, due_ms=0)).given(AT.done())
    end = RoundCancelled(round=1, message="The round was cancelled.", totals=TOTALS, reason="No longer needed.")
    return story.when(AT.observed()).given(end).when(cancellation(request_id="late"))


def deadline() -> Story:
    story = given(requested(deadline_ms=1_000), planned(), DeadlinePassed(round=1, due_ms=1_000))
    return story.when(AT.selected()).given(failed("The time for this round is over."))


def follow_up_round() -> Story:
    story = given(requested(), planned(), *step(), reviewed(), completed(), follow_up())
    story.when(follow_up(request_id="rival")).when(completed(1))
    story.given(planned(round_number=2), *step(round_number=2), reviewed(round_number=2))
    return story.given(completed(2, "The roof was repaired."))


def competing_workers() -> Story:
    story = given(requested(), planned(), AT.selected(), AT.parameters())
    ready = story.workflow.head
    story.given(AT.started(claim="first")).when(AT.started(claim="second"), cause=ready)
    story.given(AT.started(2, claim="third"), AT.done(1)).when(AT.done(2))
    story.given(AT.observed()).when_written(story.told.values[4])
    return story.given(AT.refined(), reviewed(), completed())


def actionplan() -> Story:
    story = given(requested(workflow_mode="Actionplan"), planned(), AT.actions_planned(2))
    for number in (1, 2):
        story.given(*step(number)[:-1])
    return story.given(reviewed(), completed())


def approval() -> Story:
    story = given(requested(), planned(), AT.selected(), AT.parameters(), AT.approval_requested())
    story.when(AT.started()).given(AT.approval_granted()).when(AT.approval_denied("6"))
    return story.given(AT.started(), AT.done(), AT.observed(), AT.refined(), reviewed(), completed())


def stage_failed() -> Story:
    return given(requested(), planned(), AT.failed("select"), failed("The model does not answer."))


def rejected_answers() -> Story:
    story = given(requested(), At(0, 0, 0).rejected("plan"), planned(), *step()[:-1], AT.rejected("refine"))
    story.when(AT.rejected("refine")).given(AT.rejected("refine", 2), AT.refined(decided_by="guard", model_call=None))
    story.given(AT.rejected("review"), AT.rejected("review", 2), reviewed(decided_by="guard", model_call=None))
    return story.given(completed())


def failed(reason: str) -> RoundFailed:
    return RoundFailed(round=1, message=f"The request could not be completed. {reason}", totals=TOTALS, reason=reason)


STORIES = (
    react_success,
    retries,
    refusals,
    cancelled_while_an_action_runs,
    deadline,
    follow_up_round,
    competing_workers,
    actionplan,
    approval,
    stage_failed,
    rejected_answers,
)


def standing(workflow: Workflow) -> dict[str, object]:
    """How a workflow stands, in what a later release must find again."""
    round_ = workflow.current
    return {
        "phase": workflow.phase,
        "openings": list(workflow.openings),
        "seq": workflow.seq,
        "ending": round_.ending,
        "reason": round_.reason,
        "totals": round_.totals.model_dump(by_alias=True),
        "messages": [[message.seq, message.kind, message.message] for message in round_.messages],
    }


def lines(told: Told) -> Iterable[dict[str, object]]:
    for value, verdict in zip(told.values, told.verdicts, strict=True):
        yield {"value": value.decode(), "verdict": verdict}
    yield standing(told.workflow)


def record(folder: Path) -> None:
    folder.mkdir(parents=True)  # fails where there is one: a recorded history is never written again
    for story in STORIES:
        write(folder / f"{story.__name__}.jsonl", story().told)
    (folder / "contents").mkdir()
    for name in RUNS:
        told, texts = recorded_with_contents(name)
        write(folder / f"run_{name}.jsonl", told)
        (folder / "contents" / f"run_{name}.json").write_bytes(orjson.dumps(texts, option=SORTED) + b"\n")


def write(path: Path, told: Told) -> None:
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines(told)))


if __name__ == "__main__":
    record(HERE / sys.argv[1])
