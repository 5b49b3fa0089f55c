"""Bundles: all that an auditor needs to check one workflow offline, as files.

The same ledger and the same content make the same bytes.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import orjson

from poweron_events.codec import dumps
from poweron_events.content import ContentStore
from poweron_events.errors import Conflict, MissingContent, Refused
from poweron_events.log import Record
from poweron_events.topics import EVENTS
from poweron_projections.audit.ledger_entry import NamedRecord, event_entry, head_line
from poweron_projections.audit.ledger_heads import listed_heads
from poweron_projections.audit.ledger_tree import stored_consistency_proofs, stored_inclusion_proof
from poweron_projections.audit.merkle_tree import GrowingTree, inclusion_proof, leaf_hash
from poweron_projections.audit.tlog_proof import TlogProof
from poweron_projections.audit.verifier.bundle_claims import content_names, erased_contents, objects_of
from poweron_projections.audit.verifier.bundle_files import MANIFEST, manifest_of
from poweron_projections.audit.verifier.bundle_timeline import timeline_files
from poweron_projections.audit.verifier.key_announcements import ANNOUNCED
from poweron_projections.audit.verify_script import verify_script
from poweron_projections.connection import Connection, Found, Pool, snapshot
from poweron_projections.records import decompress

TOGETHER: Final = 16  # contents that are read at a time
PROVEN: Final = 100  # newest checkpoints that a bundle proves to be continued; of earlier ones, the last of each day

_RECORDS: Final = """
SELECT records.*, ledger_entries.place, ledger_entries.leaf
  FROM records JOIN ledger_entries USING (workflow_id, seq)
 WHERE workflow_id = $1::uuid
 ORDER BY seq
"""
_CHECKPOINT: Final = """
SELECT note, size, root, entry
  FROM ledger_checkpoints
  JOIN ledger_entries ON place = size - 1 AND kind = 'heads'
 WHERE size > $1
 ORDER BY size LIMIT 1
"""
_NEWEST_CHECKPOINT: Final = f"{_CHECKPOINT.rpartition('ORDER BY')[0]} ORDER BY size DESC LIMIT 1"
_EARLIER: Final = """
SELECT size FROM (
    SELECT size, row_number() OVER (ORDER BY size DESC) AS number,
           row_number() OVER (PARTITION BY time_ms / 86400000 ORDER BY size DESC) AS of_day
      FROM ledger_checkpoints WHERE size <= $1
) numbered
 WHERE number <= $2 OR of_day = 1
 ORDER BY size
"""
_ANNOUNCED: Final = """
SELECT place, entry, size, note
  FROM ledger_entries
 CROSS JOIN LATERAL (SELECT size, note FROM ledger_checkpoints WHERE size > place ORDER BY size LIMIT 1) signed
 WHERE kind = 'key' AND place < $1
 ORDER BY place
OFFSET 1
"""
"""The first entry of a key announces the key that signs it."""
_IS_OPEN: Final = "SELECT is_open FROM workflows WHERE workflow_id = $1::uuid"


class NotSigned(Conflict):
    """The ledger has not signed the newest records of the workflow yet."""


async def bundle_of(
    pool: Pool,
    content: ContentStore | None,
    workflow_id: str,
    vkeys: Sequence[str],
    *,
    through: int = 0,
    held: Sequence[int] = (),
    with_script: bool = True,
) -> dict[str, bytes]:
    """Return the files of a workflow's bundle by their path.

    Args:
        pool: the rows.
        content: the content store; None to leave documents, prompts and answers out.
        workflow_id: the workflow.
        vkeys: the keys of the ledger, for information.
        through: the offset of a record that must be in it, such as that of the export.
        held: the sizes of checkpoints that the auditor holds, for which it has proofs, too.
        with_script: whether the script goes with it; one bundle among others needs none of its own.

    Raises:
        Refused: there is no such workflow.
        NotSigned: the ledger has not got that far yet.
        Conflict: the rows are not what the ledger entered; a rebuild restores them.
        Unavailable: Postgres or the content store cannot be reached.
    """
    async with snapshot(pool) as connection:
        files = await _proven(connection, workflow_id, through, held)
    events = [orjson.loads(line) for line in files["events.jsonl"].splitlines()]
    entries = [orjson.loads(line) for line in files["entries.jsonl"].splitlines()]
    files |= await _contents(content, workflow_id, events, erased_contents(events, entries))
    files |= timeline_files(workflow_id, events, entries, files)
    files["keys/ledger.vkeys"] = "".join(f"{vkey}\n" for vkey in vkeys).encode()
    if with_script:
        files["verify.py"] = verify_script().encode()
    return {MANIFEST: manifest_of(files), **files}


async def _proven(connection: Connection, workflow_id: str, through: int, held: Sequence[int]) -> dict[str, bytes]:
    rows, signed = await _signed_records(connection, workflow_id)
    if not rows or signed is None or rows[-1]["log_offset"] < through:
        raise NotSigned(f"The ledger has not signed the newest records of workflow {workflow_id} yet.")
    bodies = [decompress(row["compressed"]) for row in rows]
    entries = _entries(rows, bodies)
    last, size = rows[-1]["place"], signed["size"]
    last_proof = TlogProof(last, await stored_inclusion_proof(connection, last, size), signed["note"])
    heads_proof = TlogProof(size - 1, await stored_inclusion_proof(connection, size - 1, size), signed["note"])
    return {
        "events.jsonl": file_of(bodies),
        "entries.jsonl": file_of(entries),
        "head.tlog-proof": str(last_proof).encode(),
        "heads/entry.json": signed["entry"],
        "heads/entry.tlog-proof": str(heads_proof).encode(),
        "heads/place.json": await _place(connection, signed, workflow_id, len(rows) - 1),
        **await continued(connection, size, held),
        **await announced(connection, size),
    }


async def _signed_records(connection: Connection, workflow_id: str) -> tuple[Sequence[Found], Found | None]:
    """Return the entered records of a workflow, and a checkpoint whose heads list the last of them.

    Every heads entry lists an open workflow; one that is not open is listed by the first after its last entry.
    """
    rows = await connection.fetch(_RECORDS, workflow_id)
    is_open = await connection.fetchval(_IS_OPEN, workflow_id)
    if is_open is None:
        raise Refused(f"There is no workflow {workflow_id}.", code="unknown_workflow")
    if not is_open:
        return rows, await connection.fetchrow(_CHECKPOINT, rows[-1]["place"] + 1 if rows else 0)
    signed = await connection.fetchrow(_NEWEST_CHECKPOINT, 0)
    return [row for row in rows if signed is not None and row["place"] < signed["size"]], signed


def _entries(rows: Sequence[Found], bodies: Sequence[bytes]) -> list[bytes]:
    """Return the entries of these records; each follows from its record and the leaf before."""
    entries, previous = list[bytes](), ""
    for row, body in zip(rows, bodies, strict=True):
        record = Record(EVENTS.name, row["partition"], row["log_offset"], row["time_ms"], None, body, {})
        named = NamedRecord(str(row["workflow_id"]), str(row["event_id"]), row["type"])
        entry = event_entry(record, named, verdict=row["verdict"], seq=row["seq"], previous=previous)
        if leaf_hash(entry) != row["leaf"]:
            raise differs(row["workflow_id"], row["seq"])
        entries.append(entry)
        previous = row["leaf"].hex()
    return entries


def differs(workflow_id: object, seq: int) -> Conflict:
    """Return the error of a record that is not the one which the ledger entered."""
    return Conflict(
        f"Record {seq} of workflow {workflow_id} is not the one that was entered in the ledger. "
        "`poweron verify` names what was changed."
    )


async def _place(connection: Connection, signed: Found, workflow_id: str, seq: int) -> bytes:
    """Return where the heads list the workflow, and the proof of it."""
    heads = sorted((await listed_heads(connection, signed["size"] - 1)).all)
    tree, hashes = GrowingTree(), dict[tuple[int, int], bytes]()
    for head in heads:
        hashes |= {(each.level, each.place): each.hash for each in tree.append(leaf_hash(head_line(head)))}
    places = [place for place, head in enumerate(heads) if (head.workflow_id, head.seq) == (workflow_id, seq)]
    if not places or tree.root.hex() != orjson.loads(signed["entry"])["root"]:
        raise NotSigned(f"The heads that were signed last do not list the newest record of workflow {workflow_id}.")
    proof = inclusion_proof(places[0], tree.size, lambda level, place: hashes[level, place])
    return dumps({"hashes": [each.hex() for each in proof], "index": places[0], "size": tree.size})


async def continued(connection: Connection, size: int, held: Sequence[int] = ()) -> dict[str, bytes]:
    """Return the proofs that the ledger continues earlier checkpoints of its own, and those of the sizes `held`."""
    own = [row["size"] for row in await connection.fetch(_EARLIER, size, PROVEN)]
    earlier = sorted({*own, *(old for old in held if 0 < old <= size)})
    proofs = await stored_consistency_proofs(connection, earlier, size)
    return {
        f"consistency/{old}": file_of(each.hex().encode() for each in proof)
        for old, proof in zip(earlier, proofs, strict=True)
    }


async def announced(connection: Connection, size: int) -> dict[str, bytes]:
    """Return the entries that announced new keys, each with its proof under the first checkpoint that covers it."""
    files = dict[str, bytes]()
    for row in await connection.fetch(_ANNOUNCED, size):
        proof = await stored_inclusion_proof(connection, row["place"], row["size"])
        files[f"{ANNOUNCED}/{row['place']}.json"] = row["entry"]
        files[f"{ANNOUNCED}/{row['place']}.tlog-proof"] = str(TlogProof(row["place"], proof, row["note"])).encode()
    return files


async def _contents(
    content: ContentStore | None, workflow_id: str, events: Sequence[Any], erased: Collection[str]
) -> dict[str, bytes]:
    """Return the contents that the events name, and the list of them."""
    names = sorted({name for event in events for name in content_names(objects_of(event["data"]))})
    found, states = dict[str, bytes](), dict.fromkeys(names, "withheld")
    for start in range(0, len(names) if content is not None else 0, TOGETHER):
        some = names[start : start + TOGETHER]
        read = await asyncio.gather(*(_read(content, workflow_id, name) for name in some))
        for name, data in zip(some, read, strict=True):
            if data is not None:
                found[f"blobs/{name}"] = data
            states[name] = "present" if data is not None else "erased" if name in erased else "missing"
    if content is not None and found:
        found["keys/workflow"] = (await content.read_path(f"{workflow_id}/key")).hex().encode()
    listed = [
        {"bytes": len(found[f"blobs/{name}"]) if state == "present" else None, "name": name, "status": state}
        for name, state in states.items()
    ]
    return {**found, "blobs.jsonl": file_of(map(dumps, listed))}


async def _read(content: ContentStore | None, workflow_id: str, name: str) -> bytes | None:
    """Return a content; None if it is not there."""
    if content is None:
        return None
    try:
        return await content.get(workflow_id, name)
    except MissingContent:
        return None


def file_of(lines: Iterable[bytes]) -> bytes:
    """Return a file with these lines."""
    return b"".join(line + b"\n" for line in lines)
