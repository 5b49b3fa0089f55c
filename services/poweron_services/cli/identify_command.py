"""`poweron audit identify`: find the workflow of a file by its bytes."""

from pathlib import Path
from typing import Annotated, Any

import typer

from poweron_services.cli import files
from poweron_services.cli.arguments import AsJson
from poweron_services.cli.context import FAILED, USAGE
from poweron_services.cli.error_messages import sentences, stop
from poweron_services.cli.output import counted, one_line, print_json, stdout, tell
from poweron_services.cli.query_commands import with_rows
from poweron_services.client.file_identity import MAX_MATCHES, Identity, Match, identify
from poweron_services.client.file_marks import Obstacle

ORIGINS = {"written": "written", "handed_over": "handed over", "read": "read"}
OBSTACLES: dict[Obstacle, str] = {
    "broken_archive": "It begins like a Word or Excel file, but the archive is damaged, so its mark cannot be read.",
    "encrypted": "It is encrypted, so its mark cannot be read.",
}


@sentences()
def audit_identify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A report, an answer or a document.")],
    as_json: AsJson = False,
) -> None:
    """Find the workflow that wrote or received a file, and say whether the file was changed.

    Exit 0 the file is whole, 1 it was changed or no workflow has it, 2 wrong usage.
    """
    data = files.read_one(file)
    if not data:
        stop(f"The file {str(file)!r} is empty, so nothing can be found by it. Check the path.", USAGE)
    identity = with_rows(lambda connections: identify(connections, data))
    if as_json:
        print_json(_as_object(identity, file))
    else:
        for match in identity.matches:
            stdout.print(f"{match.workflow_id}  {_told(match)}")
        tell(_sentence(identity, file), style="" if identity.verdict == "whole" else "bold red")
    if identity.verdict != "whole":
        raise typer.Exit(FAILED)


def _told(match: Match) -> str:
    return f"{match.document_id} {one_line(match.document_name)!r}, {ORIGINS[match.origin]} (event {match.seq})"


def _as_object(identity: Identity, file: Path) -> dict[str, Any]:
    mark, recorded = identity.read.mark, identity.recorded
    return {
        "path": str(file).encode(errors="replace").decode(),
        "verdict": identity.verdict,
        "size": identity.size,
        "sha256": identity.sha256,
        "mark": None
        if mark is None
        else {
            "workflowId": mark.workflow_id,
            "documentId": mark.document_id,
            "digitalSourceType": mark.kind or None,
        },
        "obstacle": identity.read.obstacle,
        "withoutKey": sorted(identity.without_key),
        "matches": [
            {
                "workflowId": match.workflow_id,
                "documentId": match.document_id,
                "documentName": match.document_name,
                "seq": match.seq,
                "origin": match.origin,
            }
            for match in identity.matches
        ],
        "recorded": None if recorded is None else {"size": recorded.size, "sha256": identity.recorded_sha256},
        "next": _sentence(identity, file),
    }


def _sentence(identity: Identity, file: Path) -> str:
    """Say what was found, and what to do next."""
    name = repr(str(file))
    if identity.verdict == "whole":
        workflows = dict.fromkeys(match.workflow_id for match in identity.matches)
        first = next(iter(workflows))
        where = f"workflow {first} has" if len(workflows) == 1 else f"{counted(len(workflows), 'workflow')} have"
        return (
            f"{name} is whole: {where} exactly these bytes. "
            f"`poweron export {first} --format bundle --output DIR` proves it to others."
        )
    return _changed(identity, name) if identity.verdict == "changed" else _unknown(identity, name)


def _changed(identity: Identity, name: str) -> str:
    mark, recorded = identity.read.mark, identity.recorded
    assert mark is not None
    assert recorded is not None
    original = f"SHA-256 {identity.recorded_sha256}" if identity.recorded_sha256 else "its content was erased"
    elsewhere = " The changed file was handed over to another workflow." if identity.matches else ""
    return (
        f"{name} was changed: its mark names document {mark.document_id} ({one_line(recorded.document_name)!r}) of "
        f"workflow {mark.workflow_id}, which has {recorded.size:,} bytes ({original}), but the file has "
        f"{identity.size:,} bytes (SHA-256 {identity.sha256}).{elsewhere} "
        f"`poweron documents {mark.workflow_id} --output DIR` writes the original; compare the two."
    )


def _unknown(identity: Identity, name: str) -> str:
    mark, obstacle = identity.read.mark, identity.read.obstacle
    compared = f"{name} is unknown: no document has its {identity.size:,} bytes"
    if mark is not None and mark.workflow_id in identity.without_key:
        return (
            f"{name} cannot be compared: its mark names workflow {mark.workflow_id}, whose key is gone, as after an "
            "erasure. A bundle that was exported before has it. No document that can be compared has these bytes."
        )
    if identity.without_key:
        ids = sorted(identity.without_key)
        others = f" and {len(ids) - MAX_MATCHES:,} more" if len(ids) > MAX_MATCHES else ""
        return (
            f"{compared} that can be compared. {counted(len(ids), 'workflow')} had one of this size, but the key is "
            f"gone, as after an erasure, so the file may be from there: {', '.join(ids[:MAX_MATCHES])}{others}."
        )
    if mark is not None:
        return (
            f"{compared}. Its mark names document {mark.document_id} of workflow {mark.workflow_id}, which is not "
            "here. Ask the installation that wrote it: check POWERON_KAFKA, POWERON_POSTGRES and POWERON_HOME."
        )
    reason = OBSTACLES[obstacle] if obstacle else "It has no mark."
    advice = "If it was saved again or converted, ask for the original and identify that."
    return f"{compared}. {reason} {advice}"
