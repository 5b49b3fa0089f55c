"""Audit bundles as files: of one workflow, of several, or of those that a period of the ledger has."""

import asyncio
import io
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson

from poweron_events.request import MAX_REASON
from poweron_projections.audit.bundle import NotSigned
from poweron_projections.audit.checkpoint import Checkpoint
from poweron_projections.audit.notes import SignedNote
from poweron_projections.audit.period_proof import EnteredPeriod, Period, entered_period, period_bounds, period_files
from poweron_projections.audit.tlog_proof import TlogProof
from poweron_projections.audit.verifier.period_rules import complete_until
from poweron_projections.audit.verify_script import verify_script
from poweron_projections.connection import snapshot
from poweron_services.cli.bundle_writer import BundleWriter, bundle_writer, check_output
from poweron_services.cli.context import USAGE
from poweron_services.cli.error_messages import check_reason, load_settings, run_work, stop
from poweron_services.cli.event_lines import tell_untaken
from poweron_services.cli.files import expect_earlier
from poweron_services.cli.output import counted, print_json, tell
from poweron_services.cli.query_commands import bring_rows_on
from poweron_services.client.audit_bundle import ExportOrder, record_exports, signed_bundle, until_signed
from poweron_services.client.connect import Connections
from poweron_services.client.follow import Callbacks
from poweron_services.standalone import local_identity, open_connections, while_recording

_KEYS: Final = "keys/ledger.vkeys"
_EVENTS: Final = "events.jsonl"


@dataclass(frozen=True, slots=True)
class BundleWish:
    """What a user wants to have exported."""

    workflow_ids: Sequence[str]
    """The workflows; empty if those of a period are meant."""
    period: Period | None
    with_content: bool
    reason: str
    held: Sequence[Path] = ()
    """Checkpoints that the auditor holds."""


def export_bundle(wish: BundleWish, output: Path | None, *, as_json: bool) -> None:
    """Write a bundle into a folder or a zip, and record that."""
    check_reason(wish.reason)
    _check_period(wish.period)
    held = [_size(path) for path in wish.held]
    output = check_output(output)
    told = run_work(_export(wish, held, output))
    contents = counted(told["blobs"], "content")
    tell(f"Written: {output} ({counted(told['events'], 'event')}, {contents}).")
    if as_json:
        print_json(told)


def _check_period(period: Period | None) -> None:
    if period is None:
        return
    now_ms, until_ms = time.time_ns() // 1_000_000, period.until_ms
    if period.since_ms is not None and until_ms is not None and period.since_ms >= until_ms:
        stop("The period ends before it begins. Exchange --since and --until.", USAGE)
    if until_ms is not None and until_ms > now_ms:
        stop(
            f"The period has not ended: it lasts until {_utc(until_ms)}. Export it then, or choose another --until.",
            USAGE,
        )
    if period.sample is not None and until_ms is None:
        stop("A sample is drawn from a period that has ended: say with --until when it ends.", USAGE)


async def _export(wish: BundleWish, held: Sequence[int], output: Path) -> dict[str, Any]:
    settings = load_settings()
    async with open_connections(settings, tell) as connections:
        await bring_rows_on(connections)
        restart = wish.period is not None and not await _is_signed(connections, wish.period)
        actor = settings.acting_through("cli")
        order = ExportOrder(actor, local_identity, wish.with_content, _reason(wish), held)
        exporting = partial(_write, connections, wish, order, output)
        return await while_recording(connections, exporting, tell, restart=restart)


def _size(checkpoint: Path) -> int:
    """Return the size of the tree in a checkpoint that the auditor holds; end the command if it is none."""
    try:
        return Checkpoint.parse(SignedNote.parse(checkpoint.read_text(encoding="utf-8")).text).size
    except OSError as error:
        stop(f"--checkpoint {checkpoint}: it cannot be read: {error.strerror}.", USAGE)
    except ValueError:
        stop(f"--checkpoint {checkpoint}: it is no checkpoint.", USAGE)


def _reason(wish: BundleWish) -> str:
    """Return the reason that is recorded; it says how a sample was drawn, so that each draw can be seen."""
    period = wish.period
    if period is None or period.sample is None:
        return wish.reason
    since = "the beginning" if period.since_ms is None else _utc(period.since_ms)
    drawn = f"Sample of {period.sample} from {since} to {_utc(period.until_ms or 0)}, drawn with {period.seed!r}."
    return f"{wish.reason} {drawn}".strip()[:MAX_REASON]


def _utc(time_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(time_ms / 1000))


async def _is_signed(connections: Connections, period: Period) -> bool:
    """Return whether the ledger has signed the end of the period; an idle one signs once it is started again."""
    try:
        async with snapshot(connections.pool) as connection:
            await period_bounds(connection, period)
    except NotSigned:
        return False
    return True


async def _entered(connections: Connections, period: Period) -> EnteredPeriod:
    async with snapshot(connections.pool) as connection:
        return await entered_period(connection, period)


async def _write(connections: Connections, wish: BundleWish, order: ExportOrder, output: Path) -> dict[str, Any]:
    entered = None
    ids = wish.workflow_ids
    if wish.period is not None:
        entered = await until_signed(connections, partial(_entered, connections, wish.period))
        ids = entered.chosen
        tell(f"The period has {counted(len(entered.workflows), 'workflow')}; {counted(len(ids), 'bundle')} to write.")
    is_earlier = partial(_is_bundle_of, ids, wish.period)
    await asyncio.to_thread(_expect_earlier, output, is_earlier)  # before the export is recorded
    exported = await record_exports(connections, ids, order, Callbacks(untaken=tell_untaken))
    with bundle_writer(output, is_earlier) as writer:
        if entered is None and len(ids) == 1:
            only = ids[0]
            bundle = await signed_bundle(connections, only, order, through=exported[only])
            for name in sorted(bundle):
                writer.write(name, bundle[name])
            return {**_told(bundle, only), "path": str(output)}
        return {**await _write_collection(connections, exported, entered, order, writer), "path": str(output)}


def _expect_earlier(output: Path, is_earlier: Callable[[bytes], bool]) -> None:
    if output.is_file():
        expect_earlier(output, is_earlier)


async def _write_collection(
    connections: Connections,
    exported: Mapping[str, int],
    entered: EnteredPeriod | None,
    order: ExportOrder,
    writer: BundleWriter,
) -> dict[str, Any]:
    """Write the bundle of each workflow into a folder of its own, and the proof of the period beside them."""
    told = list[dict[str, Any]]()
    for workflow_id, through in sorted(exported.items()):
        bundle = await signed_bundle(connections, workflow_id, order, through=through, with_script=False)
        for name in sorted(bundle):
            writer.write(f"workflows/{workflow_id}/{name}", bundle[name])
        told.append(_told(bundle, workflow_id))
    if entered is not None:
        for name, data in (await until_signed(connections, partial(_period, connections, entered, order.held))).items():
            writer.write(name, data)
    writer.write("verify.py", verify_script().encode())
    writer.write_manifest()
    return {
        "events": sum(each["events"] for each in told),
        "blobs": sum(each["blobs"] for each in told),
        "population": None if entered is None else len(entered.workflows),
        "workflows": told,
    }


async def _period(connections: Connections, entered: EnteredPeriod, held: Sequence[int]) -> dict[str, bytes]:
    async with snapshot(connections.pool) as connection:
        return await period_files(connection, entered, held)


def _told(bundle: Mapping[str, bytes], workflow: str) -> dict[str, Any]:
    proof = TlogProof.parse(bundle["head.tlog-proof"].decode())
    return {
        "workflowId": workflow,
        "events": bundle[_EVENTS].count(b"\n"),
        "blobs": sum(name.startswith("blobs/") for name in bundle),
        "checkpointSize": Checkpoint.parse(SignedNote.parse(proof.checkpoint).text).size,
        "checkpointTime": complete_until(orjson.loads(bundle["heads/entry.json"])),
        "key": bundle[_KEYS].decode().partition("\n")[0],
    }


def _is_bundle_of(workflow_ids: Sequence[str], period: Period | None, there: bytes) -> bool:
    """Return whether a file is an earlier bundle of the same period, or else of the same workflows."""
    try:
        with zipfile.ZipFile(io.BytesIO(there)) as archive:
            names = archive.namelist()
            if period is not None:
                told = orjson.loads(archive.read("period/period.json"))
                return (told["since"], told["until"], told["sample"], told["seed"]) == period
            if "period/period.json" in names or len(workflow_ids) > 1:
                folders = {name.split("/")[1] for name in names if name.startswith("workflows/")}
                return "period/period.json" not in names and folders == {*workflow_ids}
            return workflow_ids[0] in archive.read("entries.jsonl").decode()
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError):
        return False
