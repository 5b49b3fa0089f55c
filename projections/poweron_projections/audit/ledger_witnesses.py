"""The witnesses that a ledger asks to cosign its checkpoints; one that does not answer in time is left out.

A witness that has seen another history, or a longer one than the topic holds, raises the alarm.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from poweron_events import topics
from poweron_events.errors import PowerOnError, Unavailable
from poweron_events.log import EventLog
from poweron_projections import offsets
from poweron_projections.audit.checkpoint import Checkpoint
from poweron_projections.audit.checkpoint_witness import CONFLICT, INCONSISTENT, OK
from poweron_projections.audit.ledger import LedgerAlarm
from poweron_projections.audit.ledger_tree import stored_consistency_proof
from poweron_projections.audit.note_signatures import valid_lines
from poweron_projections.audit.notes import NoteSignature, SignedNote, VerifierKey
from poweron_projections.audit.witness_request import WitnessAnswer, WitnessRequest
from poweron_projections.connection import Pool, snapshot

log = logging.getLogger(__name__)

ANSWER_WITHIN: Final = 3.0  # seconds for a witness to answer a request
ROWS_WITHIN: Final = 10.0  # seconds for the rows to hold what a checkpoint signs
TRIES: Final = 3  # requests; another ledger may move the witness on between two of them
LOOK: Final = 0.02  # seconds between two looks whether the rows have caught up


class WitnessEndpoint(Protocol):
    """A witness that answers requests."""

    @property
    def name(self) -> str:
        """Its name in log lines."""

    @property
    def keys(self) -> Sequence[VerifierKey]:
        """The keys that it cosigns with."""

    async def add_checkpoint(self, body: bytes) -> WitnessAnswer:
        """Send a request, and return any answer.

        Raises:
            Unavailable: the witness cannot be reached, or answers something else.
        """


@dataclass(slots=True)
class LedgerWitnesses:
    """Asks the witnesses of a ledger, all at once."""

    endpoints: Sequence[WitnessEndpoint] = ()
    answer_within: float = ANSWER_WITHIN
    _sizes: dict[str, int] = field(default_factory=dict)
    """The size that each cosigned last, from its answers to this ledger."""
    _silent: set[str] = field(default_factory=set)
    """Those that did not cosign the last time; each is reported once."""

    def __bool__(self) -> bool:
        return bool(self.endpoints)

    async def cosigned(self, event_log: EventLog, pool: Pool, note: SignedNote) -> SignedNote:
        """Return the checkpoint with the cosignatures of the witnesses that answer in time.

        Raises:
            LedgerAlarm: a witness has cosigned what this ledger does not continue.
        """
        asked = [self._asked(endpoint, _Submission(event_log, pool, note)) for endpoint in self.endpoints]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return SignedNote(note.text, [*note.signatures, *(line for lines in answers for line in lines)])  # type: ignore[union-attr] # the errors were raised

    async def _asked(self, endpoint: WitnessEndpoint, submission: "_Submission") -> list[NoteSignature]:
        try:
            lines = await self._cosignatures(endpoint, submission)
        except LedgerAlarm:
            raise
        except (TimeoutError, PowerOnError) as error:
            if endpoint.name not in self._silent:
                self._silent.add(endpoint.name)
                text = str(error) or f"it did not answer within {self.answer_within:g} s"
                log.warning("witness_silent", extra={"witness": endpoint.name, "error": text})
            return []
        if endpoint.name in self._silent:
            self._silent.discard(endpoint.name)
            log.info("witness_answers", extra={"witness": endpoint.name})
        return lines

    async def _cosignatures(self, endpoint: WitnessEndpoint, submission: "_Submission") -> list[NoteSignature]:
        size = submission.checkpoint.size
        for _ in range(TRIES):
            old = min(self._sizes.get(endpoint.name, 0), size)
            request = await submission.request(old)
            async with asyncio.timeout(self.answer_within):
                answer = await endpoint.add_checkpoint(request)
            if answer.status == OK:
                self._sizes[endpoint.name] = size
                return _cosignatures_in(submission.note, answer.body, endpoint.keys)
            known = answer.known_size
            if answer.status == INCONSISTENT or (answer.status == CONFLICT and known in (None, old) and old == size):
                raise LedgerAlarm(
                    f"The witness {endpoint.name} has cosigned {old} entries that the ledger of {size} does not "
                    "continue: entries were removed or changed. Nothing is signed until the topic is restored."
                )
            if answer.status != CONFLICT or known is None or known == old:
                raise Unavailable(f"The witness answers {answer.status}: {answer.body[:200].decode(errors='replace')}")
            self._sizes[endpoint.name] = known
            if known > size:
                await submission.expect_entries(endpoint.name, known)
                return []
        raise Unavailable("The witness is asked by another ledger at the same time.")


@dataclass(frozen=True, slots=True)
class _Submission:
    """A checkpoint for the witnesses, and what proves that it continues older ones."""

    log: EventLog
    pool: Pool
    note: SignedNote

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint.parse(self.note.text)

    async def request(self, old_size: int) -> bytes:
        """Return the request, once the rows hold what the proof is made from; raise Unavailable if they do not."""
        size, proof = self.checkpoint.size, list[bytes]()
        if 0 < old_size < size:
            try:
                async with asyncio.timeout(ROWS_WITHIN):
                    proof = await self._proof(old_size, size)
            except TimeoutError as error:
                said = f"The rows do not hold the first {size} entries yet, so nothing proves to it that they continue"
                raise Unavailable(f"{said} the {old_size} that it knows.") from error
        return bytes(WitnessRequest(old_size, proof, self.note))

    async def _proof(self, old_size: int, size: int) -> list[bytes]:
        while True:
            async with snapshot(self.pool) as connection:
                if (await offsets.read(connection, topics.LEDGER.name)).get(0, 0) >= size:
                    return await stored_consistency_proof(connection, old_size, size)
            await asyncio.sleep(LOOK)

    async def expect_entries(self, witness: str, known: int) -> None:
        """Check that the topic has as many entries as a witness has cosigned; another ledger may have signed them."""
        end = (await self.log.ends(topics.LEDGER.name))[0]
        if known > end:
            raise LedgerAlarm(
                f"The witness {witness} has cosigned {known} entries of the ledger, which has {end}: entries were "
                "lost. Nothing is signed until the topic is restored."
            )


def _cosignatures_in(note: SignedNote, body: bytes, keys: Sequence[VerifierKey]) -> list[NoteSignature]:
    """Return a cosignature of each of these keys that has made one in the answer."""
    try:
        answered = SignedNote.parse(f"{note.text}\n{body.decode()}")
    except ValueError as error:
        raise Unavailable("The witness answers no cosignature.") from error
    cosignatures = valid_lines(answered, keys)
    if not cosignatures:
        raise Unavailable("The witness cosigns with other keys than those of the policy.")
    return cosignatures
