"""Everything that the ledger claims, computed again from the bytes in Kafka: entry by entry, in their order.

Nothing of what is checked is believed: each entry is made again from its record, each verdict by the second fold, each
root from the entries. Open workflows are kept in memory, the others in a temporary file, so a long log needs no more.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import orjson

from poweron_events.codec import Undecodable, dumps, read_record, sha256
from poweron_events.log import Record
from poweron_projections.audit.checkpoint import Checkpoint, InvalidCheckpoint
from poweron_projections.audit.ledger_entry import (
    OF_THE_LEDGER,
    Head,
    NamedRecord,
    ParsedEntry,
    event_entry,
    heads_root,
    reject_entry,
)
from poweron_projections.audit.ledger_status import announced_keys
from poweron_projections.audit.merkle_tree import GrowingTree, leaf_hash
from poweron_projections.audit.note_signatures import verified
from poweron_projections.audit.notes import ED25519, InvalidNote, SignedNote, VerifierKey
from poweron_projections.audit.verifier.second_fold import second_verdict
from poweron_projections.audit.verifier.workflow_fold import FoldedWorkflow

CLAIMS: Final = {
    "V2": "Each record is JSON in its only form",
    "V3": "Each record is the one that was entered in the ledger",
    "V4": "No record is left out, and each entry names the one before of its workflow",
    "V5": "Each checkpoint has the root of the entries before it",
    "V6": "Each checkpoint is signed with the key that you gave, or with one that it announced",
    "V7": "As many witnesses as you ask for have seen the newest checkpoint",
    "V8": "The heads list every workflow that changed or is open",
    "V9": "The ledger continues the older checkpoints that you hold",
    "V10": "The documents, prompts and answers are those that the events name",
    "V11": "Each event names an earlier one as its cause",
    "V12": "The verdicts in the ledger follow from the events",
    "V13": "The rows in Postgres are those that follow from the log",
    "V14": "The newest checkpoint is as young as you ask for",
}
ROOTS: Final = 10_000  # roots after the newest heads, for checkpoints that come later
HASH_BYTES: Final = 8  # of a cause, kept by a hash that differs from process to process

_TABLE: Final = """
PRAGMA cache_size = -8000;
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE ended (id TEXT PRIMARY KEY, seq INTEGER, leaf TEXT, rounds INTEGER, causes BLOB) WITHOUT ROWID;
"""


class LedgerClaim(NamedTuple):
    """One claim about everything: ok, fail or not checked."""

    id: str
    status: str
    detail: str = ""

    @property
    def name(self) -> str:
        return CLAIMS[self.id]


@dataclass(slots=True)
class _Course:
    """A workflow up to its last entry: its number, its leaf hash, the state, and the events that can be causes."""

    fold: FoldedWorkflow
    next_seq: int = 0
    leaf: str = ""
    causes: set[int] = field(default_factory=set)


class _Courses:
    """The workflows by their id; those that are not open wait in a temporary file."""

    def __init__(self) -> None:
        self.active: dict[str, _Course] = {}
        self._file = sqlite3.connect("", isolation_level=None)
        self._file.executescript(_TABLE)

    def get(self, name: str) -> _Course:
        course = self.active.get(name)
        if course is None:
            row = self._file.execute("SELECT seq, leaf, rounds, causes FROM ended WHERE id = ?", (name,)).fetchone()
            course = self.active[name] = _Course(FoldedWorkflow(name)) if row is None else _restored(name, row)
        return course

    def release(self, names: Sequence[str]) -> None:
        """Put those of these workflows aside whose round has ended."""
        ended = [(name, self.active[name]) for name in names if self.active[name].fold.phase == "ended"]
        rows = [(name, each.next_seq, each.leaf, each.fold.rounds, _packed(each.causes)) for name, each in ended]
        self._file.executemany("REPLACE INTO ended VALUES (?, ?, ?, ?, ?)", rows)
        for name, _ in ended:
            del self.active[name]

    def close(self) -> None:
        self._file.close()


def _restored(name: str, row: tuple[int, str, int, bytes]) -> _Course:
    seq, leaf, rounds, packed = row
    found = {int.from_bytes(packed[at : at + HASH_BYTES], signed=True) for at in range(0, len(packed), HASH_BYTES)}
    return _Course(FoldedWorkflow(name, phase="ended", rounds=rounds), seq, leaf, found)


def _packed(causes: set[int]) -> bytes:
    return b"".join(cause.to_bytes(HASH_BYTES, signed=True) for cause in causes)


class LedgerVerification:
    """Computes the claims; `close` it at the end."""

    def __init__(self, key: VerifierKey, older: Sequence[SignedNote] = ()) -> None:
        """Begin at the first entry.

        Args:
            key: the Ed25519 key that the auditor trusts.
            older: checkpoints that the auditor holds.
        """
        self.events = 0
        self.foreign = 0
        self.tree = GrowingTree()
        self.next_offsets: dict[int, int] = {}
        self.signed: Checkpoint | None = None
        self.note: SignedNote | None = None
        """The newest checkpoint, with its signatures."""
        self.signed_ms: int | None = None
        """The time of the heads in the newest checkpoint."""
        self._wrong: dict[str, str] = {}
        self._courses = _Courses()
        self._changed = set[str]()
        self._roots: dict[int, tuple[bytes, int]] = {}
        self._signers = _Signers(key)
        self._older = _OlderCheckpoints(older)

    def close(self) -> None:
        self._courses.close()

    def fail(self, claim: str, detail: str) -> None:
        """Note what is wrong; the first finding of a claim counts."""
        self._wrong.setdefault(claim, detail)

    # --- entries --------------------------------------------------------------------------------------

    def take_entry(self, value: bytes, record: Record | None, parsed: ParsedEntry | None) -> None:
        """Check the next entry of the ledger against its record.

        Args:
            value: its bytes.
            record: the record that it is about; None if it is about none, or if the log does not have it.
            parsed: the same entry as `parsed_entry` reads it.
        """
        place = self.tree.size
        leaf = leaf_hash(value)
        self.tree.add(leaf)
        if parsed is None or parsed.size not in (None, place):
            self.foreign += 1
        elif parsed.kind in OF_THE_LEDGER:
            self._of_the_ledger(parsed.kind, value, place)
        elif self._is_first(parsed):
            if record is None:
                self.fail("V3", f"record {_at(parsed)} is not in the log")
            elif parsed.kind == "reject":
                self._rejected(value, record)
            else:
                self._entered(value, record, parsed.workflow_id or "", leaf.hex())
        self._older.take(self.tree)

    def _is_first(self, entry: ParsedEntry) -> bool:
        assert entry.partition is not None
        if entry.offset < self.next_offsets.get(entry.partition, 0):
            return False
        self.next_offsets[entry.partition] = entry.offset + 1
        return True

    def _rejected(self, value: bytes, record: Record) -> None:
        if value != reject_entry(record, "unreadable" if record.unreadable else "undecodable"):
            self.fail("V3", f"record {_at(record)} is not the one that was entered")
        try:
            read_record(record)
        except Undecodable:
            return
        self.fail("V12", f"record {_at(record)} was rejected, but can be decoded")

    def _entered(self, value: bytes, record: Record, workflow_id: str, leaf: str) -> None:
        self.events += 1
        course, digest = self._courses.get(workflow_id), sha256(record.value or b"")
        expected = self._expected(course, record, digest)
        if value != expected:
            self._name_difference(orjson.loads(value), expected, record, digest)
        course.next_seq, course.leaf = course.next_seq + 1, leaf
        self._changed.add(workflow_id)

    def _expected(self, course: _Course, record: Record, digest: str) -> bytes | None:
        """Check what the event says of itself, and return the entry that it must have; None if it cannot be read."""
        body = record.value or b""
        try:
            event = orjson.loads(body)
            if dumps(event) != body:
                self.fail("V2", f"record {_at(record)} is not in canonical form")
            cause = event.get("causationid")
            if cause is not None and hash((event.get("causationhash"), cause)) not in course.causes:
                self.fail("V11", f"record {_at(record)} names a cause that is not there before it")
            course.causes.add(hash((digest, event["id"])))
            verdict = second_verdict(course.fold, event, digest, record.time_ms)
            named = NamedRecord(event["correlationid"], event["id"], event["type"])
            seq, previous = course.next_seq, course.leaf
            return event_entry(record, named, verdict=verdict, seq=seq, previous=previous, digest=digest)
        except orjson.JSONDecodeError:
            self.fail("V2", f"record {_at(record)} is not JSON")
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, AssertionError):
            self.fail("V12", f"record {_at(record)} cannot be judged")
        return None

    def _name_difference(self, entry: Mapping[str, Any], expected: bytes | None, record: Record, digest: str) -> None:
        wanted: Mapping[str, Any] = {"body": digest} if expected is None else orjson.loads(expected)
        names = wanted.keys() if expected is None else entry.keys() | wanted.keys()
        differ = {name for name in names if entry.get(name) != wanted.get(name)}
        if differ & {"body", "len", "time", "topic"}:
            self.fail("V3", f"record {_at(record)} is not the one that was entered")
        elif differ & {"seq", "prev"}:
            self.fail("V4", f"the entry of record {_at(record)} does not follow the one before of its workflow")
        elif differ == {"verdict"}:
            verdicts = wanted["verdict"], entry["verdict"]
            self.fail("V12", f"record {_at(record)} is {verdicts[0]}, but the ledger says {verdicts[1]}")
        elif expected is not None:
            self.fail("V3", f"the entry of record {_at(record)} is not as a ledger writes it")

    # --- what the ledger says of itself ---------------------------------------------------------------

    def _of_the_ledger(self, kind: str, value: bytes, place: int) -> None:
        if kind == "key":
            self._signers.announce(place, announced_keys(value))
        if kind != "heads":
            return
        entry = orjson.loads(value)
        active = self._courses.active
        opened = {name for name, course in active.items() if course.fold.is_open}
        heads = [Head(name, active[name].next_seq - 1, active[name].leaf) for name in opened | self._changed]
        if (heads_root(heads).hex(), len(opened)) != (entry.get("root"), entry.get("open")):
            self.fail("V8", f"the heads of entry {place} do not list what changed or is open")
        self._courses.release([*self._changed])
        self._changed.clear()
        self._roots[place + 1] = (self.tree.root, entry.get("time", 0))
        if len(self._roots) > ROOTS:
            del self._roots[next(iter(self._roots))]

    # --- checkpoints ----------------------------------------------------------------------------------

    def take_checkpoint(self, note: bytes, offset: int) -> None:
        """Check the next checkpoint; the entries that it signs were taken before."""
        try:
            signed = SignedNote.parse(note.decode())
            checkpoint = Checkpoint.parse(signed.text)
            is_signed = self._signers.take(signed, checkpoint.size)
        except (InvalidNote, InvalidCheckpoint, UnicodeError) as error:
            self.fail("V6", f"checkpoint {offset}: {error}")
            return
        if not is_signed:
            self.fail("V6", f"checkpoint {offset}, of {checkpoint.size} entries, is not signed with a key that counts")
        root, time_ms = self._roots.get(checkpoint.size, (None, None))
        if root != checkpoint.root or checkpoint.origin != self._signers.trusted.name:
            self.fail("V5", f"checkpoint {offset} is not that of the first {checkpoint.size} entries and their heads")
        if self.signed is None or checkpoint.size >= self.signed.size:  # tasks of a ledger may publish out of order
            self.signed, self.signed_ms, self.note = checkpoint, time_ms, signed

    # --- the result -----------------------------------------------------------------------------------

    def claims(self, ends: Mapping[int, int], max_age_s: int | None, now_s: float) -> list[LedgerClaim]:
        """Return all claims but V7, V10 and V13; `ends` are those of the events when the last entry was read."""
        if not self._signers.has_signed:
            self.fail("V6", "no checkpoint is signed with the key that you gave")
        age = None if self.signed_ms is None else int(now_s - self.signed_ms / 1000)
        if max_age_s is not None and (age is None or age > max_age_s):
            self.fail("V14", "there is no checkpoint" if age is None else f"it is {age} seconds old")
        if wrong := self._older.wrong(self.tree.size, self._signers.followed):
            self.fail("V9", wrong)
        waiting = sum(max(0, end - self.next_offsets.get(number, 0)) for number, end in ends.items())
        unsigned = self.tree.size - (0 if self.signed is None else self.signed.size)
        details = {
            "V4": f"{_newer(waiting, 'record', 'records')} to be entered" if waiting else "",
            "V5": f"{_newer(unsigned, 'entry', 'entries')} to be signed" if unsigned else "",
            "V6": self._signers.told,
            "V9": "" if self._older.notes else "you gave no older checkpoint",
            "V14": "" if max_age_s is not None else "you set no --max-age",
        }
        unasked = ({"V14"} if max_age_s is None else set()) | (set() if self._older.notes else {"V9"})
        return [
            LedgerClaim(claim, "fail", self._wrong[claim])
            if claim in self._wrong
            else LedgerClaim(claim, "not_checked" if claim in unasked else "ok", details.get(claim, ""))
            for claim in CLAIMS
            if claim not in ("V7", "V10", "V13")
        ]


class _Signers:
    """Whose signature counts: the auditor's key, then those that a checkpoint of the one before has announced."""

    def __init__(self, trusted: VerifierKey) -> None:
        self.trusted = trusted
        self.followed = [trusted]
        self.has_signed = False
        self._earlier = 0
        self._announced: list[tuple[int, Sequence[VerifierKey]]] = []
        self._beside: Sequence[VerifierKey] = ()

    def announce(self, place: int, keys: Sequence[VerifierKey]) -> None:
        self._announced.append((place, [key for key in keys if key.name == self.trusted.name]))

    def take(self, note: SignedNote, size: int) -> bool:
        """Return whether the key that counts signed this note; raise InvalidNote if a signature is wrong."""
        current = self.followed[-1]
        signers = [key for key, _ in verified(note, [current, *self._beside])]
        if current not in signers:
            self._earlier += not self.has_signed
            return not self.has_signed
        self.has_signed = True
        seen = [keys for place, keys in self._announced if place < size]
        self._announced = [each for each in self._announced if each[0] >= size]
        if seen:
            self._beside = [key for key in seen[-1] if key.algorithm != ED25519]
            following = [key for key in seen[-1] if key.algorithm == ED25519]
            if following and current not in following:
                self.followed.append(following[0])
        return True

    @property
    def told(self) -> str:
        """What an auditor should know of the keys."""
        earlier = f"{self._earlier} earlier checkpoints were signed with a key before yours" if self._earlier else ""
        later = "; ".join(f"it was followed by {key}" for key in self.followed[1:])
        return "; ".join(filter(None, (earlier, later)))


class _OlderCheckpoints:
    """The checkpoints that the auditor holds, and the roots that the ledger had at their sizes."""

    def __init__(self, notes: Sequence[SignedNote]) -> None:
        self.notes = notes
        self._roots: dict[int, bytes | None] = dict.fromkeys(Checkpoint.parse(note.text).size for note in notes)

    def take(self, tree: GrowingTree) -> None:
        if tree.size in self._roots:
            self._roots[tree.size] = tree.root

    def wrong(self, size: int, keys: Sequence[VerifierKey]) -> str:
        """Return what is wrong with the first wrong one."""
        for note in self.notes:
            old = Checkpoint.parse(note.text)
            try:
                is_ours = old.origin == keys[0].name and bool(verified(note, keys))
            except InvalidNote:
                is_ours = False
            if not is_ours:
                return f"the checkpoint of {old.size} entries is not one of this ledger"
            if old.size > size:
                return f"the ledger has {size} entries, fewer than the checkpoint of {old.size}"
            if old.size and self._roots[old.size] != old.root:
                return f"the ledger does not continue the checkpoint of {old.size} entries"
        return ""


def _at(record: Record | ParsedEntry) -> str:
    return f"{record.partition}/{record.offset}"


def _newer(count: int, one: str, several: str) -> str:
    return f"1 newer {one} waits" if count == 1 else f"{count:,} newer {several} wait"
