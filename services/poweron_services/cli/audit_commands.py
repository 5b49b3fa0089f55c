"""`poweron show` and `poweron replay`: show what a decision saw, and replay decisions."""

from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Annotated, Any

import typer
from rich.text import Text

from poweron_events.errors import LogLost
from poweron_events.event import NANO, PREFIX, ModelCall
from poweron_events.fold.costs import model_calls
from poweron_projections import reader
from poweron_projections.verify import verify
from poweron_projections.workflow_check import RowsDiffer
from poweron_services.cli.arguments import AsJson, WorkflowId
from poweron_services.cli.context import FAILED, USAGE
from poweron_services.cli.error_messages import check_id, load_settings, run_work, sentences, stop
from poweron_services.cli.model_option import built
from poweron_services.cli.output import counted, one_line, print_beside, print_json, printable, stdout, tell
from poweron_services.cli.progress_bar import bar
from poweron_services.cli.query_commands import bring_rows_on, with_rows
from poweron_services.client.connect import Connections
from poweron_services.client.content_check import expect_content
from poweron_services.client.erasures import lifetime
from poweron_services.client.workflow_snapshot import verified_records
from poweron_services.fork.run_comparison import decides_the_same
from poweron_services.replay.action_specs import KnownActions, known_actions
from poweron_services.replay.decision_repeats import Answered, AskAgain
from poweron_services.replay.decision_replay import Replayed, unless_replaying
from poweron_services.replay.decision_view import DecisionView, accepted, as_object, index_of, view
from poweron_services.replay.replay_processes import Counted, ReplayedWorkflow, replay_all
from poweron_services.replay.replay_processes import replay as replay_workflow
from poweron_services.replay.workflow_records import Folded, StoredContent
from poweron_services.settings.config import Settings
from poweron_services.standalone import open_connections

MAX_SEQ = 2**31 - 1
At = Annotated[
    int | None,
    typer.Option("--at", metavar="SEQ", min=0, max=MAX_SEQ, help="An event's number, as `poweron events` shows it."),
]
PROMPT_WIDTH = 14  # columns of the verdict on a prompt
STYLES = {"same": "green", "differs": "bold red", "inconclusive": "yellow"}


@sentences()
def show(workflow: WorkflowId, at: At = None, as_json: AsJson = False) -> None:
    """Show what a decision saw.

    Shows the workflow after event --at, and the prompt, the answer and the decision that came next.
    Without --at, shows the last decision.
    """
    check_id(workflow)

    async def look(connections: Connections) -> DecisionView:
        records = await verified_records(connections, workflow)
        if words := await lifetime(connections.pool, workflow):
            tell(printable(words))
        return await view(workflow, records, connections.content, at=at)

    decision = with_rows(look)
    if as_json:
        print_json(as_object(decision))
    else:
        _print_view(as_object(decision))


def _print_view(view_data: dict[str, Any]) -> None:
    place = ", ".join(f"{name} {view_data[name]}" for name in ("round", "task", "attempt", "step") if view_data[name])
    _line("event", f"{view_data['seq']} {view_data['type'].removeprefix(PREFIX)}")
    _line("phase", f"{view_data['phase']}{f' ({place})' if place else ''}")
    for message in view_data["history"]:
        text = message["summary"] or message["message"]
        _line("history", f"{message['seq']} {message['action'] or message['kind'].replace('_', ' ')}: {text}")
    for document in view_data["documents"]:
        _line("document", f"{document['reference']} ({document['mimeType']}, {document['size']} bytes)")
    for budget in view_data["budgets"]:
        _line(
            "budget", f"{budget['code'].replace('_', ' ')} of the {budget['of']}: {budget['used']} of {budget['limit']}"
        )
    _print_decision(view_data)


def _print_decision(view_data: dict[str, Any]) -> None:
    decision = view_data["decision"]
    if decision is None:
        tell("No decision has followed this event.")
        return
    _line("decision", f"{decision['seq']} {decision['type'].removeprefix(PREFIX)}")
    if view_data["model"] is None:
        _line("model", "none: code decided")
    else:
        _line("model", view_data["model"])
        _line("template", view_data["template"])
    for name in ("prompt", "answer"):
        if view_data[name] is not None:
            stdout.print(Text(f"\n{name}:", style="bold"))
            stdout.print(Text(printable(view_data[name])))
    if view_data["missing"]:
        tell(view_data["missing"], style="yellow")


def _line(name: str, text: str) -> None:
    print_beside(stdout, Text(f"{name:<10}", style="dim"), one_line(text, 400))


@sentences()
def replay(
    *,
    workflow: Annotated[str | None, typer.Argument(metavar="[WORKFLOW]", help="The workflow's id.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Replay every workflow.")] = False,
    at: At = None,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", metavar="MODEL", help="Ask this model for decision --at; repeatable."),
    ] = None,
    times: Annotated[
        int | None, typer.Option("-n", min=1, max=100, metavar="N", help="Ask each model N times; else once.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Replay every decision of a workflow, and compare.

    Runs the roles' own code on what they saw, with the recorded answers instead of a model: it calls no model and
    writes nothing. With --at, replays only the decision that is event --at; with --model too, asks models for that
    decision instead, and shows their answers side by side.

    A decision whose prompt or documents were erased is inconclusive.

    Exit 0 nothing differs, 1 a decision or a prompt would now be different, 2 wrong usage.
    """
    if every and workflow is not None:
        stop("Both a workflow and --all are given: leave one of them out.", USAGE)
    if not every and workflow is None:
        stop("Name the workflow to replay (`poweron workflows` lists them), or give --all for every one.", USAGE)
    if model and (every or at is None):
        stop("--model asks for one decision: name the workflow, and the decision with --at.", USAGE)
    if every and at is not None:
        stop("--at is an event of one workflow: name that, without --all.", USAGE)
    if times is not None and not model:
        stop("-n says how often a model is asked: name one with --model.", USAGE)
    settings = load_settings(unless_replaying)
    if workflow is None:
        run_work(_all(settings, as_json=as_json))
        return
    check_id(workflow)
    if model:
        run_work(_ask(settings, workflow, at or 0, model, times or 1, as_json=as_json))
    else:
        run_work(_replay_one(settings, workflow, at, as_json=as_json))


async def _replay_one(settings: Settings, workflow: str, at: int | None, *, as_json: bool) -> None:
    """Replay a workflow, or one decision of it."""
    results: list[Replayed] = []
    async with open_connections(settings, tell) as connections, known_actions(settings) as known:
        await bring_rows_on(connections)
        records = await verified_records(connections, workflow)
        if at is not None:
            index_of(workflow, accepted(workflow, records), records, at)
        async for result in replay_workflow(workflow, records, connections.content, known):
            if at is None or result.seq == at:
                results.append(result)
                _print(result, as_json=as_json)
    if at is not None and not results:
        sentence = (
            f"Event {at} of workflow {workflow} is not a decision: it records what a person did, or what happened."
        )
        stop(f"{sentence} `poweron replay {workflow}` lists the decisions.")
    _sum(Counted.of(results), {}, as_json=as_json)


async def _all(settings: Settings, *, as_json: bool) -> None:
    """Replay every workflow."""
    total, newer, done = Counted(), 0, 0
    async with open_connections(settings, tell) as connections, known_actions(settings) as known:
        await bring_rows_on(connections)
        await _expect_rows_of_log(connections)
        await expect_content(connections.pool, connections.content)
        workflows = await reader.count_workflow_ids(connections.pool)
        with bar("Replaying", "workflows") as on_progress:
            places = settings.content_places
            async for result in replay_all(connections.pool, workflows, connections.content, places, known):
                done, newer = done + 1, newer + bool(result.newer)
                total = total + Counted.of(result.replayed)
                _print_workflow(result, as_json=as_json)
                on_progress(done, max(done, workflows))
    _sum(total, {"workflows": done, "ofNewerReleases": newer}, as_json=as_json)


async def _expect_rows_of_log(connections: Connections) -> None:
    """Compare all rows with the log; if the log is lost, only the digests of the records are checked.

    Raises:
        RowsDiffer: a row is not what the log says.
    """
    with suppress(LogLost), bar("Folding the log", "records") as on_progress:
        verified = await verify(connections.log, connections.pool, on_progress)
        if verified.differences:
            raise RowsDiffer(verified.differences)


def _print_workflow(workflow: ReplayedWorkflow, *, as_json: bool) -> None:
    """Print every decision with `--json`, but for users only those that are not the same."""
    if workflow.newer and as_json:
        print_json({"workflowId": workflow.workflow_id, "error": workflow.newer, "code": "newer_release"})
    elif workflow.newer:
        tell(workflow.newer, style="bold red")
    for decision in workflow.replayed:
        if as_json:
            print_json({"workflowId": workflow.workflow_id, **decision._asdict()})
        elif decision.verdict != "same":
            stdout.print(Text(workflow.workflow_id, style="dim"))
            _print(decision, as_json=False)


def _print(decision: Replayed, *, as_json: bool) -> None:
    if as_json:
        print_json(decision._asdict())
        return
    margin = Text(f"{decision.seq:>4}  ", style="dim")
    margin.append(f"{one_line(decision.type).removeprefix(PREFIX):<24}", style="bold")
    margin.append(f"{decision.decision:<14}", style=STYLES[decision.decision])
    margin.append(f"prompt {decision.prompt}", style=STYLES[decision.prompt])
    if not decision.detail:
        stdout.print(margin)
        return
    margin.append(" " * (PROMPT_WIDTH - len(decision.prompt)))
    print_beside(stdout, margin, decision.detail)


def _sum(total: Counted, more: dict[str, int], *, as_json: bool) -> None:
    """Print the totals; exit 1 if a decision differs, or a newer release wrote a workflow."""
    if as_json:
        print_json({**total._asdict(), **more})
    else:
        of = f" of {counted(more['workflows'], 'workflow')}" if more else ""
        stdout.print(
            f"{counted(total.decisions, 'decision')}{of}: {total.same} same, {total.differs} different, "
            f"{total.inconclusive} inconclusive."
        )
    if total.differs or more.get("ofNewerReleases"):
        raise typer.Exit(FAILED)


# --- one decision, asked of models ------------------------------------------------------------------------


async def _ask(settings: Settings, workflow: str, at: int, names: Sequence[str], times: int, *, as_json: bool) -> None:
    """Ask models for one decision; nothing is stored."""
    async with AsyncExitStack() as stack:
        models = [(name, built(settings, name, stack)) for name in dict.fromkeys(names)]
        connections = await stack.enter_async_context(open_connections(settings, tell))
        known = await stack.enter_async_context(known_actions(settings))
        await bring_rows_on(connections)
        ask = await _question(connections, workflow, at, known)
        with bar("Asking", "answers"):
            answers = await ask.ask(models, times)
    verdicts = [answer.event is not None and decides_the_same(answer.event, ask.event) for answer in answers]
    for answer, is_same in zip(answers, verdicts, strict=True):
        if as_json:
            print_json(_answer(answer, is_same=is_same))
        else:
            _print_answer(answer, is_same=is_same)
    if not as_json:
        cost = sum(answer.completion.cost_nano_usd for answer in answers if answer.completion)
        sentence = f"{counted(len(answers), 'answer')}, {sum(verdicts)} of them as event {at} decided"
        stdout.print(f"{sentence}; ${cost / NANO:.6f} together. None of them was kept.")
    if all(answer.event is None for answer in answers):
        raise typer.Exit(FAILED)


async def _question(connections: Connections, workflow: str, at: int, known: KnownActions) -> AskAgain:
    records = await verified_records(connections, workflow)
    accepted_records = accepted(workflow, records)
    decision = accepted_records[index_of(workflow, accepted_records, records, at)]
    call = next(iter(_calls(decision)), None)
    prompt = await StoredContent(connections.content).find(workflow, call.prompt_ref if call else None)
    return AskAgain(decision, connections.content, known, prompt)


def _calls(decision: Folded) -> Iterable[ModelCall]:
    event = decision.recorded.envelope.event
    return model_calls(event) if event is not None else ()


def _answer(answer: Answered, *, is_same: bool) -> dict[str, Any]:
    """Return an answer as `--json` prints it."""
    completion = answer.completion
    return {
        "model": answer.model,
        "same": is_same,
        "type": answer.event.TYPE if answer.event else None,
        "decision": answer.event.model_dump(mode="json", by_alias=True, exclude={"model_call"})
        if answer.event
        else None,
        "answer": answer.answer or None,
        "problem": answer.problem or None,
        "inputTokens": completion.input_tokens if completion else 0,
        "outputTokens": completion.output_tokens if completion else 0,
        "costNanoUsd": completion.cost_nano_usd if completion else 0,
        "durationMs": answer.duration_ms,
    }


def _print_answer(answer: Answered, *, is_same: bool) -> None:
    completion = answer.completion
    tokens = completion.input_tokens + completion.output_tokens if completion else 0
    cost = f"${completion.cost_nano_usd / NANO:.6f}" if completion and completion.cost_nano_usd else "-"
    event_name = answer.event.TYPE.removeprefix(PREFIX) if answer.event else "no decision"
    margin = Text(f"{one_line(answer.model, 40)}  ")
    margin.append(f"{event_name:<24}", style="bold" if answer.event else "bold red")
    margin.append(f"{'same' if is_same else 'otherwise':<10}", style="green" if is_same else "yellow")
    margin.append(f"{answer.duration_ms / 1000:>6.1f} s  {tokens:>6} tokens  {cost:>9}  ", style="dim")
    print_beside(stdout, margin, answer.problem or answer.answer)
