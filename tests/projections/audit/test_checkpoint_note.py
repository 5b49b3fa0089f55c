"""Signed notes and checkpoints: golden vectors that Go opened, and what does not pass for one."""

from contextlib import suppress

import pytest
from audit_vectors import VECTORS
from hypothesis import given
from hypothesis import strategies as st

from poweron_projections.audit.checkpoint import Checkpoint, InvalidCheckpoint
from poweron_projections.audit.note_signatures import SigningKey, verified
from poweron_projections.audit.notes import (
    ED25519,
    ED25519_COSIGNATURE,
    ML_DSA_44_COSIGNATURE,
    Algorithm,
    InvalidNote,
    SignedNote,
    VerifierKey,
    signed_time,
)
from poweron_projections.audit.tlog_proof import InvalidProof, TlogProof
from poweron_projections.audit.witness_request import InvalidWitnessRequest, WitnessRequest

NOTE = SignedNote.parse(VECTORS["checkpoint"])
LOG = SigningKey(VECTORS["origin"], ED25519, bytes.fromhex(VECTORS["seeds"]["log"]))
WITNESS = SigningKey("witness.example/w1", ED25519_COSIGNATURE, bytes.fromhex(VECTORS["seeds"]["witness"]))
QUANTUM = SigningKey(VECTORS["origin"], ML_DSA_44_COSIGNATURE, bytes(32))
ALL = [LOG, WITNESS, QUANTUM]


def test_the_golden_keys_and_signatures_are_reproduced_byte_for_byte() -> None:
    assert (str(LOG.public), str(WITNESS.public)) == (VECTORS["vkey"], VECTORS["witness_vkey"])
    assert [VerifierKey.parse(str(key.public)) for key in ALL] == [key.public for key in ALL]
    signatures = [LOG.sign(NOTE.text), WITNESS.sign(NOTE.text, VECTORS["cosignature_time"])]
    assert str(SignedNote(NOTE.text, signatures)) == VECTORS["checkpoint"]
    assert [key for key, _ in verified(NOTE, [LOG.public, WITNESS.public])] == [LOG.public, WITNESS.public]
    assert signed_time(NOTE.signatures[1].signature)[0] == VECTORS["cosignature_time"]


def test_a_checkpoint_is_read_as_it_is_written() -> None:
    checkpoint = Checkpoint.parse(NOTE.text)
    assert (checkpoint.origin, checkpoint.size, checkpoint.root.hex()) == (VECTORS["origin"], 5, VECTORS["roots"]["5"])
    assert str(checkpoint) == NOTE.text
    assert Checkpoint.parse(f"{NOTE.text}an extension\n") == checkpoint


@pytest.mark.parametrize("key", ALL, ids=lambda key: hex(key.algorithm))
def test_a_signature_holds_for_its_text_time_name_and_key_only(key: SigningKey) -> None:
    line = key.sign(NOTE.text, 7)
    signed = SignedNote(NOTE.text, [line])
    assert verified(signed, [key.public]) == [(key.public, line)]
    assert verified(SignedNote.parse(str(signed)), [key.public]) == [(key.public, line)]
    forged = [
        SignedNote(NOTE.text.replace("\n5\n", "\n6\n"), [line]),
        SignedNote(NOTE.text, [line._replace(signature=line.signature[:-1] + bytes([line.signature[-1] ^ 1]))]),
        SignedNote(NOTE.text, [line._replace(signature=line.signature[:-1])]),
        SignedNote(NOTE.text, [line._replace(signature=bytes([line.signature[0] ^ 1]) + line.signature[1:])]),
    ]
    for note in forged:
        with pytest.raises(InvalidNote, match="was not made with it"):
            verified(note, [key.public])
    others = [SigningKey("other", key.algorithm, key.seed), SigningKey(key.name, key.algorithm, b"other" * 6 + b"!!")]
    for other in others:
        assert verified(signed, [other.public]) == []
    names: list[Algorithm] = [ED25519, ED25519_COSIGNATURE]
    assert len({SigningKey(key.name, algorithm, key.seed).public.id for algorithm in names}) == 2


@pytest.mark.parametrize(
    "note",
    [
        "",
        "no note",
        NOTE.text,
        f"{NOTE.text}\n",
        f"{NOTE.text}\n— name AAAA\n",  # four bytes: an id without a signature
        f"{NOTE.text}\n— name AAAAAAA\n",
        f"{NOTE.text}\n- name AAAAAAAA\n",
        f"{NOTE.text}\n— a+b AAAAAAAA\n",
        f"{NOTE.text}\n— name  AAAAAAAA\n",
        f"{NOTE.text}\n— name AAAAAAAA",
        f"{NOTE.text}\n— name AAAAAAAA\r\n",
        f"a\tb\n{NOTE.text}\n— name AAAAAAAA\n",
        f"{NOTE.text}\n" + "— name AAAAAAAA\n" * 65,
    ],
)
def test_what_is_no_note_is_refused(note: str) -> None:
    with pytest.raises(InvalidNote):
        SignedNote.parse(note)


@pytest.mark.parametrize(
    "vkey",
    [
        "",
        "name",
        "name+00000000",
        "name+00000000+!",
        "name+00000000+AAAA",
        str(LOG.public).replace("5f3d", "5f3e"),
        str(LOG.public).replace("audit", "Audit"),
        f"a b+{LOG.public.id.hex()}+{str(LOG.public).rpartition('+')[2]}",
        str(LOG.public)[:-4],
    ],
)
def test_what_is_no_key_is_refused(vkey: str) -> None:
    with pytest.raises(InvalidNote):
        VerifierKey.parse(vkey)


NO_CHECKPOINTS = ["", "\n", "origin\n", "origin\n5\n", "origin\n5\nAAAA\n", NOTE.text[:-1]]
CHANGES = [
    ("\n5\n", "\n05\n"),
    ("\n5\n", "\n-5\n"),
    ("\n5\n", f"\n{2**63}\n"),
    ("L0iR", "!0iR"),
    ("=", ""),
    ("L0iR", "L0iä"),
]


@pytest.mark.parametrize("text", [*NO_CHECKPOINTS, *(NOTE.text.replace(*change) for change in CHANGES)])
def test_what_is_no_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(InvalidCheckpoint):
        Checkpoint.parse(text)
    with pytest.raises(ValueError, match="no checkpoint"):
        QUANTUM.sign(text)


@given(st.text(max_size=300))
def test_no_text_raises_anything_else(text: str) -> None:
    for parse, error in (
        (SignedNote.parse, InvalidNote),
        (VerifierKey.parse, InvalidNote),
        (lambda text: Checkpoint.parse(f"origin\n5\n{text}\n"), InvalidCheckpoint),
        (lambda text: TlogProof.parse(f"c2sp.org/tlog-proof@v1\nindex 0\n{text}\n\nnote"), InvalidProof),
        (lambda text: WitnessRequest.parse(f"old 0\n{text}\n\n{NOTE}".encode(errors="replace")), InvalidWitnessRequest),
    ):
        with suppress(error):
            parse(text)
