"""`poweron audit`: the keys of the ledger, and the verification of bundles."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from poweron_projections.audit.note_signatures import is_signed_by
from poweron_projections.audit.verifier.verify_command import (
    report_of,
    result_of,
    trust_of,
    verified_bundle,
    with_witnesses,
)
from poweron_projections.audit.verify_script import verify_script
from poweron_services.cli.arguments import AsJson
from poweron_services.cli.command_group import command_group
from poweron_services.cli.context import FAILED, USAGE
from poweron_services.cli.error_messages import load_settings, sentences, stop
from poweron_services.cli.output import print_json
from poweron_services.settings.ledger_keys import ledger_keys

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


@audit.command("verify")
@sentences()
def audit_verify(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="The folder or the zip.")],
    *,
    key: Annotated[
        list[str], typer.Option(metavar="VKEY", help="The key of the ledger, which you got elsewhere; repeatable.")
    ],
    witness: Annotated[
        list[str] | None, typer.Option(metavar="VKEY", help="A witness that must have cosigned; repeatable.")
    ] = None,
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Which witnesses must have cosigned (C2SP tlog-policy).")
    ] = None,
    checkpoint: Annotated[
        list[Path] | None, typer.Option(metavar="OLD", help="A checkpoint that you kept; repeatable.")
    ] = None,
    max_age: Annotated[
        str | None, typer.Option(metavar="AGE", help="How old the checkpoint may be, such as 1h or 7d.")
    ] = None,
    allow_withheld: Annotated[bool, typer.Option(help="Accept a bundle without contents.")] = False,
    as_json: AsJson = False,
) -> None:
    """Verify a bundle, as the script in it does, and also signatures of ML-DSA-44.

    Give both lines of `poweron audit key` with --key to have both signatures checked.
    """
    kept = [str(path) for path in checkpoint or []]
    try:
        trust = trust_of(key, kept, max_age, allow_withheld=allow_withheld)
        trust = with_witnesses(trust, witness or [], None if policy is None else str(policy))
    except ValueError as error:
        stop(str(error), USAGE)
    verification = verified_bundle(bundle, replace(trust, is_made_with=is_signed_by))
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
