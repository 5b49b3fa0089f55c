"""Verify an audit bundle of PowerOn, with Python's standard library alone.

A verified ledger proves that the stored history was not altered after a checkpoint; it does not prove that what a
service reported is true, nor that nothing was left out at the source.
"""

import argparse
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from poweron_projections.audit.notes import (
    ED25519,
    ED25519_COSIGNATURE,
    ML_DSA_44_COSIGNATURE,
    InvalidNote,
    SignedNote,
    VerifierKey,
)
from poweron_projections.audit.tlog_policy import TlogPolicy
from poweron_projections.audit.verifier.answer_rules import milliseconds_of
from poweron_projections.audit.verifier.bundle_claims import STATES, BundleClaim, Trust, Verification
from poweron_projections.audit.verifier.bundle_files import UnreadableBundle, read_bundle
from poweron_projections.audit.verifier.bundle_timeline import PROOF
from poweron_projections.audit.verifier.strict_json import parsed

OK, FAILED, USAGE = 0, 1, 2
_WORDS: Final = {"ok": "ok", "fail": "FAIL", "not_checked": "not checked"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Verify the bundle that the arguments name, write the result, and return the exit code."""
    given = _parser().parse_args(arguments)
    try:
        trust = trust_of(given.key, given.checkpoint, given.max_age, allow_withheld=given.allow_withheld)
        trust = with_witnesses(trust, given.witness, given.policy)
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return USAGE
    verification = verified_bundle(Path(given.bundle), trust)
    text = json.dumps(result_of(verification)) if given.json else report_of(verification, given.bundle)
    sys.stdout.write(f"{text}\n")
    return OK if verification.is_ok else FAILED


def trust_of(keys: Sequence[str], checkpoints: Sequence[str], max_age: str | None, *, allow_withheld: bool) -> Trust:
    """Read what the auditor gives; raise ValueError with a sentence if it cannot be used."""
    of_ledger = [_key("--key", vkey, (ED25519, ML_DSA_44_COSIGNATURE)) for vkey in keys]
    first, *further = sorted(of_ledger, key=lambda key: key.algorithm)
    if first.algorithm != ED25519:
        raise ValueError("--key: give the Ed25519 key of the ledger, which `poweron audit key` prints first.")
    checked = [_note(path) for path in checkpoints]
    return Trust(first, checked, _age(max_age), allow_withheld, further_keys=further)


def with_witnesses(trust: Trust, vkeys: Sequence[str], policy: str | None) -> Trust:
    """Add the witnesses that the auditor asks for; raise ValueError with a sentence if they cannot be used."""
    keys = [_key("--witness", vkey, (ED25519_COSIGNATURE, ML_DSA_44_COSIGNATURE)) for vkey in vkeys]
    if policy is None:
        return replace(trust, witnesses=keys)
    try:
        read = TlogPolicy.parse(Path(policy).read_bytes())
    except (OSError, ValueError) as error:
        raise ValueError(f"--policy {policy}: {error}") from error
    if read.logs and trust.key not in read.logs:
        raise ValueError(f"--policy {policy}: it does not list the key that you gave with --key.")
    return replace(trust, witnesses=keys, policy=read)


def verified_bundle(path: Path, trust: Trust) -> Verification:
    """Check every claim of the bundle at this path."""
    try:
        verification = Verification(read_bundle(path), trust)
        verification.run()
    except UnreadableBundle as error:
        return Verification({}, trust, claims=[BundleClaim("V1", "fail", str(error))])
    return verification


def _parser() -> argparse.ArgumentParser:
    told = "Verify an audit bundle of PowerOn."
    parser = argparse.ArgumentParser(prog="verify.py", description=told, epilog=PROOF)
    add = parser.add_argument
    add("bundle", metavar="BUNDLE", help="the folder or the zip")
    add("--key", metavar="VKEY", required=True, action="append", help="the key of the ledger, which you got elsewhere")
    add("--witness", metavar="VKEY", action="append", default=[], help="a witness that must have cosigned; repeatable")
    add("--policy", metavar="FILE", help="which witnesses must have cosigned, in the format C2SP tlog-policy")
    add("--checkpoint", metavar="OLD", action="append", default=[], help="a checkpoint that you kept")
    add("--max-age", metavar="AGE", help="how old the checkpoint may be, such as 1h or 7d")
    add("--allow-withheld", action="store_true", help="accept a bundle without contents")
    add("--json", action="store_true", help="print the result as JSON")
    return parser


def _key(option: str, text: str, kinds: Collection[int]) -> VerifierKey:
    try:
        key = VerifierKey.parse(text)
    except InvalidNote as error:
        raise ValueError(f"{option}: {error}") from error
    if key.algorithm not in kinds:
        raise ValueError(f"{option}: the key of {key.name!r} is {'a witness' if option == '--key' else 'a ledger'}'s.")
    return key


def _note(path: str) -> SignedNote:
    try:
        return SignedNote.parse(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"--checkpoint {path}: {error}") from error


def _age(text: str | None) -> int | None:
    if text is None:
        return None
    if not re.fullmatch(r"[1-9][0-9]{0,5}[smhd]", text):
        raise ValueError("--max-age is a whole number and s, m, h or d, such as 1h.")
    return milliseconds_of(text) // 1_000


def result_of(verification: Verification) -> dict[str, Any]:
    """Return the result as values for JSON."""
    blobs = Counter(verification.blobs.values())
    return {
        "verdict": "ok" if verification.is_ok else "fail",
        "workflowId": verification.entries[0].get("wf") if verification.entries else None,
        "origin": None if verification.checkpoint is None else verification.checkpoint.origin,
        "asOf": _as_of(verification),
        "events": len(verification.events),
        "blobs": {state: blobs[state] for state in STATES},
        "claims": [
            {"id": each.id, "name": each.name, "status": each.status, "detail": each.detail}
            for each in verification.claims
        ],
    }


def report_of(verification: Verification, bundle: str) -> str:
    """Return the result as text for people."""
    lines = [PROOF, ""]
    for claim in verification.claims:
        detail = f": {claim.detail}" if claim.detail else ""
        lines.append(f"{claim.id:>3}  {_WORDS[claim.status]:<11}  {claim.name}{detail}.")
    blobs = Counter(verification.blobs.values())
    contents = ", ".join(f"{blobs[state]} {state}" for state in STATES if blobs[state]) or "none"
    what = f"{len(verification.events)} events as of {_as_of(verification)}; contents: {contents}."
    verdict = "is what the ledger holds" if verification.is_ok else "is NOT verified"
    return "\n".join([*lines, "", f"{bundle} {verdict}. {what}"])


def _as_of(verification: Verification) -> str | None:
    try:
        seconds = parsed(verification.files["heads/entry.json"])["time"] / 1000
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
    except (KeyError, ValueError, TypeError, OverflowError, OSError):
        return None


if __name__ == "__main__":
    sys.exit(main())
