"""The arguments and help of `poweron fork` and `poweron diff`."""

from typing import Annotated

import typer

from poweron_services.cli.arguments import AsJson, NoServe, WorkflowId


def register_fork_commands(app: typer.Typer) -> None:
    """Add both commands."""
    app.command("fork")(_fork)
    app.command("diff")(_diff)


def _fork(
    workflow: WorkflowId,
    at: Annotated[
        int, typer.Option("--at", min=0, max=2**31 - 1, metavar="SEQ", help="The last event that is taken over.")
    ],
    model: Annotated[str | None, typer.Option(metavar="MODEL", help="Decide with this model from there.")] = None,
    prompt: Annotated[str | None, typer.Option(metavar="TEXT", help="Ask in these words.")] = None,
    max_steps: Annotated[
        int | None, typer.Option(min=1, max=100, metavar="N", help="At most N steps per task.")
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Run actions that there is no result of.")] = False,
    no_serve: NoServe = False,
    as_json: AsJson = False,
) -> None:
    """Start a new workflow from an event of another one.

    Up to SEQ (`poweron events` shows it), answers and results are reused at no cost; from there, models decide again.
    After that, the result of an action with the same parameters is still reused; at any other action the fork stops,
    unless --live runs it. An action whose effect must not happen twice is never run.

    Exit 0 completed, 1 failed, 2 wrong usage, 3 cancelled, 130 stopped by Ctrl-C, 143 by SIGTERM.
    """
    from poweron_services.cli import fork_command
    from poweron_services.client.fork_request import ForkWish

    wish = ForkWish(workflow, at, prompt=prompt, max_steps=max_steps, live=live)
    fork_command.run(wish, model=model, serving=not no_serve, as_json=as_json)


def _diff(
    a: Annotated[str, typer.Argument(metavar="A", help="The id of a workflow.")],
    b: Annotated[str, typer.Argument(metavar="B", help="That of the one to compare it with.")],
    as_json: AsJson = False,
) -> None:
    """Show where two workflows first differ, and what each cost.

    Compares actions, parameters, outcomes, decisions and their number, place by place, but never wording.

    Exit 0 same, 1 different, 2 wrong usage.
    """
    from poweron_services.cli import diff_command

    diff_command.run(a, b, as_json=as_json)
