"""`poweron fork` and `poweron diff`: run a workflow again from one of its events, and compare two workflows."""

from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Annotated, Any

import typer
from rich.table import Table

from poweron_events.errors import Refused
from poweron_events.event import NANO, RECORDED
from poweron_events.request import MAX_PROMPT
from poweron_projections.reader import judged_records
from poweron_services import telemetry
from poweron_services.cli import files
from poweron_services.cli.arguments import AsJson, NoServe, WorkflowId
from poweron_services.cli.ask_command import (
    OUTPUT,
    AskProgress,
    Shown,
    exit_code,
    outcome_json,
    print_outcome,
)
from poweron_services.cli.context import FAILED, USAGE
from poweron_services.cli.error_messages import check_id, load_settings, run_work, sentence, sentences, stop
from poweron_services.cli.event_lines import tell_quota_reached, tell_untaken
from poweron_services.cli.output import counted, print_json, printable, stdout, tell
from poweron_services.cli.progress_bar import watching_progress
from poweron_services.client.connect import Connections
from poweron_services.client.event_words import shown_value
from poweron_services.client.follow import Callbacks
from poweron_services.client.fork_request import Forked, ForkWish
from poweron_services.client.workflow_snapshot import read_snapshot, verified_records
from poweron_services.fork.original import AcceptedEvent, accepted
from poweron_services.fork.run_comparison import Comparison, Divergence, RunCost, compare
from poweron_services.fork.run_documents import changed_documents
from poweron_services.settings.config import Settings
from poweron_services.standalone import check_content, open_connections, run_fork

NOTHING_LEFT = (
    "The workflow ended with that event: the fork repeats all of it, and there is nothing left to decide. "
    "Use an earlier `--at`."
)

WIDE = 2_000  # characters of a value that are shown
NOT_GIVEN = "not given"


def fork(
    *,
    workflow: WorkflowId,
    at: Annotated[int, typer.Option("--at", min=0, max=2**31 - 1, metavar="SEQ", help="The last event to take over.")],
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="The model that decides from there on; it must be configured.")
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A new prompt; --at must be before the tasks are planned.")
    ] = None,
    max_steps: Annotated[
        int | None, typer.Option(min=1, max=100, metavar="N", help="At most N steps per task.")
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Run actions that have no recorded result.")] = False,
    no_serve: NoServe = False,
    as_json: AsJson = False,
) -> None:
    """Start a new workflow from an event of another one.

    Up to SEQ (`poweron events` shows it), answers and results are reused at no cost; from there, models decide again.
    After that, the result of an action with the same parameters is still reused; at any other action the fork stops,
    unless --live runs it. An action whose effect must not happen twice is never run.

    Exit 0 completed, 1 failed, 2 wrong usage, 3 cancelled, 130 stopped by Ctrl-C, 143 by SIGTERM.
    """
    wish = ForkWish(workflow, at, prompt=prompt, max_steps=max_steps, live=live, model=model)
    serving = not no_serve
    progress = AskProgress()
    with sentences():
        _check(wish)
        settings = load_settings(telemetry.StageWaitReporter(progress.waits))
        if serving:
            _check_models(settings, model)
        forked, documents = run_work(
            _fork(settings, wish, serving=serving, progress=progress), partial(progress.interrupted, serving=serving)
        )
        if as_json:
            print_json(_json(forked, documents, progress))
        else:
            _print(forked, documents, progress)
    raise typer.Exit(exit_code(forked.outcome, documents))


def _check(wish: ForkWish) -> None:
    """End the command with a sentence if an argument is invalid."""
    check_id(wish.workflow)
    if wish.prompt is not None and not wish.prompt.strip():
        stop("The prompt is empty. Leave `--prompt` out to keep the one of the workflow.", USAGE)
    if wish.prompt is not None and len(wish.prompt) > MAX_PROMPT:
        stop(f"The prompt has {len(wish.prompt):,} characters; at most {MAX_PROMPT:,} are allowed.", USAGE)


def _check_models(settings: Settings, model: str | None) -> None:
    """End the command, before anything is opened, if a setting is missing that a model needs."""
    from poweron_services.cli.model_option import check_nameable  # noqa: PLC0415 - what was typed is checked before
    from poweron_services.wiring import build_model  # noqa: PLC0415 - as above

    if model is not None:
        check_nameable(settings, model)
    try:
        build_model(settings, AsyncExitStack())
    except Refused as error:
        stop(sentence(error), USAGE, code=error.code)


async def _fork(settings: Settings, wish: ForkWish, *, serving: bool, progress: AskProgress) -> tuple[Forked, Shown]:
    await check_content(settings)
    async with open_connections(settings, tell) as connections:
        async with watching_progress(connections.progress) as progress.watch:
            callbacks = Callbacks(progress.heard, progress.requested, tell_untaken, quota_reached=tell_quota_reached)
            forked = await run_fork(connections, wish, serving=serving, callbacks=callbacks, progress=tell)
        outcome = forked.outcome
        folder = OUTPUT / outcome.workflow_id
        return forked, await files.write(connections, outcome.workflow_id, outcome.documents, folder)


def _json(forked: Forked, documents: Shown, progress: AskProgress) -> dict[str, Any]:
    return {
        **outcome_json(forked.outcome, documents, progress.models),
        "forkedFrom": forked.plan.forked_from.model_dump(mode="json", by_alias=True),
        "reusedCalls": forked.reuse.calls,
        "reusedActions": forked.reuse.actions,
        "nothingLeft": forked.plan.nothing_left,
    }


def _print(forked: Forked, documents: Shown, progress: AskProgress) -> None:
    print_outcome(
        forked.outcome, documents, [model for model in progress.models if not model.startswith(f"{RECORDED}/")], None
    )
    if forked.outcome.refusal is not None:
        return
    origin, reuse = forked.plan.forked_from, forked.reuse
    stdout.print(
        f"Forked from workflow {origin.workflow} at event {origin.seq}: {counted(reuse.calls, 'answer')} of models "
        f"and {counted(reuse.actions, 'result')} of actions were taken over."
    )
    if forked.plan.nothing_left:
        stdout.print(NOTHING_LEFT)
    stdout.print(f"`poweron diff {origin.workflow} {forked.outcome.workflow_id}` shows where they first differ.")


# --- where two workflows differ ------------------------------------------------------------------------


def diff(
    a: Annotated[str, typer.Argument(metavar="A", help="The id of a workflow.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The id of the workflow to compare it with.")],
    as_json: AsJson = False,
) -> None:
    """Show where two workflows first differ, and what each cost.

    Compares documents, requests, actions, parameters, outcomes, decisions, their number and the answers of rounds,
    place by place, but not how models word anything else.

    Exit 0 same, 1 different, 2 wrong usage.
    """
    with sentences():
        check_id(a)
        check_id(b)
        comparison = run_work(_compare(a, b))
        if as_json:
            print_json(comparison.as_object(a, b))
        else:
            _print_diff(a, b, comparison)
    raise typer.Exit(0 if comparison.same else FAILED)


async def _compare(a: str, b: str) -> Comparison:
    async with open_connections(load_settings(), tell) as connections:
        first, second = [[entry.event for entry in await _events(connections, id_)] for id_ in (a, b)]
        changed = await changed_documents(connections.content, (a, first), (b, second))
    return compare(first, second, changed)


async def _events(connections: Connections, workflow: str) -> list[AcceptedEvent]:
    await read_snapshot(connections, workflow)
    await verified_records(connections, workflow)
    return accepted(await judged_records(connections.pool, workflow))


def _print_diff(a: str, b: str, comparison: Comparison) -> None:
    if comparison.divergence is None:
        stdout.print(
            "Both did the same: what was given, actions, parameters, outcomes, decisions and answers are equal."
        )
    else:
        if comparison.summary:
            stdout.print(f"{comparison.summary}.")
        for line in divergence_lines(comparison.divergence):
            stdout.print(line)
    stdout.print()
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for heading in ("", "steps", "calls", "taken over", "tokens", "cost", "models", "actions"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, workflow, cost in (("A", a, comparison.a), ("B", b, comparison.b)):
        stdout.print(f"{name}  {workflow}")
        table.add_row(name, *_cells(cost))
    stdout.print()
    stdout.print(table)


def _cells(cost: RunCost) -> list[str]:
    return [
        f"{cost.steps:,}",
        f"{cost.calls:,}",
        f"{cost.recorded_calls:,}",
        f"{cost.tokens:,}",
        f"${cost.cost_nano_usd / NANO:.4f}",
        f"{cost.model_ms / 1000:.1f} s",
        f"{cost.action_ms / 1000:.1f} s",
    ]


def divergence_lines(divergence: Divergence) -> Iterator[str]:
    """Yield lines that say where two workflows first differ, and what each did there."""
    place = _place_text((divergence.round, divergence.task, divergence.attempt, divergence.step))
    yield f"They first differ in {place}, by {_BY[divergence.what]}."
    a, b = divergence.a, divergence.b
    if divergence.what == "parameters":
        a, b = _differences(a, b), _differences(b, a)
    yield f"  A  {_truncate(_description(divergence.what, a))}"
    yield f"  B  {_truncate(_description(divergence.what, b))}"


_BY = {
    "documents": "the documents",
    "request": "the request",
    "action": "the action",
    "parameters": "the parameters of the action",
    "outcome": "the outcome",
    "decision": "the decision",
    "length": "how far they go",
    "answer": "the answer",
}
_PLACES = ("round", "task", "attempt", "step")


def _place_text(place: Sequence[int]) -> str:
    """Format a place as `round 1, task 2, attempt 1, step 3`, leaving out zeros."""
    return ", ".join(f"{name} {number}" for name, number in zip(_PLACES, place, strict=True) if number)


def _differences(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that differ, including those that only the other workflow has."""
    both = [
        {name: parameters.get(name, NOT_GIVEN) for name in sorted({*first, *second})} for parameters in (first, second)
    ]
    return {name: value for name, value in both[0].items() if value != both[1][name]}


def _description(what: str, value: Any) -> str:
    match value:
        case None:
            return "nothing more"
        case {"place": place}:
            kind, content = next((str(name), item) for name, item in value.items() if name != "place")
            is_self_explaining = isinstance(content, dict) and kind != "parameters"
            return f"{_place_text(place)}: {'' if is_self_explaining else f'{kind} '}{_description(kind, content)}"
        case dict() if what == "parameters":
            return "; ".join(f"{name}: {shown_value(item)}" for name, item in value.items()) or "none"
        case {"tasks": int() as count}:
            return counted(count, "task")
        case {"stage": stage, "code": code}:
            return f"failed in stage {stage}" + (f" ({code})" if code else "")
        case _:
            return str(value) if what != "documents" else "; ".join(map(_document_text, value)) or "none"


def _document_text(document: dict[str, Any]) -> str:
    other = ", other content" if "content" in document else ""
    return f"{document['name']} ({counted(document['size'], 'byte')}{other})"


def _truncate(text: str) -> str:
    visible = printable(text)
    excess = len(visible) - WIDE
    return visible if excess <= 0 else f"{visible[:WIDE]}… ({counted(excess, 'more character')})"
