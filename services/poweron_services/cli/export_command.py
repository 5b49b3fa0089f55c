"""`poweron export`: write a workflow for other tools, to stdout or a file."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, cast

import typer

from poweron_services.cli import files
from poweron_services.cli.arguments import AsJson, WorkflowId
from poweron_services.cli.bundle_export import export_bundle
from poweron_services.cli.error_messages import check_id, sentences
from poweron_services.cli.output import counted, print_json, print_json_text, tell
from poweron_services.cli.query_commands import with_rows
from poweron_services.client.connect import Connections
from poweron_services.client.workflow_snapshot import recorded_history, verified_records
from poweron_services.trace_export.workflow_trace import exported_trace, is_trace_of

Format = Literal["events", "otel", "openinference"]


class ExportFormat(StrEnum):
    """The formats in which a workflow is exported to other tools."""

    events = "events"
    otel = "otel"
    openinference = "openinference"
    bundle = "bundle"


@sentences()
def export(
    workflow: WorkflowId,
    form: Annotated[
        ExportFormat,
        typer.Option("--format", metavar="FORMAT", help="events, otel, openinference or bundle."),
    ] = ExportFormat.events,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The file to write; default stdout. Only an earlier export of the same workflow is replaced.",
        ),
    ] = None,
    without_content: Annotated[
        bool, typer.Option("--without-content", help="Leave documents, prompts and answers out of a bundle.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Export a workflow to other tools, or as a bundle for auditors.

    events: its records as they are in the log, one CloudEvent per line, as JSON. otel: one trace as the JSON of
    OpenTelemetry's protocol, without any text that a person or a model wrote. openinference: the same with prompts
    and answers, for agent viewers. bundle: a folder, or a zip, with the proof that nothing in it was changed, and
    the script that verifies it.
    """
    check_id(workflow)
    if form is ExportFormat.bundle:
        export_bundle(workflow, output, as_json=as_json, with_content=not without_content)
        return
    kind = cast("Format", form.value)
    if output is not None:
        files.check_file_writable(output)
    lines = with_rows(lambda connections: _lines(connections, workflow, kind))
    if output is not None:
        data = b"".join(line + b"\n" for line in lines)
        files.write_file(output, data, lambda earlier: _is_earlier(earlier, data, workflow, kind))
        tell(f"Written: {output} ({counted(len(lines), 'line')}).")
        if as_json:
            print_json({"path": str(output), "lines": len(lines)})
        return
    for line in lines:
        _print(line)


def _is_earlier(earlier: bytes, data: bytes, workflow: str, form: Format) -> bool:
    """Return whether a file is an export of the same workflow in the same form; records are only ever appended."""
    return data.startswith(earlier) if form == "events" else is_trace_of(earlier, workflow, form)


async def _lines(connections: Connections, workflow: str, form: Format) -> list[bytes]:
    if form == "events":
        return [record.value for record in await verified_records(connections, workflow)]
    history = await recorded_history(connections, workflow)
    if history[-1].workflow.is_open:
        tell("A round of this workflow is still open: what has not ended yet has no span.", style="yellow")
    return [await exported_trace(history, connections.content, form)]


def _print(line: bytes) -> None:
    """Print the bytes unchanged; on a terminal, escape invisible characters, which could act on it."""
    if sys.stdout.isatty():
        print_json_text(line.decode())
        return
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()
