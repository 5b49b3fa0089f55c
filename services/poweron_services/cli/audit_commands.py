"""The arguments and help of the commands that inspect decisions."""

from typing import Annotated, Optional

import typer

from poweron_services.cli.arguments import AsJson, WorkflowId

MAX_SEQ = 2**31 - 1
At = Annotated[
    Optional[int],
    typer.Option("--at", metavar="SEQ", min=0, max=MAX_SEQ, help="An event's number, as `poweron events` shows it."),
]


def show(workflow: WorkflowId, at: At = None, as_json: AsJson = False) -> None:
    """Show what a decision saw.

    Shows the workflow after event --at, and the prompt, the answer and the decision that came next.
    Without --at, shows the last decision.
    """
    from poweron_services.cli import show_command

    show_command.show(workflow, at, as_json=as_json)


def replay(
    workflow: Annotated[Optional[str], typer.Argument(metavar="[WORKFLOW]", help="The workflow's id.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Replay every workflow.")] = False,
    at: At = None,
    model: Annotated[
        Optional[list[str]],
        typer.Option("--model", metavar="MODEL", help="Ask this model for decision --at; repeatable."),
    ] = None,
    times: Annotated[
        Optional[int], typer.Option("-n", min=1, max=100, metavar="N", help="Ask each model N times; else once.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Replay every decision of a workflow, and compare.

    Runs the roles' own code on what they saw, with the recorded answers instead of a model: it calls no model and
    writes nothing. With --at, replays only the decision that is event --at; with --model too, asks models for that
    decision instead, and shows their answers side by side.

    Exit 0 nothing differs, 1 a decision or a prompt would now be different, 2 wrong usage.
    """
    from poweron_services.cli import replay_command

    replay_command.run(workflow, every=every, at=at, models=model or [], times=times, as_json=as_json)


def add_audit_commands(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command()(show)
    app.command()(replay)
