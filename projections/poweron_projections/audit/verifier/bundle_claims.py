"""The claims of a bundle about one workflow, each checked on its own: ok, fail or not checked."""

import hmac
import re
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from itertools import chain
from typing import Any, Final, NamedTuple

from poweron_projections.audit.checkpoint import Checkpoint
from poweron_projections.audit.merkle_tree import is_consistent, is_included, leaf_hash
from poweron_projections.audit.notes import ML_DSA_44_COSIGNATURE, SignedNote, VerifierKey
from poweron_projections.audit.tlog_policy import NO_QUORUM, TlogPolicy
from poweron_projections.audit.tlog_proof import InvalidProof, TlogProof
from poweron_projections.audit.verifier.bundle_files import wrong_files
from poweron_projections.audit.verifier.bundle_timeline import is_of_another_format, timeline_files
from poweron_projections.audit.verifier.cosignatures import (
    SignatureCheck,
    cosignatures_of,
    has_signature,
    is_ed25519_line,
    lines_of,
)
from poweron_projections.audit.verifier.key_announcements import followed_keys
from poweron_projections.audit.verifier.period_rules import complete_until
from poweron_projections.audit.verifier.second_fold import second_verdict
from poweron_projections.audit.verifier.strict_json import InvalidJson, encoded, parsed
from poweron_projections.audit.verifier.workflow_fold import FoldedWorkflow

NAMES: Final = {
    "V1": "The files are those that the manifest lists",
    "V2": "Each event is JSON in its only form",
    "V3": "Each event is the one that was entered in the ledger",
    "V4": "The entries are complete, from the first to the last of the bundle, and each names the one before",
    "V5": "The last entry is in the ledger that was signed",
    "V6": "The checkpoint is signed with the key that you gave, or with one that it announced",
    "V7": "As many witnesses as you ask for have seen the checkpoint",
    "V8": "The workflow has no later entry in the ledger that was signed",
    "V9": "The ledger continues the older checkpoints that you hold",
    "V10": "The documents, prompts and answers are those that the events name",
    "V11": "Each event names an earlier one as its cause",
    "V12": "The verdicts in the ledger follow from the events",
    "V14": "The checkpoint is as young as you ask for",
    "V15": "The list of the period's workflows is complete, and those of the sample are here",
    "V16": "The sample was drawn as you asked, with your text",
    "V17": "The timeline says what the events say",
}
CONTENT_FIELDS: Final = frozenset({"promptRef", "answerRef", "content", "text", "answer", "historyRef", "allCalls"})
"""The fields of events that name content; a test compares them with the models."""
OPAQUE: Final = frozenset({"parameters"})
"""The fields with values of any form, in which nothing names content."""
ALL_ERASED: Final = "poweron.content.erased.v1"
DOCUMENTS_ERASED: Final = "poweron.document.erased.v1"
STATES: Final = ("present", "withheld", "erased", "missing")
_COMMITMENT: Final = re.compile(r"[0-9a-f]{64}")
_ENTRY: Final = frozenset(
    ("body", "event", "kind", "len", "off", "part", "prev", "seq", "time", "topic", "type", "v", "verdict", "wf")
)


class BundleClaim(NamedTuple):
    """One claim, whether it holds, and what was found."""

    id: str
    status: str
    detail: str = ""

    @property
    def name(self) -> str:
        return NAMES[self.id]


class AskedPeriod(NamedTuple):
    """The period that the auditor asked for, in ms since 1970, and the sample."""

    since_ms: int | None
    """None for the beginning of the ledger."""
    until_ms: int | None
    sample: int | None = None
    seed: str | None = None


@dataclass
class Trust:
    """What the auditor brings along: nothing of it comes from the bundle."""

    key: VerifierKey
    checkpoints: Sequence[SignedNote] = ()
    max_age_s: int | None = None
    allow_withheld: bool = False
    period: AskedPeriod | None = None
    ignore_timeline: bool = False
    now_s: Callable[[], float] = time.time
    further_keys: Sequence[VerifierKey] = ()
    """Keys of the ledger that must also have signed, if their signatures can be checked here."""
    witnesses: Sequence[VerifierKey] = ()
    """Each of them must have cosigned."""
    policy: TlogPolicy | None = None
    """Its quorum must have cosigned."""
    is_made_with: SignatureCheck = is_ed25519_line

    @property
    def asks_for_witnesses(self) -> bool:
        return bool(self.witnesses) or (self.policy is not None and self.policy.quorum != NO_QUORUM)

    @property
    def witness_keys(self) -> list[VerifierKey]:
        """The keys of all witnesses that count."""
        return [*dict.fromkeys((*self.witnesses, *(self.policy.keys if self.policy is not None else ())))]

    def lacks(self, cosigners: Collection[VerifierKey]) -> str:
        """Return what these witnesses are too few for; nothing if they are enough."""
        if missing := [key.name for key in self.witnesses if key not in cosigners]:
            return f"the witness {missing[0]}"
        return "" if self.policy is None or self.policy.is_met_by(cosigners) else "a quorum of the policy"

    def unwitnessed(self, note: SignedNote) -> tuple[str, str]:
        """Return whether enough witnesses have cosigned a checkpoint, as a status, and what is lacking."""
        if not self.asks_for_witnesses:
            return "not_checked", "you asked for no witness"
        cosigners = {*cosignatures_of(note, self.witness_keys, self.is_made_with)}
        lacking = self.lacks(cosigners)
        unread = {key for key in self.witness_keys if not self.can_check(key) and lines_of(note, key)}
        if lacking and not self.lacks(cosigners | unread):
            return "not_checked", "only `poweron audit verify` can check ML-DSA-44 cosignatures"
        return ("fail", f"the checkpoint has no cosignature of {lacking}") if lacking else ("ok", "")

    def can_check(self, key: VerifierKey) -> bool:
        return key.algorithm != ML_DSA_44_COSIGNATURE or self.is_made_with is not is_ed25519_line


@dataclass
class CheckpointClaims(ABC):
    """The claims about files and the checkpoint that signs them, which every bundle makes."""

    files: Mapping[str, bytes]
    trust: Trust
    claims: list[BundleClaim] = field(default_factory=list)

    @property
    @abstractmethod
    def note(self) -> SignedNote:
        """The checkpoint, with its signatures."""

    @cached_property
    def _keys(self) -> Sequence[VerifierKey]:
        """The keys whose signatures count."""
        return followed_keys(self.files, self.trust.key, self.trust.is_made_with)

    @property
    def are_claims_ok(self) -> bool:
        """Whether every claim holds that the auditor asked for."""
        return all(map(self.holds, self.claims))

    def holds(self, claim: BundleClaim) -> bool:
        """Return whether the claim is ok, or was not checked because the auditor does not ask for it."""
        if claim.status != "not_checked":
            return claim.status == "ok"
        trust = self.trust
        asked = {
            "V7": trust.asks_for_witnesses,
            "V9": bool(trust.checkpoints),
            "V14": trust.max_age_s is not None,
            "V16": False,
            "V17": not trust.ignore_timeline,
        }
        return not asked.get(claim.id, claim.id != "V10" or not self.trust.allow_withheld)

    def check(self, name: str, claim: Callable[[], "BundleClaim | str"]) -> None:
        """Check a claim, which returns what is wrong; it fails, too, if the files are not as they must be."""
        try:
            found = claim()
        except KeyError as error:
            found = BundleClaim(name, "fail", f"the files are not as they must be: {error} is missing")
        except (ValueError, InvalidProof) as error:
            found = BundleClaim(name, "fail", f"the files are not as they must be: {error}")
        except (TypeError, IndexError, AttributeError):
            found = BundleClaim(name, "fail", "the files are not as they must be")
        if not isinstance(found, BundleClaim):
            found = BundleClaim(name, "fail" if found else "ok", found)
        self.claims.append(found)

    def wrong_files(self) -> str:
        """Return which file is not as the manifest says."""
        return wrong_files(self.files)

    def unsigned(self) -> str:
        """Return why the checkpoint does not count as signed."""
        origin, key = Checkpoint.parse(self.note.text).origin, self.trust.key
        if origin != key.name:
            return f"the checkpoint is that of {origin}, not of {key.name}"
        if any(has_signature(self.note, each, self.trust.is_made_with) for each in self._keys[1:]):
            return ""  # the further keys of the auditor belong to the key before
        for each in (key, *filter(self.trust.can_check, self.trust.further_keys)):
            if not has_signature(self.note, each, self.trust.is_made_with):
                return f"no signature of the checkpoint was made with the key {each.id.hex()} that you gave"
        return ""

    def unwitnessed(self) -> BundleClaim:
        """Return whether enough witnesses have cosigned the checkpoint."""
        return BundleClaim("V7", *self.trust.unwitnessed(self.note))

    def inconsistent(self) -> BundleClaim | str:
        """Return which older checkpoint the ledger does not continue."""
        if not self.trust.checkpoints:
            return BundleClaim("V9", "not_checked", "you gave no older checkpoint")
        new = Checkpoint.parse(self.note.text)
        for note in self.trust.checkpoints:
            old = Checkpoint.parse(note.text)
            is_ours = any(has_signature(note, key, self.trust.is_made_with) for key in self._keys)
            if old.origin != new.origin or not is_ours:
                return f"the checkpoint of {old.size} entries is not one of this ledger"
            if old.size > new.size:
                return f"the bundle is older than the checkpoint of {old.size} entries"
            hashes = [
                bytes.fromhex(line.decode()) for line in file_lines(self.files.get(f"consistency/{old.size}", b""))
            ]
            if old.size != new.size and f"consistency/{old.size}" not in self.files:
                return f"nothing proves that it continues the one of {old.size} entries: ask for a bundle that does"
            if not is_consistent(old.size, old.root, new.size, new.root, hashes):
                return f"the ledger does not continue the checkpoint of {old.size} entries"
        return ""


@dataclass
class Verification(CheckpointClaims):
    """The claims of a bundle about one workflow, and what it is about."""

    bodies: list[bytes] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)
    """The SHA-256 of each body."""
    events: list[Any] = field(default_factory=list)
    entries: list[dict[str, Any]] = field(default_factory=list)
    leaves: list[bytes] = field(default_factory=list)
    blobs: dict[str, str] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None

    @property
    def is_ok(self) -> bool:
        """Whether every claim holds that the auditor asked for."""
        return self.are_claims_ok

    @property
    def workflow_id(self) -> str | None:
        """The workflow that the bundle is about, None if that cannot be read."""
        return self.entries[0].get("wf") if self.entries else None

    def run(self) -> None:
        """Check every claim; a failed one does not keep the others from being checked."""
        for name, claim in (
            ("V1", self.wrong_files),
            ("V2", self._json),
            ("V3", self._entered),
            ("V4", self._chain),
            ("V5", self._included),
            ("V6", self.unsigned),
            ("V7", self.unwitnessed),
            ("V8", self._complete),
            ("V9", self.inconsistent),
            ("V10", self._contents),
            ("V11", self._causes),
            ("V12", self._verdicts),
            ("V14", self._fresh),
            ("V17", self._told_otherwise),
        ):
            self.check(name, claim)

    @cached_property
    def _head(self) -> TlogProof:
        """The proof of the last entry."""
        return TlogProof.parse(self.files["head.tlog-proof"].decode())

    @cached_property
    def note(self) -> SignedNote:
        """The checkpoint that the proof leads to, with its signatures."""
        return SignedNote.parse(self._head.checkpoint)

    def _json(self) -> str:
        self.bodies = file_lines(self.files["events.jsonl"])
        self.digests = [sha256(body).hexdigest() for body in self.bodies]
        for number, body in enumerate(self.bodies):
            try:
                self.events.append(parsed(body))
            except InvalidJson as error:
                return f"event {number}: {error}"
        return "" if self.bodies else "there are no events"

    def _entered(self) -> str:
        lines = file_lines(self.files["entries.jsonl"])
        self.leaves = [leaf_hash(line) for line in lines]
        self.entries = [parsed(line) for line in lines]
        if not all(isinstance(entry, dict) for entry in self.entries):
            self.entries = []
        if len(self.entries) != len(self.bodies):
            return f"there are {len(self.bodies)} events, but {len(self.entries)} entries"
        for number, (body, entry) in enumerate(zip(self.bodies, self.entries, strict=True)):
            if entry["body"] != self.digests[number] or entry["len"] != len(body):
                return f"event {number} is not the one that was entered"
        if len(self.events) != len(self.bodies):
            return "not every event can be read"
        for number, (event, entry) in enumerate(zip(self.events, self.entries, strict=True)):
            if (event["id"], event["correlationid"], event["type"][:200]) != (
                entry["event"],
                entry["wf"],
                entry["type"],
            ):
                return f"the entry of event {number} is about another one"
        return ""

    def _chain(self) -> str:
        previous = ""
        if len(self.entries) != len(self.leaves):
            return "not every entry can be read"
        for number, (entry, leaf) in enumerate(zip(self.entries, self.leaves, strict=True)):
            if set(entry) != _ENTRY or entry["kind"] != "event" or entry["v"] != 1:
                return f"entry {number} is not the entry of an event"
            if (entry["seq"], entry["prev"], entry["wf"]) != (number, previous, self.entries[0]["wf"]):
                return f"entry {number} does not follow the one before"
            previous = leaf.hex()
        return "" if self.entries else "there are no entries"

    def _included(self) -> str:
        proof = self._head
        checkpoint = self.checkpoint = Checkpoint.parse(self.note.text)
        if not self.leaves:
            return "there are no entries"
        if is_included(self.leaves[-1], proof.leaf_index, checkpoint.size, proof.hashes, checkpoint.root):
            return ""
        return "the proof does not lead from the last entry to the checkpoint"

    def _complete(self) -> str:
        proof = TlogProof.parse(self.files["heads/entry.tlog-proof"].decode())
        line = self.files["heads/entry.json"]
        checkpoint = Checkpoint.parse(self.note.text)
        entry = parsed(line)
        if (
            proof.checkpoint != self._head.checkpoint
            or entry["kind"] != "heads"
            or proof.leaf_index != checkpoint.size - 1
        ):
            return "the entry of the heads is not the last one of the checkpoint"
        if not is_included(leaf_hash(line), proof.leaf_index, checkpoint.size, proof.hashes, checkpoint.root):
            return "the entry of the heads is not in the checkpoint"
        listed = parsed(self.files["heads/place.json"])
        last = {"head": self.leaves[-1].hex(), "seq": len(self.leaves) - 1, "wf": self.entries[0]["wf"]}
        path = [bytes.fromhex(each) for each in listed["hashes"]]
        if is_included(leaf_hash(encoded(last)), listed["index"], listed["size"], path, bytes.fromhex(entry["root"])):
            return ""
        return "the heads do not list the last entry of the bundle as that of the workflow"

    def _contents(self) -> BundleClaim | str:
        objects = [each for event in self.events for each in objects_of(event["data"])]
        named = {*content_names(objects)}
        listed = [parsed(line) for line in file_lines(self.files["blobs.jsonl"])]
        self.blobs = {each["name"]: each["status"] for each in listed}
        if {*self.blobs} != named or len(listed) != len(named) or not {*self.blobs.values()} <= {*STATES}:
            return "the list of contents is not that of the events"
        erased = erased_contents(self.events, self.entries) if "erased" in self.blobs.values() else set[str]()
        for name, status in self.blobs.items():
            if status == "missing" or (status == "erased" and name not in erased):
                return f"the content {name} was missing when the bundle was made, and no event says that it was erased"
        present = [name for name, status in self.blobs.items() if status == "present"]
        if {f"blobs/{name}" for name in present} != {name for name in self.files if name.startswith("blobs/")}:
            return "the contents are not those of the list"
        if wrong := self._wrong_content(present, objects):
            return f"the content {wrong} is another one than its event says"
        states = Counter(self.blobs.values())
        if withheld := states["withheld"]:
            return BundleClaim(
                "V10", "not_checked", f"{withheld} contents were withheld; --allow-withheld accepts that"
            )
        return BundleClaim("V10", "ok", f"{states['erased']} were erased, as events say" if states["erased"] else "")

    def _wrong_content(self, names: Sequence[str], objects: Sequence[Mapping[str, Any]]) -> str | None:
        """Return a content that has another name, size or, as a web page, SHA-256 than it must."""
        key = bytes.fromhex(self.files.get("keys/workflow", b"").decode())
        contents = {name: self.files[f"blobs/{name}"] for name in names}
        misnamed = (name for name, data in contents.items() if hmac.digest(key, data, "sha256").hex() != name)
        return next(chain(misnamed, wrongly_described(objects, contents)), None)

    @property
    def _can_be_read(self) -> bool:
        """Whether there are events, and each is known with its entry."""
        return bool(self.events) and len(self.events) == len(self.bodies) == len(self.entries)

    def _causes(self) -> str | BundleClaim:
        if not self._can_be_read:
            return BundleClaim("V11", "not_checked", "not every event can be read")
        hashes = dict[str, str]()
        for number, (digest, event) in enumerate(zip(self.digests, self.events, strict=True)):
            cause = event.get("causationid")
            if cause is not None and hashes.get(event.get("causationhash", "")) != cause:
                return f"event {number} names a cause that is not there before it"
            hashes[digest] = event["id"]
        return ""

    def _verdicts(self) -> str | BundleClaim:
        if not self._can_be_read:
            return BundleClaim("V12", "not_checked", "not every event can be read")
        fold = FoldedWorkflow(self.entries[0]["wf"])
        for number, (digest, event, entry) in enumerate(zip(self.digests, self.events, self.entries, strict=True)):
            verdict = second_verdict(fold, event, digest, entry["time"])
            if verdict != entry["verdict"]:
                return f"event {number} is {verdict}, but the ledger says {entry['verdict']}"
        return ""

    def _told_otherwise(self) -> str | BundleClaim:
        if not self._can_be_read:
            return "not every event can be read"
        told = timeline_files(self.entries[0]["wf"], self.events, self.entries, self.files)
        if missing := [name for name in told if name not in self.files]:
            return f"{missing[0]} is missing"
        wrong = [name for name, data in told.items() if self.files[name] != data]
        if wrong and all(is_of_another_format(self.files[name]) for name in wrong):
            said = "another release wrote it: use the script of that release, or --ignore-timeline"
            return BundleClaim("V17", "not_checked", said)
        return f"{wrong[0]} is another one" if wrong else ""

    def _fresh(self) -> BundleClaim | str:
        if self.trust.max_age_s is None:
            return BundleClaim("V14", "not_checked", "you set no --max-age")
        now, limit = self.trust.now_s(), self.trust.max_age_s
        age = int(now - complete_until(parsed(self.files["heads/entry.json"])) / 1000)
        if age > limit:
            return f"the checkpoint is {age} seconds old"
        if not self.trust.asks_for_witnesses:
            return ""
        times = cosignatures_of(self.note, self.trust.witness_keys, self.trust.is_made_with)
        lacking = self.trust.lacks({key for key, cosigned in times.items() if now - cosigned <= limit})
        return f"the checkpoint has no cosignature of {lacking} that is as young" if lacking else ""


def objects_of(value: Any) -> Iterator[dict[str, Any]]:
    """Yield all JSON objects in the data of an event, apart from what has any form."""
    if isinstance(value, dict):
        yield value
        value = [part for name, part in value.items() if name not in OPAQUE]
    for part in value:
        if isinstance(part, (dict, list)):
            yield from objects_of(part)


def content_names(objects: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the names of all contents that these objects refer to."""
    for each in objects:
        for field_name in CONTENT_FIELDS & each.keys():
            name = each[field_name]
            if isinstance(name, str) and _COMMITMENT.fullmatch(name):
                yield name


def erased_contents(events: Sequence[Any], entries: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the names of the contents whose erasure is accepted: an event can erase only what was named before it."""
    named, of_documents, erased = set[str](), dict[str, set[str]](), set[str]()
    for event, entry in zip(events, entries, strict=False):
        data, is_accepted = event["data"], entry["verdict"] == "accepted"
        if is_accepted and event["type"] == ALL_ERASED:
            erased |= named & {*data.get("contents", ())} if data.get("documents") else named
        elif is_accepted and event["type"] == DOCUMENTS_ERASED:
            erased |= {name for document in data["documents"] for name in of_documents.get(document, ())}
        objects = [*objects_of(data)]
        named |= {*content_names(objects)}
        for each in objects:
            if isinstance(each.get("documentId"), str):
                of_documents.setdefault(each["documentId"], set()).update(content_names(objects_of(each)))
    return erased


def wrongly_described(objects: Iterable[Mapping[str, Any]], contents: Mapping[str, bytes]) -> Iterator[str]:
    """Yield the contents that have another size or, as web pages, SHA-256 than one of these objects says."""
    for each in objects:
        name = each.get("content")
        if isinstance(name, str) and (data := contents.get(name)) is not None:
            is_other_page = "url" in each and sha256(data).hexdigest() != each["sha256"]
            if is_other_page or each.get("size", len(data)) != len(data):
                yield name


def file_lines(data: bytes) -> list[bytes]:
    """Return the lines of a file, each of which ends with a newline."""
    if data and not data.endswith(b"\n"):
        raise ValueError("the last line is cut")
    return data.split(b"\n")[:-1]
