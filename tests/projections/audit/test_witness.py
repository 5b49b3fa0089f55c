"""A witness cosigns what continues the checkpoint that it cosigned before, and answers everything else as C2SP says."""

import threading
from pathlib import Path

import orjson
import pytest
from witness_requests import KEYS, LOG, NOW, PUBLIC, request, witness_at

from poweron_projections.audit.checkpoint import Checkpoint
from poweron_projections.audit.checkpoint_witness import Witness, WitnessState
from poweron_projections.audit.note_signatures import SigningKey, is_signed_by
from poweron_projections.audit.notes import (
    ED25519,
    ED25519_COSIGNATURE,
    ML_DSA_44_COSIGNATURE,
    SignedNote,
    VerifierKey,
)
from poweron_projections.audit.verifier.cosignatures import cosignatures_of
from poweron_projections.audit.witness_request import WitnessRequest

FOREIGN = SigningKey(LOG.name, ED25519, b"f" * 32)


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    return witness_at(tmp_path / "state")


def _status(witness: Witness, *told: WitnessRequest) -> list[int]:
    return [witness.add_checkpoint(bytes(each)).status for each in told]


def test_what_continues_is_cosigned_with_both_keys(witness: Witness) -> None:
    for told in (request(0, 0), request(0, 3), request(3, 8), request(8, 8), request(8, 21)):
        answer = witness.add_checkpoint(bytes(told))
        assert answer.status == 200
        note = SignedNote.parse(f"{told.note.text}\n{answer.body.decode()}")
        assert cosignatures_of(note, PUBLIC, is_signed_by) == dict.fromkeys(PUBLIC, NOW)
        assert cosignatures_of(note, PUBLIC) == {PUBLIC[0]: NOW}
    assert witness.known_size(LOG.name) == 21


def test_a_witness_answers_the_size_that_it_has_cosigned_to_who_has_another_one(witness: Witness) -> None:
    assert _status(witness, request(0, 5)) == [200]
    for told in (request(0, 8), request(3, 8), request(0, 3), request(6, 8)):
        assert witness.add_checkpoint(bytes(told)) == (409, b"5\n", 5)


def test_another_history_is_not_cosigned(witness: Witness) -> None:
    assert _status(witness, request(0, 5)) == [200]
    rewritten = request(5, 8, other=True)
    without_proof, same_size = request(5, 8)._replace(proof=[]), request(5, 5, other=True)
    assert _status(witness, rewritten, without_proof, same_size) == [422, 422, 422]
    assert _status(witness, request(5, 5)._replace(proof=[bytes(32)]), request(5, 8)) == [422, 200]
    (refused,) = witness.state.folder.glob("*.refused")
    assert SignedNote.parse(refused.read_text()).text == same_size.note.text
    text = str(Checkpoint(LOG.name, 0, bytes(32)))
    fresh = Witness(KEYS, [LOG.public], WitnessState(witness.state.folder / "fresh"))
    assert _status(fresh, WitnessRequest(0, [], SignedNote(text, [LOG.sign(text)]))) == [422]
    assert _status(fresh, request(0, 5)._replace(proof=[bytes(32)])) == [422]


def test_only_known_keys_of_known_ledgers_count(witness: Witness) -> None:
    stranger = SigningKey("stranger.example", ED25519, LOG.seed)
    assert _status(witness, request(0, 5, key=stranger), request(0, 5, key=FOREIGN)) == [404, 403]
    told = request(0, 5)
    both = SignedNote(told.note.text, [FOREIGN.sign(told.note.text), *told.note.signatures] * 20)
    assert _status(witness, told._replace(note=both), request(5, 8)) == [200, 200]


def test_the_answers_are_those_of_the_witness_of_transparency_dev(witness: Witness) -> None:
    """Its answers of July 2026 to the same requests are in the file; its cosignatures hold for us."""
    recorded = orjson.loads(Path(__file__).with_name("go_witness.json").read_bytes())
    keys = [VerifierKey.parse(vkey) for vkey in recorded["vkeys"]]
    assert [key.algorithm for key in keys] == [ED25519_COSIGNATURE, ML_DSA_44_COSIGNATURE]
    for theirs in recorded["answers"]:
        told = _asked(*theirs["asked"].split())
        ours = witness.add_checkpoint(bytes(told))
        assert ours.status == theirs["status"], theirs["asked"]
        if ours.status == 409:
            assert ours.body.decode() == theirs["body"]
        elif theirs["body"]:
            note = SignedNote.parse(f"{told.note.text}\n{theirs['body']}")
            assert {*cosignatures_of(note, keys, is_signed_by)} == {*keys}


def _asked(old: str, size: str, kind: str = "") -> WitnessRequest:
    stranger = SigningKey("stranger.example", ED25519, LOG.seed)
    told = request(
        min(int(old), int(size)), int(size), other=kind == "rewritten", key=stranger if kind == "stranger" else LOG
    )
    return told._replace(old_size=int(old), proof=[] if kind == "unproven" else told.proof)


@pytest.mark.parametrize(
    ("part", "instead"),
    [
        (b"old 0", b"old 00"),
        (b"old 0", b"old -1"),
        (b"old 0", b"old  0"),
        (b"old 0", b"new 0"),
        (b"old 0", b"old 6"),
        (b"old 0", b"old 0\nAAAA"),
        (b"old 0", b"old 0\n!"),
        (b"old 0", "old 0\nä".encode()),
        (b"old 0", b"old 0" + b"\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=" * 64),
        (b"\n\n", b"\n"),
        (b"\n5\n", b"\n05\n"),
        ("—".encode(), b"-"),
        (b"old 0", b"\xff"),
    ],
)
def test_what_is_no_request_is_malformed(witness: Witness, part: bytes, instead: bytes) -> None:
    body = bytes(request(0, 5))
    assert part in body
    assert witness.add_checkpoint(body.replace(part, instead, 1)).status == 400
    assert witness.known_size(LOG.name) == 0


def test_a_request_is_read_as_it_is_written() -> None:
    for told in (request(0, 5), request(3, 8)):
        assert WitnessRequest.parse(bytes(told)) == told


def test_of_two_requests_at_once_one_is_cosigned_and_the_state_survives(witness: Witness) -> None:
    answers = list[int]()
    barrier = threading.Barrier(4)

    def ask(size: int) -> None:
        barrier.wait()
        answers.extend(_status(witness, request(0, size, other=size % 2 == 0)))

    threads = [threading.Thread(target=ask, args=(size,)) for size in (5, 6, 7, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [200, 409, 409, 409]
    again = Witness(KEYS, [LOG.public], WitnessState(witness.state.folder))
    assert again.known_size(LOG.name) == witness.known_size(LOG.name) in {5, 6, 7, 8}
