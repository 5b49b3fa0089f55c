"""The entries of the ledger: a line of canonical JSON for each record of the log, and for what the ledger itself does.

Each entry of a record names the leaf hash of the entry before it of the same workflow, so the proof that the last one
is in the tree proves the whole history of the workflow.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

import orjson

from poweron_events.codec import dumps, is_uuid
from poweron_events.log import Record
from poweron_projections.audit.merkle_tree import GrowingTree, leaf_hash

VERSION: Final = 1
MAX_TYPE: Final = 200  # characters
_MOST: Final = 2**31  # of a partition, of a seq, and of the upper half of an offset
OF_RECORDS: Final = ("event", "reject")
OF_THE_LEDGER: Final = ("heads", "key", "epoch")


class NamedRecord(NamedTuple):
    """What an entry takes from a decoded record."""

    workflow_id: str
    event_id: str
    type: str


class ParsedEntry(NamedTuple):
    """What readers need of an entry: its kind and, if it is about a record, which one, and its workflow.

    `size` is that of the tree before heads.
    """

    kind: str
    partition: int | None = None
    offset: int = 0
    workflow_id: str | None = None
    seq: int | None = None
    size: int | None = None


class Head(NamedTuple):
    """How far a workflow is: the seq and the leaf hash, in hexadecimal, of its last entry."""

    workflow_id: str
    seq: int
    leaf: str


_EVENT: Final = (
    b'{"body":"%b","event":%b,"kind":"event","len":%d,"off":%d,"part":%d,"prev":"%b","seq":%d,"time":%d,"topic":%b,'
    b'"type":%b,"v":1,"verdict":"%b","wf":%b}'
)
"""The line of an event, as `entry_line` would write it."""


def event_entry(
    record: Record, named: NamedRecord, *, verdict: str, seq: int, previous: str, digest: str | None = None
) -> bytes:
    """Return the entry of a record of a workflow.

    Args:
        record: the record.
        named: what it is about.
        verdict: what the fold says of it.
        seq: its number in its workflow.
        previous: the leaf hash, in hexadecimal, of the workflow's entry before; empty for the first one.
        digest: the SHA-256 of its value, in hexadecimal, if the caller knows it.
    """
    value = record.value or b""
    digest = digest or sha256(value).hexdigest()
    return event_line(record, named, digest=digest, length=len(value), verdict=verdict, seq=seq, previous=previous)


def event_line(
    record: Record, named: NamedRecord, *, digest: str, length: int, verdict: str, seq: int, previous: str
) -> bytes:
    """Return the same as `event_entry`, of a record whose value is known by its SHA-256 and its length alone."""
    return _EVENT % (
        digest.encode(),
        orjson.dumps(named.event_id),
        length,
        record.offset,
        record.partition,
        previous.encode(),
        seq,
        record.time_ms,
        orjson.dumps(record.topic),
        orjson.dumps(named.type[:MAX_TYPE]),
        verdict.encode(),
        orjson.dumps(named.workflow_id),
    )


def reject_entry(record: Record, code: str) -> bytes:
    """Return the entry of a record that cannot be decoded: why, as a code, since the reason would quote it."""
    value = record.value or b""
    return entry_line(
        kind="reject",
        body=sha256(value).hexdigest(),
        len=len(value),
        off=record.offset,
        part=record.partition,
        reason=code,
        time=record.time_ms,
        topic=record.topic,
    )


def epoch_entry(*, code: str, last: int, time_ms: int) -> bytes:
    """Return the entry of a ledger that begins to write: its release, and the size of the last signed tree."""
    return entry_line(kind="epoch", code=code, last=last, time=time_ms)


def key_entry(vkeys: Sequence[str], *, time_ms: int) -> bytes:
    """Return the entry that names the keys which sign from now on; earlier ones are retired."""
    return entry_line(kind="key", keys=list(vkeys), time=time_ms)


def heads_entry(
    heads: Sequence[Head], *, open_count: int, size: int, time_ms: int, as_of_ms: int | None = None
) -> bytes:
    """Return the entry that names the heads of all workflows that changed or are open.

    Args:
        heads: the heads.
        open_count: how many of them are of open workflows.
        size: the size of the tree before the entry.
        time_ms: the time now, in ms since 1970.
        as_of_ms: the time up to which all records are entered; written only if that is not now.
    """
    behind = {} if as_of_ms in (None, time_ms) else {"asOf": as_of_ms}
    return entry_line(kind="heads", open=open_count, root=heads_root(heads).hex(), size=size, time=time_ms, **behind)


def heads_root(heads: Iterable[Head]) -> bytes:
    """Return the root of the tree of the heads, whose lines are in the order of the workflows."""
    tree = GrowingTree()
    for head in sorted(heads):
        tree.add(leaf_hash(head_line(head)))
    return tree.root


def head_line(head: Head) -> bytes:
    """Return the line of a head."""
    return dumps({"head": head.leaf, "seq": head.seq, "wf": head.workflow_id})


def parsed_entry(value: bytes) -> ParsedEntry | None:
    """Read an entry; return None if a ledger cannot have written it."""
    try:
        entry = orjson.loads(value)
        kind = entry["kind"]
        if kind in OF_THE_LEDGER:
            return ParsedEntry(kind, size=entry["size"] if kind == "heads" else None)
        if kind not in OF_RECORDS:
            return None
        partition, offset = entry["part"], entry["off"]
        if kind == "reject":
            return ParsedEntry(kind, partition, offset) if _are_numbers(partition, offset >> 32) else None
        workflow_id, seq = entry["wf"], entry["seq"]
        is_sound = _are_numbers(partition, seq, offset >> 32) and is_uuid(workflow_id)
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    return ParsedEntry(kind, partition, offset, workflow_id, seq) if is_sound else None


def _are_numbers(*values: object) -> bool:
    for value in values:  # noqa: SIM110 - a generator takes twice as long, for each entry of a ledger
        if type(value) is not int or not 0 <= value < _MOST:
            return False
    return True


def entry_line(**values: Any) -> bytes:
    """Return an entry with these values as its line."""
    return dumps({**values, "v": VERSION})
