"""`poweron audit`: how the ledger is, its keys, and the verification of bundles and of everything."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from poweron_projections.audit.full_verification import FullVerification, verify_everything
from poweron_projections.audit.ledger_status import LedgerStatus
from poweron_projections.audit.note_signatures import is_signed_by
from poweron_projections.audit.verifier.bundle_claims import Trust
from poweron_projections.audit.verifier.bundle_timeline import PROOF
from poweron_projections.audit.verifier.verify_command import (
    asked_period,
    check_path,
    claim_line,
    report_of,
    result_of,
    trust_of,
    verified_bundle,
    with_witnesses,
)
from poweron_projections.audit.verify_script import verify_script
from poweron_projections.reader import time
from poweron_projections.verify import first_difference
from poweron_services.cli.arguments import AsJson
from poweron_services.cli.command_group import command_group
from poweron_services.cli.context import FAILED, USAGE
from poweron_services.cli.error_messages import load_settings, run_work, sentence, sentences, stop
from poweron_services.cli.identify_command import audit_identify
from poweron_services.cli.output import counted, print_json, print_keys, stdout, tell
from poweron_services.cli.progress_bar import bar
from poweron_services.client.audit_status import AuditStatus, note_verified
from poweron_services.client.audit_status import audit_status as client_status
from poweron_services.client.content_claim import wrong_contents
from poweron_services.process_memory import tune_memory
from poweron_services.settings.config import Settings
from poweron_services.settings.ledger_keys import known_ledger_keys, ledger_keys, rotate_ledger_key
from poweron_services.standalone import is_played, open_connections
from poweron_services.wiring import now_ms

audit = command_group("Verify audit bundles and files, and show the keys of the ledger.")
audit.command("identify")(audit_identify)


@audit.command("key")
@sentences()
def audit_key(as_json: AsJson = False) -> None:
    """Show the public keys of the ledger, for those who verify it.

    Hand them over in person, or publish them where they cannot be exchanged. The first is the one for `--key`.
    """
    settings = load_settings()
    is_new = not known_ledger_keys(settings)
    keys = ledger_keys(settings)
    if is_new:
        tell(f"Made a new key for the ledger {keys[0].name} in {settings.home}: nothing is signed with it yet.")
    print_keys([str(key.public) for key in keys], "--key", as_json=as_json)


@audit.command("rotate")
@sentences()
def audit_rotate(as_json: AsJson = False) -> None:
    """Make a new key for the ledger, which the old one announces.

    Restart the processes that play the role `ledger`: the first one that writes enters the new key under a checkpoint
    of the old one, and signs with the new one from then on. Who has the old key follows that.
    """
    keys = rotate_ledger_key(load_settings())
    tell("Restart the processes that play the role `ledger`; they announce the new key under the old one.")
    print_keys([str(key.public) for key in keys], "--key", as_json=as_json)


@audit.command("status")
@sentences()
def audit_status(as_json: AsJson = False) -> None:
    """Show how far the ledger is, and whether what it signed still holds.

    Exit 1 if it raised an alarm, or if a value is beyond its limit in the settings.
    """
    found, is_played = run_work(_audit_status(load_settings()))
    if as_json:
        alarm = {} if found.alarm is None else {"alarm": sentence(found.alarm)}
        print_json(found.status.model_dump(mode="json", by_alias=True) | alarm)
    else:
        for line in status_lines(found.status):
            stdout.print(line)
        if found.status.lag_records and not is_played:
            tell("No process plays the role `ledger` now: `poweron serve` enters what waits.")
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
    "quorumMet": "Fewer witnesses than the policy asks for have cosigned the ledger.",
}


async def _audit_status(settings: Settings) -> tuple[AuditStatus, bool]:
    async with open_connections(settings, tell) as connections:
        return await client_status(connections, now_ms()), await is_played(connections, "ledger")


def status_lines(status: LedgerStatus) -> Iterator[str]:
    """Yield the lines that people read."""
    waiting = f"{counted(status.lag_records, 'record')} not entered yet, the oldest for {status.lag_ms / 1000:.1f} s"
    yield f"Ledger: {status.entries:,} entries; {waiting if status.lag_records else 'every record is entered'}."
    if status.checkpoint_size is None:
        yield "Checkpoint: none yet."
    else:
        yield f"Checkpoint: of {status.checkpoint_size:,} entries, signed {status.checkpoint_age_seconds} s ago."
    if status.quorum_met is None:
        yield "Witnesses: none are configured (POWERON_LEDGER_POLICY)."
    elif status.witness_age_seconds is None:
        yield "Witnesses: none has cosigned."
    else:
        yield f"Witnesses: last cosigned {status.witness_age_seconds} s ago."
    lacking = f"they lack {counted(status.projection_lag, 'record')}"
    yield f"Rows: {lacking if status.projection_lag else 'complete'}."
    yield f"Rejected records: {status.rejects:,}. Repeated entries: {status.repeated:,}. Erasures: {status.erased:,}."
    yield f"Everything verified on this machine: {status.last_verified or 'never'}."


Witnesses = Annotated[
    list[str] | None, typer.Option(metavar="VKEY", help="A witness that must have cosigned; repeatable.")
]
KeyOfLedger = Annotated[
    list[str] | None, typer.Option(metavar="VKEY", help="The key of the ledger, which you got elsewhere; repeatable.")
]
ReadContent = Annotated[
    bool,
    typer.Option(
        "--content", help="Read all documents, prompts and answers, too (V10); those of a BUNDLE are always read."
    ),
]
KeptCheckpoints = Annotated[
    list[Path] | None, typer.Option(metavar="OLD", help="A checkpoint that you kept; repeatable.")
]
AskedSince = Annotated[
    str | None, typer.Option(metavar="TIME", help="The beginning of the period that you asked for (UTC).")
]
AskedUntil = Annotated[str | None, typer.Option(metavar="TIME", help="The end of that period, not included (UTC).")]
AskedSample = Annotated[int | None, typer.Option(metavar="N", help="The size of the sample that you asked for.")]
AskedSeed = Annotated[str | None, typer.Option(metavar="TEXT", help="The text with which you had the sample drawn.")]


@audit.command("verify")
@sentences()
def audit_verify(
    bundle: Annotated[
        Path | None, typer.Argument(metavar="BUNDLE", help="The folder or the zip; without it, everything.")
    ] = None,
    *,
    key: KeyOfLedger = None,
    witness: Witnesses = None,
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Which witnesses must have cosigned (C2SP tlog-policy).")
    ] = None,
    checkpoint: KeptCheckpoints = None,
    max_age: Annotated[
        str | None, typer.Option(metavar="AGE", help="How old the checkpoint may be, such as 1h or 7d.")
    ] = None,
    content: ReadContent = False,
    allow_withheld: Annotated[bool, typer.Option(help="Accept a bundle without contents.")] = False,
    ignore_timeline: Annotated[bool, typer.Option(help="Accept a timeline that another release wrote.")] = False,
    since: AskedSince = None,
    until: AskedUntil = None,
    sample: AskedSample = None,
    seed: AskedSeed = None,
    as_json: AsJson = False,
) -> None:
    """Verify a bundle, as the script in it does; without one, everything in Kafka and Postgres.

    Then each record, entry, verdict and checkpoint is computed again, and all rows are compared with the log. Give both
    lines of `poweron audit key` with --key to have signatures of ML-DSA-44 checked, too.
    """
    kept = [str(path) for path in checkpoint or []]
    try:
        trust = trust_of(key or [], kept, max_age)
        trust = with_witnesses(trust, witness or [], None if policy is None else str(policy))
        trust = replace(
            trust,
            is_made_with=is_signed_by,
            allow_withheld=allow_withheld,
            ignore_timeline=ignore_timeline,
            period=asked_period(since, until, sample, seed),
        )
        if bundle is not None:
            check_path(bundle)
        elif trust.period is not None or allow_withheld or ignore_timeline:
            stop(
                "--since, --until, --sample, --allow-withheld and --ignore-timeline are about a bundle: name it.", USAGE
            )
    except ValueError as error:
        stop(str(error), USAGE)
    if bundle is None:
        result = run_work(_verify_everything(load_settings(), trust, reading=content))
        told, text, is_ok = everything_json(result), everything_text(result), result.is_ok
    else:
        verification = verified_bundle(bundle, trust)
        told, text, is_ok = result_of(verification), report_of(verification, str(bundle)), verification.is_ok
    if as_json:
        print_json(told)
    else:
        typer.echo(text)
    if not is_ok:
        raise typer.Exit(FAILED)


async def _verify_everything(settings: Settings, trust: Trust, *, reading: bool) -> FullVerification:
    async with open_connections(settings, tell) as connections:
        tune_memory()
        log, pool, content = connections.log.unguarded, connections.pool, connections.content
        if reading:
            await content.check()
        with bar("Verifying", "entries, then contents" if reading else "entries") as on_read:
            compare_rows = partial(first_difference, log, pool)
            check_contents = partial(wrong_contents, pool, content, on_read) if reading else None
            result = await verify_everything(log, trust, compare_rows, on_read, check_contents)
    if result.is_ok:
        note_verified(settings, size=result.size, now_ms=now_ms())
    return result


def everything_json(result: FullVerification) -> dict[str, Any]:
    """Return the result as `--json` prints it."""
    return {
        "verdict": "ok" if result.is_ok else "fail",
        "origin": result.origin,
        "asOf": None if result.signed_ms is None else time(result.signed_ms),
        "events": result.events,
        "claims": [
            {"id": claim.id, "name": claim.name, "status": claim.status, "detail": claim.detail}
            for claim in result.claims
        ],
    }


def everything_text(result: FullVerification) -> str:
    """Return the result as text for people."""
    as_of = "never signed" if result.signed_ms is None else f"last signed {time(result.signed_ms)}"
    foreign = f" Entries that no ledger wrote, which readers skip: {result.foreign:,}." if result.foreign else ""
    verdict = "is verified: it is what its checkpoints say" if result.is_ok else "is NOT verified"
    what = f"{result.events:,} events in {result.size:,} entries, {as_of}."
    return "\n".join([PROOF, "", *map(claim_line, result.claims), "", f"{result.origin} {verdict}. {what}{foreign}"])


@audit.command("verifier")
@sentences()
def audit_verifier(as_json: AsJson = False) -> None:
    """Print the script that verifies bundles, for those who distrust the one in a bundle."""
    if as_json:
        print_json({"script": verify_script()})
    else:
        typer.echo(verify_script(), nl=False)
