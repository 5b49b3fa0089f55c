"""A forger, who mends everything in a bundle that can be mended without the key of the ledger."""

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import orjson

from poweron_events.codec import dumps
from poweron_projections.audit.merkle_tree import leaf_hash
from poweron_projections.audit.verifier.bundle_files import MANIFEST, manifest_of
from poweron_projections.audit.verifier.bundle_timeline import timeline_files

Files = dict[str, bytes]


def changed(files: Mapping[str, bytes], **told: list[bytes]) -> Files:
    """The files with other lines in `events` and `entries`, and a timeline and a manifest that fit."""
    forged = {**files, **{f"{name}.jsonl": b"".join(line + b"\n" for line in each) for name, each in told.items()}}
    with suppress(ValueError, KeyError, TypeError, IndexError):
        events, entries = ([orjson.loads(line) for line in lines(forged, name)] for name in ("events", "entries"))
        forged |= timeline_files(entries[0]["wf"], events, entries, forged)
    return with_manifest(forged)


def with_manifest(files: Mapping[str, bytes]) -> Files:
    rest = {name: data for name, data in files.items() if name != MANIFEST}
    return {MANIFEST: manifest_of(rest), **rest}


def lines(files: Mapping[str, bytes], name: str) -> list[bytes]:
    return files[f"{name}.jsonl"].splitlines()


def edited(line: bytes, **fields: Any) -> bytes:
    return dumps({**orjson.loads(line), **fields})


def body_edited(files: Mapping[str, bytes], place: int) -> list[bytes]:
    """The events, one of which says something else."""
    events = lines(files, "events")
    return [*events[:place], edited(events[place], source="/poweron/forger/1"), *events[place + 1 :]]


def entered(events: list[bytes], entries: list[bytes], place: int) -> list[bytes]:
    """The entries, one of which is about the event that is there now."""
    fields = {"body": hashlib.sha256(events[place]).hexdigest(), "len": len(events[place])}
    return [*entries[:place], edited(entries[place], **fields), *entries[place + 1 :]]


def chained(entries: list[bytes], change: Callable[[int, dict[str, Any]], None] = lambda _, __: None) -> list[bytes]:
    """The entries, each of which names the one before as it is now."""
    told, previous = list[bytes](), ""
    for place, entry in enumerate(map(orjson.loads, entries)):
        entry |= {"prev": previous, "seq": place}
        change(place, entry)
        told.append(dumps(entry))
        previous = leaf_hash(told[-1]).hex()
    return told
