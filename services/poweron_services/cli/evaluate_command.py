"""`poweron evaluate`: run a table of requests on models and score the answers, or score a recorded run again."""

import secrets
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from poweron_events.client import Heard
from poweron_events.envelope import rfc3339
from poweron_events.errors import Refused
from poweron_events.step_events import ApprovalRequested
from poweron_services import wiring
from poweron_services.cli import files
from poweron_services.cli.arguments import AsJson
from poweron_services.cli.context import FAILED, NOTHING_YET, USAGE
from poweron_services.cli.error_messages import explained, load_settings, run_work, sentences, stop
from poweron_services.cli.event_lines import tell_how_to_answer
from poweron_services.cli.model_option import built
from poweron_services.cli.output import counted, print_json, printable, stdout, tell
from poweron_services.cli.query_commands import bring_rows_on
from poweron_services.client.ask import File
from poweron_services.client.client_errors import UnknownWorkflow
from poweron_services.client.connect import Connections
from poweron_services.client.workflow_snapshot import recorded_history
from poweron_services.evaluation.evaluation_run import EvaluatedModel, RunCallbacks, ask_all, candidates
from poweron_services.evaluation.run_file import (
    RunAnswer,
    StoredRun,
    TableRequest,
    keep,
    place_of,
    read_run,
    read_table,
)
from poweron_services.evaluation.score_report import report_json, report_markdown
from poweron_services.evaluation.scores import JudgedAnswer, ModelScore, judged, scores
from poweron_services.evaluation.workflow_answer import RecordedAnswer, recorded_answer
from poweron_services.settings.config import Settings
from poweron_services.standalone import check_content, check_files, open_connections

Made = TypeVar("Made")
Asked = list[tuple[TableRequest, list[File]]]


@sentences()
def evaluate(
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Requests and what is expected of them, as JSON Lines.")],
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL", help="A model, named as in POWERON_MODEL; repeatable. Default: the configured one."
        ),
    ] = None,
    repeat: Annotated[int, typer.Option("-n", "--repeat", min=1, max=100, metavar="N", help="Ask each N times.")] = 1,
    at_once: Annotated[int, typer.Option(min=1, max=64, metavar="N", help="At most N requests at once.")] = 4,
    require: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            metavar="SHARE",
            help="Exit 1 if a model has a smaller share of right answers than SHARE, from 0 to 1.",
        ),
    ] = None,
    recorded: Annotated[
        str | None, typer.Option(metavar="RUN", help="Judge this earlier run again, by its file or id; call no model.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a table of requests, and score the answers.

    FILE has one object per line: {"prompt": "…", "documents": ["a.pdf"], "expect": {"contains": ["…"]}}. The keys of
    `expect` are all optional: contains, status, maxSteps, actions. This process asks the models one after the other;
    no other process may serve on the same servers meanwhile. The run is kept in a file beside FILE, for --recorded.

    Exit 0 done, 1 a model scores below --require, 2 wrong usage, 130 stopped by Ctrl-C, 143 by SIGTERM.
    """
    requests = _usable(lambda: read_table(file))
    settings = load_settings()
    if recorded is not None:
        outcome = run_work(_judge_again(settings, requests, _recorded_run(file, recorded, requests, model or [])))
    else:
        run_work(_check_models(settings, model or []))
        models = candidates(settings, model or [])
        questions = [(request, files.read(list(request.documents))) for request in requests]
        outcome = _ask(settings, _Run(file, models), questions, repeat=repeat, at_once=at_once)
    run, model_scores = outcome
    if as_json:
        print_json(report_json(run, model_scores) | {"required": require, "met": _met(model_scores, require)})
    else:
        stdout.print(printable(report_markdown(model_scores)), soft_wrap=True)
    if not _met(model_scores, require):
        tell(_unmet(model_scores, require), style="bold red")
        raise typer.Exit(FAILED)


def _usable(make: Callable[[], Made]) -> Made:
    """Return what `make` builds; if it is refused, end the command, since arguments or settings are wrong."""
    try:
        return make()
    except Refused as error:
        message, code = explained(error)
        stop(message, USAGE, code=code)


async def _check_models(settings: Settings, models: Sequence[str]) -> None:
    """Check that every model can be built, before servers are started; no model is called."""
    async with AsyncExitStack() as stack:
        for name in models:
            built(settings, name, stack)
        if not models:
            _usable(lambda: wiring.build_model(settings, stack))


def _recorded_run(table: Path, recorded: str, requests: Sequence[TableRequest], models: Sequence[str]) -> StoredRun:
    """Return the recorded run; the lines of the table must still ask the same."""
    if models:
        stop("A recorded run asks no model: leave out --model, or leave out --recorded.", USAGE)
    run = _usable(lambda: read_run(table, recorded))
    fingerprints = {request.line: request.fingerprint for request in requests}
    for answer in run.answers:
        if fingerprints.get(answer.line) != answer.fingerprint:
            stop(
                f"Line {answer.line} of {str(table)!r} asks for something different from run {run.run_id}. "
                "The expectations may change between runs, but not the requests: leave out --recorded to ask again.",
                USAGE,
            )
    return run


class _Run:
    """A run in progress, which saves each answer as soon as it arrives."""

    def __init__(self, table: Path, models: Sequence[EvaluatedModel]) -> None:
        now = datetime.now(UTC)
        self.table = table
        self.chosen = models
        self.kept = StoredRun(
            run_id=f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}",
            table=table.name,
            began=rfc3339(now),
            worker=wiring.process_name(),
            models=tuple(model.name for model in models),
        )
        self.place = place_of(table, self.kept.run_id)

    def keep(self) -> None:
        try:
            keep(self.table, self.kept)
        except OSError as error:
            stop(
                f"The run cannot be kept beside its table, as {str(self.place)!r}: {error.strerror}. Move the table to "
                "a folder that can be written to.",
                USAGE,
            )

    def answered(self, answer: RunAnswer) -> None:
        self.kept = self.kept.model_copy(update={"answers": (*self.kept.answers, answer)})
        self.keep()
        status = "no answer" if answer.trouble else "answered"
        tell(f"{answer.model}: line {answer.line} {status}, workflow {answer.workflow_id or 'never sent'}")


def _ask(
    settings: Settings, running: _Run, questions: Asked, *, repeat: int, at_once: int
) -> tuple[StoredRun, list[ModelScore]]:
    running.keep()
    tell(
        f"Run {running.kept.run_id}: {counted(len(questions) * repeat * len(running.chosen), 'request')}.", style="bold"
    )
    return run_work(
        _ask_models(settings, running, questions, repeat=repeat, at_once=at_once), partial(_interruption, running)
    )


def _interruption(running: _Run) -> str:
    if not running.kept.answers:
        return NOTHING_YET
    return (
        f"Stopped. {counted(len(running.kept.answers), 'answer')} kept in {str(running.place)!r}: "
        f"`poweron evaluate {running.table} --recorded {running.kept.run_id}` judges them."
    )


async def _ask_models(
    settings: Settings, running: _Run, questions: Asked, *, repeat: int, at_once: int
) -> tuple[StoredRun, list[ModelScore]]:
    await check_content(settings)
    check_files(settings)
    callbacks = RunCallbacks(tell, _tell_waiting, running.answered)
    async with open_connections(settings, tell) as connections:
        for model in running.chosen:
            await ask_all(connections, model, questions, repeat=repeat, at_once=at_once, callbacks=callbacks)
        tell(f"Kept: {running.place}")
        return running.kept, await _scores(connections, running.kept, [request for request, _ in questions])


async def _judge_again(
    settings: Settings, requests: Sequence[TableRequest], run: StoredRun
) -> tuple[StoredRun, list[ModelScore]]:
    """Score a recorded run, without calling models or serving requests."""
    async with open_connections(settings, tell) as connections:
        await bring_rows_on(connections)
        return run, await _scores(connections, run, requests)


async def _scores(connections: Connections, run: StoredRun, requests: Sequence[TableRequest]) -> list[ModelScore]:
    expectations = {request.line: request.expect for request in requests}
    answers: list[JudgedAnswer] = [
        judged(run, answer, expectations[answer.line], await _answer(connections, answer.workflow_id))
        for answer in run.answers
    ]
    return scores(run, sorted(answers, key=lambda answer: (answer.kept.line, answer.kept.repetition)))


async def _answer(connections: Connections, workflow_id: str | None) -> RecordedAnswer | None:
    if workflow_id is None:
        return None
    try:
        history = await recorded_history(connections, workflow_id)
    except UnknownWorkflow:
        return None
    return await recorded_answer(history, connections.content)


def _tell_waiting(record: Heard) -> None:
    """Report an action that waits for approval; without an answer the run would wait until the approval expires."""
    if isinstance(record.event, ApprovalRequested) and record.verdict == "accepted":
        tell(f"Workflow {record.workflow.id} waits for an approval.", style="yellow")
        tell_how_to_answer(record.workflow.id)


def _met(model_scores: Sequence[ModelScore], require: float | None) -> bool:
    return require is None or all(score.share is not None and score.share >= require for score in model_scores)


def _unmet(model_scores: Sequence[ModelScore], require: float | None) -> str:
    below = [score for score in model_scores if not _met([score], require)]
    names = ", ".join(
        f"{score.model} ({'nothing' if score.share is None else f'{score.share:.0%}'})" for score in below
    )
    return f"Fewer answers are right than the {require:.0%} that are required: {names}."
