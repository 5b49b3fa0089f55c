"""The keys that count: the auditor's, and those that it has announced, each under a checkpoint of the one before."""

import re
from collections.abc import Mapping
from typing import Final

from poweron_projections.audit.checkpoint import Checkpoint
from poweron_projections.audit.merkle_tree import is_included, leaf_hash
from poweron_projections.audit.notes import ED25519, SignedNote, VerifierKey
from poweron_projections.audit.tlog_proof import TlogProof
from poweron_projections.audit.verifier.cosignatures import SignatureCheck, has_signature, is_ed25519_line
from poweron_projections.audit.verifier.strict_json import parsed

ANNOUNCED: Final = "keys/announced"
_ANNOUNCEMENT: Final = re.compile(rf"{ANNOUNCED}/([0-9]{{1,18}})\.json")


def followed_keys(
    files: Mapping[str, bytes], key: VerifierKey, is_made_with: SignatureCheck = is_ed25519_line
) -> list[VerifierKey]:
    """Return this key and those that follow it, in their order; an announcement that no such key signed says nothing.

    Raises:
        ValueError, KeyError, TypeError: an announcement is not as a ledger writes it.
    """
    keys = [key]
    for place in sorted(int(match[1]) for name in files if (match := _ANNOUNCEMENT.fullmatch(name))):
        line = files[f"{ANNOUNCED}/{place}.json"]
        proof = TlogProof.parse(files[f"{ANNOUNCED}/{place}.tlog-proof"].decode())
        note = SignedNote.parse(proof.checkpoint)
        checkpoint, entry = Checkpoint.parse(note.text), parsed(line)
        is_ours = (
            checkpoint.origin == key.name and has_signature(note, keys[-1], is_made_with) and entry["kind"] == "key"
        )
        if is_ours and is_included(leaf_hash(line), proof.leaf_index, checkpoint.size, proof.hashes, checkpoint.root):
            named = [VerifierKey.parse(each) for each in entry["keys"]]
            keys += [each for each in named if (each.name, each.algorithm) == (key.name, ED25519) and each not in keys]
    return keys
