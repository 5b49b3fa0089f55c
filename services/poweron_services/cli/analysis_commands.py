"""The arguments and help of the commands that evaluate and export work. Imports nothing slow."""

from pathlib import Path
from typing import Annotated

import typer

from poweron_services.cli.arguments import AsJson, WorkflowId
from poweron_services.cli.choices import ExportFormat


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command()(evaluate)
    app.command()(export)


def evaluate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Requests and what is expected of them, as JSON Lines.")],
    model: Annotated[
        list[str] | None,
        typer.Option(metavar="MODEL", help="A model, named as in POWERON_MODEL; repeatable. Else: as is set."),
    ] = None,
    repeat: Annotated[int, typer.Option("-n", "--repeat", min=1, max=100, metavar="N", help="Ask each N times.")] = 1,
    at_once: Annotated[int, typer.Option(min=1, max=64, metavar="N", help="At most N requests side by side.")] = 4,
    require: Annotated[
        float | None, typer.Option(min=0, max=1, metavar="SHARE", help="Exit 1 where a model has less right, of 1.")
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
    from poweron_services.cli import evaluate_command

    evaluate_command.run(
        file, model or [], repeat=repeat, at_once=at_once, require=require, recorded=recorded, as_json=as_json
    )


def export(
    workflow: WorkflowId,
    form: Annotated[
        ExportFormat,
        typer.Option("--format", metavar="FORMAT", help="events, otel or openinference."),
    ] = ExportFormat.events,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The file to write; else stdout. No file is replaced but an export of the same workflow.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Export a workflow to other tools.

    events: its records as they are in the log, one CloudEvent per line, as JSON. otel: one trace as the JSON of
    OpenTelemetry's protocol, without any text that a person or a model wrote. openinference: the same with prompts
    and answers, for agent viewers.
    """
    from poweron_services.cli import export_command

    export_command.run(workflow, form.value, output, as_json=as_json)
