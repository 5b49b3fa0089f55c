"""The commands that judge work or hand it to other tools: their arguments and help. It imports nothing slow."""

from pathlib import Path
from typing import Annotated

import typer

from poweron_services.cli.arguments import WorkflowId
from poweron_services.cli.choices import ExportFormat


def export(
    workflow: WorkflowId,
    form: Annotated[
        ExportFormat,
        typer.Option("--format", metavar="FORMAT", help="events, otel or openinference."),
    ] = ExportFormat.events,
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="The file to write; else stdout.")] = None,
) -> None:
    """Hand a workflow to other tools.

    events: its records as they stand in the log, one CloudEvent of JSON a line. otel: one trace as the JSON of
    OpenTelemetry's protocol, with nothing that a person or a model wrote. openinference: the same with prompts and
    answers, as viewers of agents take it.
    """
    from poweron_services.cli import export_command

    export_command.run(workflow, form.value, output)
