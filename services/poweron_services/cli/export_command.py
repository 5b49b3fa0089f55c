"""`poweron export`: write a workflow for other tools, to stdout or a file."""

import sys
from collections.abc import Sequence
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Final, Literal, cast

import typer

from poweron_projections.audit.period_proof import Period
from poweron_projections.audit.verifier.verify_command import moment_ms
from poweron_services.cli import files
from poweron_services.cli.arguments import AsJson
from poweron_services.cli.bundle_export import BundleWish, export_bundle
from poweron_services.cli.context import USAGE
from poweron_services.cli.error_messages import check_id, sentences, stop
from poweron_services.cli.output import counted, print_json, print_json_text, tell
from poweron_services.cli.query_commands import with_rows
from poweron_services.client.connect import Connections
from poweron_services.client.workflow_snapshot import recorded_history, verified_records
from poweron_services.trace_export.ocsf_events import is_ocsf_of, ocsf_events
from poweron_services.trace_export.prov_document import is_prov_of, prov_document
from poweron_services.trace_export.workflow_trace import exported_trace, is_trace_of

Format = Literal["events", "otel", "openinference", "ocsf", "prov"]
OF_SEVERAL: Final = ("bundle", "ocsf", "prov")


class ExportFormat(StrEnum):
    """The formats in which a workflow is exported to other tools."""

    events = "events"
    otel = "otel"
    openinference = "openinference"
    ocsf = "ocsf"
    prov = "prov"
    bundle = "bundle"


Workflows = Annotated[
    list[str] | None,
    typer.Argument(metavar="WORKFLOW", help="The workflow's id; ocsf, prov and bundle take several."),
]
WithoutContent = Annotated[
    bool, typer.Option("--without-content", help="Leave documents, prompts and answers out of a bundle.")
]
ExportReason = Annotated[
    str, typer.Option(metavar="WHY", help="Why a bundle is exported, which is recorded in the workflow.")
]
FromFile = Annotated[Path | None, typer.Option(metavar="IDS", help="A file with the ids of several workflows.")]
Since = Annotated[
    str | None, typer.Option(metavar="TIME", help="A bundle of all workflows since this date or time (UTC).")
]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="The end of that period, not included (UTC).")]
Sample = Annotated[int | None, typer.Option(min=1, metavar="N", help="Draw N workflows of the period by lot.")]
Seed = Annotated[str | None, typer.Option(metavar="TEXT", help="The auditor's text, from which the sample is drawn.")]
Held = Annotated[
    list[Path] | None,
    typer.Option("--checkpoint", metavar="OLD", help="A checkpoint that the auditor holds, to prove it; repeatable."),
]
Everything = Annotated[bool, typer.Option("--all", help="A bundle of all workflows.")]


@sentences()
def export(
    workflow: Workflows = None,
    *,
    form: Annotated[
        ExportFormat,
        typer.Option("--format", metavar="FORMAT", help="events, otel, openinference, ocsf, prov or bundle."),
    ] = ExportFormat.events,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The file to write; default stdout. Only an earlier export of the same workflow is replaced.",
        ),
    ] = None,
    without_content: WithoutContent = False,
    reason: ExportReason = "",
    from_file: FromFile = None,
    since: Since = None,
    until: Until = None,
    sample: Sample = None,
    seed: Seed = None,
    checkpoint: Held = None,
    everything: Everything = False,
    as_json: AsJson = False,
) -> None:
    """Export workflows to other tools, or as a bundle for auditors.

    events: its records as they are in the log, one CloudEvent per line, as JSON. otel: one trace as the JSON of
    OpenTelemetry's protocol, without any text that a person or a model wrote. openinference: the same with prompts
    and answers, for agent viewers. ocsf: an event for a SIEM for each request, decision, action, approval and model
    call, one per line. prov: which people, models and documents led to which answers, as one document of W3C
    PROV-JSON. Both are without such text and take several workflows. bundle: a folder, or a zip, with the proof that
    nothing in it was changed, and the script that verifies it; a bundle of a period also proves that no workflow is
    missing.
    """
    ids = _ids(workflow or [], from_file)
    period = _period(since, until, sample, seed, everything=everything)
    if form is ExportFormat.bundle:
        if bool(ids) == (period is not None):
            stop("Name workflows, or a period with --since and --until, or --all; only one of these.", USAGE)
        wish = BundleWish(ids, period, not without_content, reason, checkpoint or ())
        export_bundle(wish, output, as_json=as_json)
        return
    if period is not None or not ids or (len(ids) > 1 and form.value not in OF_SEVERAL):
        most = "workflows" if form.value in OF_SEVERAL else "one workflow"
        stop(f"Name {most} to export as {form.value}; a period makes a bundle.", USAGE)
    kind = cast("Format", form.value)
    if output is not None:
        files.check_file_writable(output)
    lines = with_rows(lambda connections: _lines(connections, ids, kind))
    if output is not None:
        data = b"".join(line + b"\n" for line in lines)
        files.write_file(output, data, lambda earlier: _is_earlier(earlier, data, ids, kind))
        tell(f"Written: {output} ({counted(len(lines), 'line')}).")
        if as_json:
            print_json({"path": str(output), "lines": len(lines)})
        return
    for line in lines:
        _print(line)


def _ids(workflows: Sequence[str], from_file: Path | None) -> list[str]:
    """Return the ids that were named or are in the file, each once."""
    listed = list[str]()
    if from_file is not None:
        try:
            listed = from_file.read_text(errors="replace").split()
        except OSError as error:
            stop(f"The file {str(from_file)!r} cannot be read: {error.strerror}. Check the path.", USAGE)
        if not listed:
            stop(f"{str(from_file)!r} names no workflow. Write one id on each line.", USAGE)
    ids = list(dict.fromkeys([*workflows, *listed]))
    for id_ in ids:
        check_id(id_)
    return ids


def _period(
    since: str | None, until: str | None, sample: int | None, seed: str | None, *, everything: bool
) -> Period | None:
    is_limited = since is not None or until is not None
    if (sample is None) != (seed is None):
        stop("Use --sample and --seed together: the auditor chooses the text, and can then check the draw.", USAGE)
    if everything and (is_limited or sample is not None):
        stop("--all means all workflows: use it without --since, --until and --sample.", USAGE)
    if not everything and not is_limited and sample is None:
        return None
    try:
        return Period(moment_ms("--since", since), moment_ms("--until", until), sample, seed or "")
    except ValueError as error:
        stop(str(error), USAGE)


def _is_earlier(earlier: bytes, data: bytes, workflows: Sequence[str], form: Format) -> bool:
    """Return whether a file is an export of the same workflow in the same form; records are only ever appended."""
    match form:
        case "events":
            return data.startswith(earlier)
        case "ocsf":
            return is_ocsf_of(earlier, workflows)
        case "prov":
            return is_prov_of(earlier, workflows)
        case "otel" | "openinference":
            return is_trace_of(earlier, workflows[0], form)


async def _lines(connections: Connections, workflows: Sequence[str], form: Format) -> list[bytes]:
    workflow = workflows[0]
    if form == "events":
        return [record.value for record in await verified_records(connections, workflow)]
    release = version("poweron-services")
    if form == "ocsf":
        return [line for each in workflows for line in ocsf_events(await recorded_history(connections, each), release)]
    if form == "prov":
        return [prov_document([await recorded_history(connections, each) for each in workflows], release)]
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
