"""Verify an audit bundle of PowerOn, with Python's standard library alone.

A verified ledger proves that the stored history was not altered after a checkpoint; it does not prove that what a
service reported is true, nor that nothing was left out at the source.
"""

import argparse
import json
import re
import sys
import time
from calendar import timegm
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from poweron_projections.audit.checkpoint import Checkpoint
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
from poweron_projections.audit.verifier.bundle_claims import (
    STATES,
    AskedPeriod,
    BundleClaim,
    CheckpointClaims,
    Trust,
    Verification,
)
from poweron_projections.audit.verifier.bundle_files import UnreadableBundle, read_bundle
from poweron_projections.audit.verifier.bundle_timeline import PROOF
from poweron_projections.audit.verifier.period_claims import PERIOD, WORKFLOWS, CollectionVerification
from poweron_projections.audit.verifier.period_rules import complete_until
from poweron_projections.audit.verifier.strict_json import parsed

OK, FAILED, USAGE = 0, 1, 2
_WORDS: Final = {"ok": "ok", "fail": "FAIL", "not_checked": "not checked"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Verify the bundle that the arguments name, write the result, and return the exit code."""
    given = _parser().parse_args(arguments)
    try:
        period = asked_period(given.since, given.until, given.sample, given.seed)
        trust = trust_of(given.key, given.checkpoint, given.max_age)
        trust = replace(
            with_witnesses(trust, given.witness, given.policy),
            allow_withheld=given.allow_withheld,
            ignore_timeline=given.ignore_timeline,
            period=period,
        )
        check_path(Path(given.bundle))
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return USAGE
    verification = verified_bundle(Path(given.bundle), trust)
    text = json.dumps(result_of(verification)) if given.json else report_of(verification, given.bundle)
    sys.stdout.write(f"{text}\n")
    return OK if verification.is_ok else FAILED


def trust_of(keys: Sequence[str], checkpoints: Sequence[str], max_age: str | None) -> Trust:
    """Read what the auditor gives; raise ValueError with a sentence if it cannot be used."""
    if not keys:
        raise ValueError(
            "Give the public key of the ledger with --key. Its operator prints it with `poweron audit key`; get it "
            "another way than the bundle, which cannot vouch for itself."
        )
    of_ledger = [_key("--key", vkey, (ED25519, ML_DSA_44_COSIGNATURE)) for vkey in keys]
    first, *further = sorted(of_ledger, key=lambda key: key.algorithm)
    if first.algorithm != ED25519:
        raise ValueError("--key: give the Ed25519 key of the ledger, which `poweron audit key` prints first.")
    checked = [_note(path) for path in checkpoints]
    return Trust(first, checked, _age(max_age), further_keys=further)


def asked_period(since: str | None, until: str | None, sample: int | None, seed: str | None) -> AskedPeriod | None:
    """Read what the auditor asked for; raise ValueError with a sentence if it cannot be used."""
    if (sample, seed) != (None, None) and None in (until, sample, seed):
        raise ValueError("Say all that you asked for: --until, --sample and --seed, and --since if there was one.")
    if (since, until) == (None, None):
        return None
    return AskedPeriod(moment_ms("--since", since), moment_ms("--until", until), sample, seed)


def moment_ms(option: str, text: str | None) -> int | None:
    """Return the milliseconds since 1970 of a date or time in UTC; raise ValueError with a sentence if it is none."""
    if text is None:
        return None
    for form in ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.%fZ"):
        with suppress(ValueError):
            moment = datetime.strptime(text, form)  # noqa: DTZ007 - all times are UTC
            return timegm(moment.timetuple()) * 1_000 + moment.microsecond // 1_000
    raise ValueError(f"{option} {text}: give a date such as 2026-07-01, or a time such as 2026-07-01T00:00:00Z (UTC).")


def check_path(path: Path) -> None:
    """Raise ValueError with a sentence if there is no bundle."""
    if not path.exists():
        raise ValueError(f"There is no bundle {path}. Check the path.")


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


def verified_bundle(path: Path, trust: Trust) -> Verification | CollectionVerification:
    """Check every claim of the bundle at this path, which is about one workflow or several."""
    try:
        files = read_bundle(path)
    except UnreadableBundle as error:
        return Verification({}, trust, claims=[BundleClaim("V1", "fail", str(error))])
    is_collection = trust.period is not None or PERIOD in files or any(name.startswith(WORKFLOWS) for name in files)
    verification = CollectionVerification(files, trust) if is_collection else Verification(files, trust)
    verification.run()
    return verification


def _parser() -> argparse.ArgumentParser:
    told = "Verify an audit bundle of PowerOn."
    parser = argparse.ArgumentParser(prog="verify.py", description=told, epilog=PROOF)
    add = parser.add_argument
    add("bundle", metavar="BUNDLE", help="the folder or the zip")
    add("--key", metavar="VKEY", action="append", default=[], help="the key of the ledger, which you got elsewhere")
    add("--witness", metavar="VKEY", action="append", default=[], help="a witness that must have cosigned; repeatable")
    add("--policy", metavar="FILE", help="which witnesses must have cosigned, in the format C2SP tlog-policy")
    add("--checkpoint", metavar="OLD", action="append", default=[], help="a checkpoint that you kept")
    add("--max-age", metavar="AGE", help="how old the checkpoint may be, such as 1h or 7d")
    add("--allow-withheld", action="store_true", help="accept a bundle without contents")
    add("--ignore-timeline", action="store_true", help="accept a timeline that another release wrote")
    add("--since", metavar="TIME", help="the beginning of the period that you asked for (UTC)")
    add("--until", metavar="TIME", help="the end of that period, not included (UTC)")
    add("--sample", metavar="N", type=int, help="the size of the sample that you asked for")
    add("--seed", metavar="TEXT", help="the text with which you had it drawn")
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
        note = SignedNote.parse(Path(path).read_text(encoding="utf-8"))
        Checkpoint.parse(note.text)
    except OSError as error:
        raise ValueError(f"--checkpoint {path}: it cannot be read: {error.strerror}.") from error
    except ValueError as error:
        said = "it is no checkpoint. Give `period/checkpoint` of a bundle, or what follows the empty line of"
        raise ValueError(f"--checkpoint {path}: {said} `head.tlog-proof`.") from error
    return note


def _age(text: str | None) -> int | None:
    if text is None:
        return None
    if not re.fullmatch(r"[1-9][0-9]{0,5}[smhd]", text):
        raise ValueError("--max-age is a whole number and s, m, h or d, such as 1h.")
    return milliseconds_of(text) // 1_000


def result_of(verification: Verification | CollectionVerification) -> dict[str, Any]:
    """Return the result as values for JSON."""
    if isinstance(verification, CollectionVerification):
        parts = [result_of(each) for each in verification.workflows.values()]
        return {
            "verdict": _verdict(verification),
            "period": _period(verification),
            "asOf": min((part["asOf"] for part in parts if part["asOf"]), default=None),
            "events": sum(part["events"] for part in parts),
            "claims": _claims(verification),
            "workflows": parts,
        }
    blobs = Counter(verification.blobs.values())
    return {
        "verdict": _verdict(verification),
        "workflowId": verification.workflow_id,
        "origin": None if verification.checkpoint is None else verification.checkpoint.origin,
        "asOf": _as_of(verification),
        "events": len(verification.events),
        "blobs": {state: blobs[state] for state in STATES},
        "claims": _claims(verification),
    }


def _verdict(verification: Verification | CollectionVerification) -> str:
    return "ok" if verification.is_ok else "fail"


def _claims(verification: CheckpointClaims) -> list[dict[str, str]]:
    return [
        {"id": each.id, "name": each.name, "status": each.status, "detail": each.detail} for each in verification.claims
    ]


def _period(verification: CollectionVerification) -> dict[str, Any] | None:
    """Return what was proven about the period; None if the bundle is about no period, or cannot be read."""
    if PERIOD not in verification.files:
        return None
    try:
        period = verification.period
        return {
            "since": _utc_of(period["since"]),
            "until": _utc_of(period["until"]),
            "workflows": len(verification.listed),
            "sample": period["sample"],
        }
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, OverflowError, OSError):
        return None


def report_of(verification: Verification | CollectionVerification, bundle: str) -> str:
    """Return the result as text for people."""
    lines = [PROOF, "", *map(claim_line, verification.claims)]
    if isinstance(verification, CollectionVerification):
        lines += _lines_of_workflows(verification)
        blobs, events = verification.blobs_by_state(), sum(len(each.events) for each in verification.workflows.values())
    else:
        blobs, events = Counter(verification.blobs.values()), len(verification.events)
    contents = ", ".join(f"{blobs[state]} {state}" for state in STATES if blobs[state]) or "none"
    as_of = result_of(verification)["asOf"]
    what = f"{_counted(events, 'event')}{f', complete until {as_of}' if as_of else ''}; contents: {contents}."
    verdict = "is verified: it is what the ledger holds" if verification.is_ok else "is NOT verified"
    return "\n".join([*lines, "", f"{bundle} {verdict}. {what}"])


def _lines_of_workflows(verification: CollectionVerification) -> list[str]:
    """Return what was found about each workflow, and which claims of it do not hold; then the period."""
    lines = [""]
    for workflow_id, each in verification.workflows.items():
        lines.append(f"{'ok  ' if each.is_ok else 'FAIL'}  {workflow_id}  {_counted(len(each.events), 'event')}")
        if not each.is_ok:
            lines += [f"      {claim_line(claim)}" for claim in each.claims if not each.holds(claim)]
    period = _period(verification)
    if period is not None:
        ends = f"from {period['since'] or 'the beginning'} to {period['until'] or 'the last checkpoint'}"
        drawn = "all of them" if period["sample"] is None else f"{len(verification.sampled)} drawn by lot"
        lines += ["", f"Period {ends}: {_counted(period['workflows'], 'workflow')}, {drawn}."]
    unchecked = [
        {claim.id for claim in each.claims if claim.status == "not_checked"} for each in verification.workflows.values()
    ]
    if unchecked and (of_all := sorted(set.intersection(*unchecked), key=lambda claim: int(claim[1:]))):
        lines += ["", f"Not checked of any workflow, as you did not ask for it: {', '.join(of_all)}."]
    return lines


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def claim_line(claim: Any) -> str:
    """Return the line of a claim: its id, its status, its name and what was found."""
    detail = f"{'. Not so' if claim.status == 'fail' else ''}: {claim.detail.removesuffix('.')}" if claim.detail else ""
    return f"{claim.id:>3}  {_WORDS[claim.status]:<11}  {claim.name}{detail}."


def _as_of(verification: Verification) -> str | None:
    try:
        return _utc_of(complete_until(parsed(verification.files["heads/entry.json"])))
    except (KeyError, ValueError, TypeError, OverflowError, OSError):
        return None


def _utc_of(time_ms: int | None) -> str | None:
    if time_ms is None:
        return None
    seconds, rest = divmod(time_ms, 1_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + (f".{rest:03}Z" if rest else "Z")


if __name__ == "__main__":
    sys.exit(main())
