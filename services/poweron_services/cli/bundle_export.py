"""Audit bundles as files: a folder, or a zip."""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from poweron_projections.audit.bundle import zipped
from poweron_projections.audit.checkpoint import Checkpoint
from poweron_projections.audit.notes import SignedNote
from poweron_projections.audit.tlog_proof import TlogProof
from poweron_services.cli import files
from poweron_services.cli.context import USAGE
from poweron_services.cli.error_messages import stop
from poweron_services.cli.output import counted, print_json, tell
from poweron_services.cli.query_commands import with_rows
from poweron_services.client.audit_bundle import audit_bundle


def export_bundle(workflow: str, output: Path | None, *, as_json: bool, with_content: bool) -> None:
    """Write the bundle of a workflow into a folder or a zip."""
    if output is None:
        stop("A bundle has several files. Name the folder, or the zip, to write with --output.", USAGE)
    is_zip = output.suffix == ".zip"
    if is_zip:
        files.check_file_writable(output)
    elif output.exists() and (not output.is_dir() or any(output.iterdir())):
        stop(f"{str(output)!r} exists. Name a folder that does not exist yet, or is empty.", USAGE)
    bundle = with_rows(lambda connections: audit_bundle(connections, workflow, with_content=with_content))
    if is_zip:
        files.write_file(output, zipped(bundle), lambda earlier: _is_bundle_of(earlier, workflow))
    else:
        for name, data in bundle.items():
            path = output / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    told = _told(bundle, workflow, output)
    tell(f"Written: {output} ({counted(told['events'], 'event')}, {counted(told['blobs'], 'content')}).")
    if as_json:
        print_json(told)


def _told(bundle: Mapping[str, bytes], workflow: str, output: Path) -> dict[str, Any]:
    proof = TlogProof.parse(bundle["head.tlog-proof"].decode())
    return {
        "workflowId": workflow,
        "path": str(output),
        "events": bundle["events.jsonl"].count(b"\n"),
        "blobs": sum(name.startswith("blobs/") for name in bundle),
        "checkpointSize": Checkpoint.parse(SignedNote.parse(proof.checkpoint).text).size,
        "checkpointTime": orjson.loads(bundle["heads/entry.json"])["time"],
        "key": bundle["keys/ledger.vkeys"].decode().partition("\n")[0],
    }


def _is_bundle_of(earlier: bytes, workflow: str) -> bool:
    try:
        with zipfile.ZipFile(io.BytesIO(earlier)) as archive:
            return workflow in archive.read("entries.jsonl").decode()
    except (zipfile.BadZipFile, KeyError, UnicodeError):
        return False
