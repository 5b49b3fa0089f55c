"""A witness: cosigns checkpoints of ledgers that it knows, each of which must continue the one that it cosigned before.

It needs no server, only a folder, which it alone writes: the last checkpoint of each ledger.
"""

import fcntl
import logging
import os
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from poweron_events.errors import Refused
from poweron_projections.audit.checkpoint import Checkpoint
from poweron_projections.audit.merkle_tree import EMPTY_ROOT, is_consistent
from poweron_projections.audit.note_signatures import SigningKey, valid_lines
from poweron_projections.audit.notes import NoteSignature, SignedNote, VerifierKey
from poweron_projections.audit.witness_request import InvalidWitnessRequest, WitnessAnswer, WitnessRequest

log = logging.getLogger(__name__)

OK: Final = 200
MALFORMED: Final = 400
UNSIGNED: Final = 403
UNKNOWN: Final = 404
CONFLICT: Final = 409
INCONSISTENT: Final = 422


class NotCosigned(Refused):
    """A checkpoint that this witness does not cosign."""

    def __init__(self, sentence: str, status: int, known_size: int | None = None) -> None:
        super().__init__(sentence)
        self.status, self.known_size = status, known_size


@dataclass(frozen=True, slots=True)
class WitnessState:
    """The checkpoint of each ledger that a witness has cosigned last, and the one that it has refused, as files."""

    folder: Path

    @contextmanager
    def locked(self) -> Generator[None, None, None]:
        """Let no other thread or process read or write the state meanwhile."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def cosigned(self, origin: str) -> SignedNote | None:
        """Return the checkpoint that was cosigned last, None if there is none; only while it is locked."""
        try:
            return SignedNote.parse(self._path(origin, "checkpoint").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None

    def save(self, origin: str, note: SignedNote, *, is_refused: bool = False) -> None:
        """Replace the checkpoint, or the refused one; it is on the disk when this returns."""
        path = self._path(origin, "refused" if is_refused else "checkpoint")
        written = path.with_suffix(".new")
        with written.open("w", encoding="utf-8") as file:
            file.write(str(note))
            file.flush()
            os.fsync(file.fileno())
        written.replace(path)
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _path(self, origin: str, kind: str) -> Path:
        return self.folder / f"{sha256(origin.encode()).hexdigest()}.{kind}"


@dataclass(frozen=True, slots=True)
class Witness:
    """A witness with its keys, the keys of the ledgers that it knows, and its state."""

    keys: Sequence[SigningKey]
    ledgers: Sequence[VerifierKey]
    state: WitnessState
    now_s: Callable[[], float] = time.time

    def add_checkpoint(self, body: bytes) -> WitnessAnswer:
        """Answer a request of a ledger, as C2SP `tlog-witness` says."""
        try:
            cosigned = self.cosign(WitnessRequest.parse(body))
        except InvalidWitnessRequest as error:
            return WitnessAnswer(MALFORMED, f"{error}\n".encode())
        except NotCosigned as error:
            if error.status == INCONSISTENT:
                log.warning("checkpoint_refused", extra={"error": str(error)})
            text = str(error) if error.known_size is None else str(error.known_size)
            return WitnessAnswer(error.status, f"{text}\n".encode(), error.known_size)
        return WitnessAnswer(OK, "".join(map(str, cosigned)).encode())

    def cosign(self, request: WitnessRequest) -> list[NoteSignature]:
        """Cosign a checkpoint, which is on the disk before anyone sees a cosignature.

        One of the same size with another root is kept: both together prove that the ledger has signed two histories.

        Raises:
            NotCosigned: it is not signed by a known ledger, or does not continue what was cosigned before.
        """
        new = request.checkpoint
        signatures = self._signatures(request.note, new.origin)
        with self.state.locked():
            try:
                self._check_continued(request, new)
            except NotCosigned as error:
                if error.status == INCONSISTENT and self.known_fork(new):
                    self.state.save(new.origin, SignedNote(request.note.text, signatures), is_refused=True)
                raise
            cosigned = [key.sign(request.note.text, int(self.now_s())) for key in self.keys]
            self.state.save(new.origin, SignedNote(request.note.text, [*signatures, *cosigned]))
        return cosigned

    def known_fork(self, new: Checkpoint) -> bool:
        """Return whether another checkpoint of this size was cosigned; only while the state is locked."""
        note = self.state.cosigned(new.origin)
        old = None if note is None else Checkpoint.parse(note.text)
        return old is not None and old.size == new.size and old.root != new.root

    def known_size(self, origin: str) -> int:
        """Return the size of the checkpoint that was cosigned last, 0 if there is none."""
        with self.state.locked():
            note = self.state.cosigned(origin)
        return 0 if note is None else Checkpoint.parse(note.text).size

    def _signatures(self, note: SignedNote, origin: str) -> list[NoteSignature]:
        """Return a signature of each known key of the ledger that has signed."""
        keys = [key for key in self.ledgers if key.name == origin]
        if not keys:
            raise NotCosigned(f"This witness does not know the ledger {origin}.", UNKNOWN)
        signatures = valid_lines(note, keys)
        if not signatures:
            raise NotCosigned(f"No known key of {origin} has signed the checkpoint.", UNSIGNED)
        return signatures

    def _check_continued(self, request: WitnessRequest, new: Checkpoint) -> None:
        note = self.state.cosigned(new.origin)
        old = Checkpoint(new.origin, 0, EMPTY_ROOT) if note is None else Checkpoint.parse(note.text)
        if request.old_size != old.size:
            raise NotCosigned(f"The last cosigned checkpoint has {old.size} entries.", CONFLICT, old.size)
        if not _is_continued(old, new, request.proof):
            raise NotCosigned(
                f"The checkpoint of {new.origin} with {new.size} entries does not continue the one with {old.size}, or "
                "the proof of it is wrong.",
                INCONSISTENT,
            )


def _is_continued(old: Checkpoint, new: Checkpoint, proof: Sequence[bytes]) -> bool:
    if old.size == 0:
        return not proof and (new.size > 0 or new.root == EMPTY_ROOT)
    return is_consistent(old.size, old.root, new.size, new.root, proof)
