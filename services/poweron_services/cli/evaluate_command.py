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
from poweron_events.execution import ApprovalRequested
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
from poweron_services.client.workflow_history import recorded_history
from poweron_services.evaluation.evaluation_run import EvaluatedModel, RunCallbacks, ask_all, candidates
from poweron_services.evaluation.request_table import TableRequest, read_table
from poweron_services.evaluation.run_file import KeptAnswer, KeptRun, keep, place_of, read_run
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
        found = run_work(_judge_again(settings, requests, _kept(file, recorded, requests, model or [])))
    else:
        run_work(_check_models(settings, model or []))
        chosen = candidates(settings, model or [])
        asked = [(each, files.read(list(each.documents))) for each in requests]
        found = _ask(settings, _Run(file, chosen), asked, repeat=repeat, at_once=at_once)
    kept, told = found
    if as_json:
        print_json(report_json(kept, told) | {"required": require, "met": _met(told, require)})
    else:
        stdout.print(printable(report_markdown(told)), soft_wrap=True)
    if not _met(told, require):
        tell(_unmet(told, require), style="bold red")
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
    async with AsyncExitStack() as opened:
        for name in models:
            built(settings, name, opened)
        if not models:
            _usable(lambda: wiring.build_model(settings, opened))


def _kept(table: Path, recorded: str, requests: Sequence[TableRequest], models: Sequence[str]) -> KeptRun:
    """Return the recorded run; the lines of the table must still ask the same."""
    if models:
        stop("A recorded run asks no model: leave out --model, or leave out --recorded.", USAGE)
    run = _usable(lambda: read_run(table, recorded))
    asked = {each.line: each.fingerprint for each in requests}
    for each in run.answers:
        if asked.get(each.line) != each.fingerprint:
            stop(
                f"Line {each.line} of {str(table)!r} asks for something different from run {run.run_id}. "
                "The expectations may change between runs, but not the requests: leave out --recorded to ask again.",
                USAGE,
            )
    return run


class _Run:
    """A run in progress, which saves each answer as soon as it arrives."""

    def __init__(self, table: Path, chosen: Sequence[EvaluatedModel]) -> None:
        now = datetime.now(UTC)
        self.table = table
        self.chosen = chosen
        self.kept = KeptRun(
            run_id=f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}",
            table=table.name,
            began=rfc3339(now),
            worker=wiring.process_name(),
            models=tuple(each.name for each in chosen),
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

    def answered(self, answer: KeptAnswer) -> None:
        self.kept = self.kept.model_copy(update={"answers": (*self.kept.answers, answer)})
        self.keep()
        what = "no answer" if answer.trouble else "answered"
        tell(f"{answer.model}: line {answer.line} {what}, workflow {answer.workflow_id or 'never sent'}")


def _ask(
    settings: Settings, running: _Run, asked: Asked, *, repeat: int, at_once: int
) -> tuple[KeptRun, list[ModelScore]]:
    running.keep()
    tell(f"Run {running.kept.run_id}: {counted(len(asked) * repeat * len(running.chosen), 'request')}.", style="bold")
    return run_work(_asked(settings, running, asked, repeat=repeat, at_once=at_once), partial(_stopped, running))


def _stopped(running: _Run) -> str:
    if not running.kept.answers:
        return NOTHING_YET
    return (
        f"Stopped. {counted(len(running.kept.answers), 'answer')} kept in {str(running.place)!r}: "
        f"`poweron evaluate {running.table} --recorded {running.kept.run_id}` judges them."
    )


async def _asked(
    settings: Settings, running: _Run, asked: Asked, *, repeat: int, at_once: int
) -> tuple[KeptRun, list[ModelScore]]:
    await check_content(settings)
    check_files(settings)
    callbacks = RunCallbacks(tell, _tell_waiting, running.answered)
    async with open_connections(settings, tell) as connections:
        for each in running.chosen:
            await ask_all(connections, each, asked, repeat=repeat, at_once=at_once, callbacks=callbacks)
        tell(f"Kept: {running.place}")
        return running.kept, await _scores(connections, running.kept, [request for request, _ in asked])


async def _judge_again(
    settings: Settings, requests: Sequence[TableRequest], run: KeptRun
) -> tuple[KeptRun, list[ModelScore]]:
    """Score a recorded run, without calling models or serving requests."""
    async with open_connections(settings, tell) as connections:
        await bring_rows_on(connections)
        return run, await _scores(connections, run, requests)


async def _scores(connections: Connections, run: KeptRun, requests: Sequence[TableRequest]) -> list[ModelScore]:
    expected = {each.line: each.expect for each in requests}
    answers: list[JudgedAnswer] = [
        judged(run, each, expected[each.line], await _answer(connections, each.workflow_id)) for each in run.answers
    ]
    return scores(run, sorted(answers, key=lambda each: (each.kept.line, each.kept.repetition)))


async def _answer(connections: Connections, workflow_id: str | None) -> RecordedAnswer | None:
    if workflow_id is None:
        return None
    try:
        history = await recorded_history(connections, workflow_id)
    except UnknownWorkflow:
        return None
    return await recorded_answer(history, connections.content)


def _tell_waiting(heard: Heard) -> None:
    """Report an action that waits for approval; without an answer the run would wait until the approval expires."""
    if isinstance(heard.event, ApprovalRequested) and heard.verdict == "accepted":
        tell(f"Workflow {heard.workflow.id} waits for an approval.", style="yellow")
        tell_how_to_answer(heard.workflow.id)


def _met(told: Sequence[ModelScore], require: float | None) -> bool:
    return require is None or all(each.share is not None and each.share >= require for each in told)


def _unmet(told: Sequence[ModelScore], require: float | None) -> str:
    below = [each for each in told if not _met([each], require)]
    names = ", ".join(f"{each.model} ({'nothing' if each.share is None else f'{each.share:.0%}'})" for each in below)
    return f"Fewer answers are right than the {require:.0%} that are required: {names}."
