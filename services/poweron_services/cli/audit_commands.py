"""The commands that look into decisions: their arguments and their help."""

from typing import Annotated, Optional

import typer

from poweron_services.cli.arguments import AsJson, WorkflowId

MAX_SEQ = 2**31 - 1
At = Annotated[
    Optional[int],
    typer.Option("--at", metavar="SEQ", min=0, max=MAX_SEQ, help="An event's number, as `poweron events` shows it."),
]


def show(workflow: WorkflowId, at: At = None, as_json: AsJson = False) -> None:
    """Show what a decision got to see.

    The workflow as it stood after event --at, and the prompt, the answer and the decision that came next.
    Without --at, those of the last decision.
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
    """Take every decision of a workflow again, and compare.

    Runs the roles' own code on what they saw, with the answers that were recorded in place of a model: nothing is
    called, nothing is written. With --at only the decision that is event --at; with --model, too, it asks models
    for that one instead, and shows their answers side by side.

    Exit 0 nothing differs, 1 a decision or a prompt would be another one now, 2 wrong usage.
    """
    from poweron_services.cli import replay_command

    replay_command.run(workflow, every=every, at=at, models=model or [], times=times, as_json=as_json)


def add_audit_commands(app: typer.Typer) -> None:
    """Let `poweron` have them."""
    app.command()(show)
    app.command()(replay)
