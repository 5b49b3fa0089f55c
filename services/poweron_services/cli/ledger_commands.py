"""`poweron audit`: how the ledger is, its keys, and the verification of bundles and of everything."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import typer

from poweron_projections.audit.ledger_status import LedgerStatus
from poweron_projections.audit.verifier.verify_command import report_of, result_of, trust_of, verified_bundle
from poweron_projections.audit.verify_script import verify_script
from poweron_services.cli.arguments import AsJson
from poweron_services.cli.command_group import command_group
from poweron_services.cli.context import FAILED, USAGE
from poweron_services.cli.error_messages import load_settings, run_work, sentence, sentences, stop
from poweron_services.cli.output import counted, print_json, stdout, tell
from poweron_services.client.audit_status import AuditStatus
from poweron_services.client.audit_status import audit_status as client_status
from poweron_services.settings.config import Settings
from poweron_services.settings.ledger_keys import ledger_keys, rotate_ledger_key
from poweron_services.standalone import open_connections
from poweron_services.wiring import now_ms

audit = command_group("Verify audit bundles, and show the keys of the ledger.")


@audit.command("key")
@sentences()
def audit_key(as_json: AsJson = False) -> None:
    """Show the public keys of the ledger, for those who verify it.

    Hand them over in person, or publish them where they cannot be exchanged. The first is the one for `--key`.
    """
    keys = [str(key.public) for key in ledger_keys(load_settings())]
    if as_json:
        print_json({"keys": keys})
        return
    for key in keys:
        typer.echo(key)


@audit.command("rotate")
@sentences()
def audit_rotate(as_json: AsJson = False) -> None:
    """Make a new key for the ledger, which the old one announces.

    Restart the processes that play the role `ledger`: the first one that writes enters the new key under a checkpoint
    of the old one, and signs with the new one from then on. Who has the old key follows that.
    """
    keys = [str(key.public) for key in rotate_ledger_key(load_settings())]
    tell("Restart the processes that play the role `ledger`; they announce the new key under the old one.")
    if as_json:
        print_json({"keys": keys})
        return
    for key in keys:
        typer.echo(key)


@audit.command("status")
@sentences()
def audit_status(as_json: AsJson = False) -> None:
    """Show how far the ledger is, and whether what it signed still holds.

    Exit 1 if it raised an alarm, or if a value is beyond its limit in the settings.
    """
    found = run_work(_audit_status(load_settings()))
    if as_json:
        alarm = {} if found.alarm is None else {"alarm": sentence(found.alarm)}
        print_json(found.status.model_dump(mode="json", by_alias=True) | alarm)
    else:
        for line in status_lines(found.status):
            stdout.print(line)
    if found.alarm is not None:
        tell(f"Alarm: {sentence(found.alarm)}", "bold red")
    for name in found.beyond:
        tell(BEYOND[name], "bold red")
    if found.alarm is not None or found.beyond:
        raise typer.Exit(FAILED)


BEYOND: Final = {
    "lagMs": "A record waits for its entry for longer than POWERON_AUDIT_MAX_LAG. Is a process playing `ledger`?",
    "checkpointAgeSeconds": "The newest checkpoint is older than POWERON_AUDIT_MAX_CHECKPOINT_AGE, or there is none.",
    "witnessAgeSeconds": "The newest cosignature of the witnesses is older than POWERON_AUDIT_MAX_WITNESS_AGE.",
    "quorumMet": "Fewer witnesses than the policy asks for have cosigned the newest checkpoint.",
}


async def _audit_status(settings: Settings) -> AuditStatus:
    async with open_connections(settings, tell) as connections:
        return await client_status(connections, now_ms())


def status_lines(status: LedgerStatus) -> Iterator[str]:
    """Yield the lines that people read."""
    waiting = f"{counted(status.lag_records, 'record')} not entered yet, the oldest for {status.lag_ms / 1000:.1f} s"
    yield f"Ledger: {status.entries:,} entries; {waiting if status.lag_records else 'every record is entered'}."
    if status.checkpoint_size is None:
        yield "Checkpoint: none yet."
    else:
        yield f"Checkpoint: of {status.checkpoint_size:,} entries, signed {status.checkpoint_age_seconds} s ago."
    if status.witness_age_seconds is None:
        yield "Witnesses: none has cosigned."
    else:
        yield f"Witnesses: last cosigned {status.witness_age_seconds} s ago."
    lacking = f"they lack {counted(status.projection_lag, 'record')}"
    yield f"Rows: {lacking if status.projection_lag else 'complete'}."
    yield f"Rejected records: {status.rejects:,}. Repeated entries: {status.repeated:,}. Erasures: {status.erased:,}."
    yield f"Everything verified on this machine: {status.last_verified or 'never'}."


@audit.command("verify")
@sentences()
def audit_verify(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="The folder or the zip.")],
    *,
    key: Annotated[str, typer.Option(metavar="VKEY", help="The key of the ledger, which you got elsewhere.")],
    checkpoint: Annotated[
        list[Path] | None, typer.Option(metavar="OLD", help="A checkpoint that you kept; repeatable.")
    ] = None,
    max_age: Annotated[
        str | None, typer.Option(metavar="AGE", help="How old the checkpoint may be, such as 1h or 7d.")
    ] = None,
    allow_withheld: Annotated[bool, typer.Option(help="Accept a bundle without contents.")] = False,
    as_json: AsJson = False,
) -> None:
    """Verify a bundle, as the script in it does."""
    kept = [str(path) for path in checkpoint or []]
    try:
        trust = trust_of(key, kept, max_age, allow_withheld=allow_withheld)
    except ValueError as error:
        stop(str(error), USAGE)
    verification = verified_bundle(bundle, trust)
    if as_json:
        print_json(result_of(verification))
    else:
        typer.echo(report_of(verification, str(bundle)))
    if not verification.is_ok:
        raise typer.Exit(FAILED)


@audit.command("verifier")
@sentences()
def audit_verifier(as_json: AsJson = False) -> None:
    """Print the script that verifies bundles, for those who distrust the one in a bundle."""
    if as_json:
        print_json({"script": verify_script()})
    else:
        typer.echo(verify_script(), nl=False)
