"""`poweron fork`: run a workflow again from one of its events."""

from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import typer

from poweron_events.errors import Refused
from poweron_events.event import RECORDED
from poweron_events.request import MAX_PROMPT
from poweron_services import telemetry
from poweron_services.cli import files
from poweron_services.cli.ask_command import (
    OUTPUT,
    AskProgress,
    Shown,
    exit_code,
    outcome_json,
    print_outcome,
)
from poweron_services.cli.context import USAGE
from poweron_services.cli.error_messages import check_id, load_settings, run_work, sentence, sentences, stop
from poweron_services.cli.event_lines import tell_untaken
from poweron_services.cli.output import counted, print_json, stdout, tell
from poweron_services.cli.progress_bar import watching_progress
from poweron_services.client.follow import Callbacks
from poweron_services.client.fork_request import Forked, ForkWish
from poweron_services.settings.config import Settings
from poweron_services.standalone import check_content, open_connections, run_fork

NOTHING_LEFT = (
    "The workflow had ended with that event: the fork repeats all of it, and nothing was left to decide. "
    "An earlier `--at` leaves something."
)

PLANNED_BEFORE = (
    "Its tasks were taken over, too: they were planned for the prompt of that workflow, not for yours. "
    "`--at {seq}` plans them anew."
)


def run(wish: ForkWish, *, model: str | None, serving: bool, as_json: bool) -> None:
    """Fork, follow, and print the outcome; ends with its exit code."""
    asked = AskProgress()
    with sentences():
        _check(wish, model, serving=serving)
        settings = load_settings(telemetry.StageWaitReporter(asked.waits))
        if serving:
            settings = _checked(settings, model)
        forked, documents = run_work(
            _fork(settings, wish, serving=serving, asked=asked), partial(asked.interrupted, serving=serving)
        )
        if as_json:
            print_json(_json(forked, documents, asked))
        else:
            _print(forked, documents, asked, is_reworded=wish.prompt is not None)
    raise typer.Exit(exit_code(forked.outcome, documents))


def _check(wish: ForkWish, model: str | None, *, serving: bool) -> None:
    """End the command with a sentence if an argument is invalid."""
    check_id(wish.workflow)
    if wish.prompt is not None and not wish.prompt.strip():
        stop("The prompt is empty. Leave `--prompt` out to keep the one of the workflow.", USAGE)
    if wish.prompt is not None and len(wish.prompt) > MAX_PROMPT:
        stop(f"The prompt has {len(wish.prompt):,} characters, {MAX_PROMPT:,} are possible.", USAGE)
    if model is not None and not serving:
        stop("`--model` says which model this process asks; with `--no-serve` it asks none.", USAGE)


def _checked(settings: Settings, model: str | None) -> Settings:
    """Return the settings; a model that is named serves every stage.

    Ends the command before anything is opened if a setting is missing that a model needs.
    """
    from poweron_services.cli.model_option import built  # noqa: PLC0415 - what was typed is checked before
    from poweron_services.wiring import build_model  # noqa: PLC0415 - as above

    if model is not None:
        built(settings, model, AsyncExitStack())
        return settings.with_model(model)
    try:
        build_model(settings, AsyncExitStack())
    except Refused as error:
        stop(sentence(error), USAGE, code=error.code)
    return settings


async def _fork(settings: Settings, wish: ForkWish, *, serving: bool, asked: AskProgress) -> tuple[Forked, Shown]:
    await check_content(settings)
    async with open_connections(settings, tell) as connections:
        async with watching_progress(connections.progress) as asked.watch:
            callbacks = Callbacks(asked.heard, asked.requested, tell_untaken)
            forked = await run_fork(connections, wish, serving=serving, callbacks=callbacks, progress=tell)
        outcome = forked.outcome
        folder = OUTPUT / outcome.workflow_id
        return forked, await files.write(connections, outcome.workflow_id, outcome.documents, folder)


def _json(forked: Forked, documents: Shown, asked: AskProgress) -> dict[str, Any]:
    return {
        **outcome_json(forked.outcome, documents, asked.models),
        "forkedFrom": forked.plan.forked_from.model_dump(mode="json", by_alias=True),
        "reusedCalls": forked.reuse.calls,
        "reusedActions": forked.reuse.actions,
        "nothingLeft": forked.plan.nothing_left,
    }


def _print(forked: Forked, documents: Shown, asked: AskProgress, *, is_reworded: bool) -> None:
    print_outcome(
        forked.outcome, documents, [each for each in asked.models if not each.startswith(f"{RECORDED}/")], None
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
    elif is_reworded and forked.plan.replan_at is not None:
        stdout.print(PLANNED_BEFORE.format(seq=forked.plan.replan_at))
    stdout.print(f"`poweron diff {origin.workflow} {forked.outcome.workflow_id}` shows where they part.")
